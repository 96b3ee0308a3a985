package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Aggregated is the label of the roles whose sum Metacontroller gets.
const Aggregated = "greyrelease.example.com/aggregate-to-metacontroller"

// grant gives Metacontroller its rights: the roles as they are shipped, added up and
// bound as manifests/metacontroller-restricted does it.
func (c *Cluster) grant(ctx context.Context) error {
	if c.Unrestricted {
		return nil
	}
	for _, name := range []string{"base", c.Overlay} {
		if name == "" {
			continue
		}
		if _, err := c.Kubectl(ctx, "apply", "-f", c.rights(name)); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(c.Config(Tester))
	if err != nil {
		return err
	}
	roles := client.RbacV1()
	if _, err := roles.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: Metacontroller},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{Aggregated: "true"}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot create role: %w", err)
	}
	if _, err := roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: Metacontroller},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Metacontroller},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: Metacontroller}},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot bind role: %w", err)
	}
	// A controller adds the roles up.
	return c.eventually(ctx, func(ctx context.Context) error {
		role, err := roles.ClusterRoles().Get(ctx, Metacontroller, metav1.GetOptions{})
		if err == nil && len(role.Rules) == 0 {
			err = fmt.Errorf("role %s has no rules yet", Metacontroller)
		}
		return err
	})
}

// grantSecrets lets Metacontroller read Secrets, or write them, for as long as a
// component needs it.
func (c *Cluster) grantSecrets(ctx context.Context) error {
	for name, needed := range map[string]bool{
		"secrets":          slices.Contains(c.Components, "mtls") || slices.Contains(c.Components, "token"),
		"secret-snapshots": slices.Contains(c.Components, "secret-snapshots"),
	} {
		verb := []string{"delete", "--ignore-not-found"}
		if needed {
			verb = []string{"apply"}
		}
		if _, err := c.Kubectl(ctx, append(verb, "-f", c.rights(name))...); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) rights(name string) string {
	return filepath.Join(c.Root, "manifests", "metacontroller-restricted", name+".yaml")
}
