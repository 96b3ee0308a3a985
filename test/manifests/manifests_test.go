// Package manifests checks what is applied to a cluster, before it is.
package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"greyrelease.example.com/hooks/greyrelease"
)

const folder = "../../manifests"

// compositeController has the fields of Metacontroller's kind that we set. It is
// decoded strictly, so another field, as a finalize hook, fails.
type compositeController struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		GenerateSelector bool     `json:"generateSelector"`
		ResyncPeriod     int32    `json:"resyncPeriodSeconds"`
		ParentResource   resource `json:"parentResource"`
		ChildResources   []struct {
			resource       `json:",inline"`
			UpdateStrategy struct {
				Method string `json:"method"`
			} `json:"updateStrategy"`
		} `json:"childResources"`
		Hooks struct {
			Sync      *hook `json:"sync"`
			Customize *hook `json:"customize"`
		} `json:"hooks"`
	} `json:"spec"`
}

type hook struct {
	Version string `json:"version"`
	Webhook struct {
		Service struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
			Port      int32  `json:"port"`
		} `json:"service"`
		Path    string `json:"path"`
		Timeout string `json:"timeout"`
	} `json:"webhook"`
}

type resource struct {
	APIVersion string `json:"apiVersion"`
	Resource   string `json:"resource"`
}

// load decodes the one object of kind, and fails on fields that do not exist.
func load[T any](t *testing.T, kind string) T {
	t.Helper()
	all := loadAll[T](t, kind)
	if len(all) != 1 {
		t.Fatalf("want one %s, got %d", kind, len(all))
	}
	return all[0]
}

func loadAll[T any](t *testing.T, kind string) []T {
	t.Helper()
	var found []T
	for _, file := range files(t) {
		for _, document := range documents(t, file) {
			var meta metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if meta.Kind != kind {
				continue
			}
			var object T
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			found = append(found, object)
		}
	}
	return found
}

func documents(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n---\n")
}

var numbered = regexp.MustCompile(`^[0-9]{2}-[a-z]+\.yaml$`)

// files are the manifests in their order of application.
func files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if numbered.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// A file that kustomization.yaml forgets is never applied; one that is neither
// numbered nor known has no place in the order. The folders are for themselves:
// metacontroller is applied before all others, an overlay and monitoring after them.
func TestKustomizationHasEveryFile(t *testing.T) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	beside := []string{"components", "helm", "kustomization.yaml", "metacontroller", "metacontroller-restricted", "monitoring", "overlays"}
	for _, entry := range entries {
		if name := entry.Name(); !numbered.MatchString(name) && !slices.Contains(beside, name) {
			t.Errorf("want only numbered files beside %v, got %s", beside, name)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
		Images     []struct {
			Name, NewName, NewTag string
		} `json:"images"`
	}
	if err := yaml.UnmarshalStrict(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	if want := files(t); !slices.Equal(want, kustomization.Resources) {
		t.Errorf("want the resources %v, got %v", want, kustomization.Resources)
	}
	image := kustomization.Images[0]
	want := load[appsv1.Deployment](t, "Deployment").Spec.Template.Spec.Containers[0].Image
	if got := image.NewName + ":" + image.NewTag; len(kustomization.Images) != 1 || image.NewName != image.Name || want != got {
		t.Errorf("want the image of the Deployment, %s, got %+v", want, kustomization.Images)
	}
}

// AM-01 (a) and AM-10: each release has a selector of its own, every kind is
// updated in place, and no finalizer can block a deletion.
func TestAM01_AM10_Registration(t *testing.T) {
	spec := load[compositeController](t, "CompositeController").Spec
	if spec.Hooks.Customize != nil {
		t.Error("want no customize hook without an overlay: releases without traffic would pay for it")
	}
	if !spec.GenerateSelector {
		t.Error("want generateSelector, got none: every ConfigMap of a namespace could be adopted and deleted")
	}
	if spec.ResyncPeriod < 60 || spec.ResyncPeriod > 300 {
		t.Errorf("want a release asked for every few minutes, got every %d s: after an outage of the service Metacontroller waits up to 1000 s", spec.ResyncPeriod)
	}
	if want := (resource{greyrelease.APIVersion, greyrelease.Resource}); spec.ParentResource != want {
		t.Errorf("want the parent %v, got %v", want, spec.ParentResource)
	}
	var children []resource
	for _, child := range spec.ChildResources {
		children = append(children, child.resource)
		if child.UpdateStrategy.Method != "InPlace" {
			t.Errorf("%s: want InPlace, got %q", child.Resource, child.UpdateStrategy.Method)
		}
	}
	if want := []resource{{"apps/v1", "deployments"}, {"v1", "configmaps"}, {"v1", "services"}}; !slices.Equal(want, children) {
		t.Errorf("want the children %v, got %v", want, children)
	}
	sync := spec.Hooks.Sync
	if sync.Version != "v2" || sync.Webhook.Path != "/sync" || sync.Webhook.Timeout == "" {
		t.Errorf("want /sync in version v2 with a timeout, got %+v", sync)
	}
	service := load[corev1.Service](t, "Service")
	ref := sync.Webhook.Service
	if ref.Name != service.Name || ref.Namespace != service.Namespace || ref.Port != service.Spec.Ports[0].Port {
		t.Errorf("want the hook at the Service %s/%s:%d, got %+v", service.Namespace, service.Name, service.Spec.Ports[0].Port, ref)
	}
}

// Everything selects the pods of the Deployment, by names that exist.
func TestEverythingMeetsTheDeployment(t *testing.T) {
	deployment := load[appsv1.Deployment](t, "Deployment")
	pods := labels.Set(deployment.Spec.Template.Labels)
	budget, policy := load[policyv1.PodDisruptionBudget](t, "PodDisruptionBudget"), load[networkingv1.NetworkPolicy](t, "NetworkPolicy")
	service := load[corev1.Service](t, "Service")
	for name, selector := range map[string]map[string]string{
		"Deployment":          deployment.Spec.Selector.MatchLabels,
		"Service":             service.Spec.Selector,
		"PodDisruptionBudget": budget.Spec.Selector.MatchLabels,
		"NetworkPolicy":       policy.Spec.PodSelector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pods) {
			t.Errorf("%s: want a selector that meets the pods' labels %v, got %v", name, pods, selector)
		}
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	ports := map[string]bool{}
	for _, port := range container.Ports {
		ports[port.Name] = true
	}
	used := []intstr.IntOrString{container.ReadinessProbe.HTTPGet.Port, container.LivenessProbe.HTTPGet.Port}
	for _, port := range service.Spec.Ports {
		used = append(used, port.TargetPort)
	}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			used = append(used, *port.Port)
		}
	}
	for _, port := range used {
		if !ports[port.String()] {
			t.Errorf("want a port of the container, %v, got %s", slices.Sorted(maps.Keys(ports)), port.String())
		}
	}
	namespace := load[corev1.Namespace](t, "Namespace").Name
	for _, got := range []string{deployment.Namespace, service.Namespace, budget.Namespace, policy.Namespace} {
		if namespace != got {
			t.Errorf("want everything in %s, got %q", namespace, got)
		}
	}
}

// SE-05: the hook has no credentials and no privileges to lend.
func TestSE05_PodIsConfined(t *testing.T) {
	deployment := load[appsv1.Deployment](t, "Deployment")
	pod := deployment.Spec.Template.Spec
	if *deployment.Spec.Replicas < 2 || pod.Affinity.PodAntiAffinity == nil || load[policyv1.PodDisruptionBudget](t, "PodDisruptionBudget").Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("want two replicas apart from each other, drained one at a time")
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" {
		t.Error("want no service account's token in the pod")
	}
	if c := pod.SecurityContext; c == nil || c.RunAsNonRoot == nil || !*c.RunAsNonRoot || c.RunAsUser == nil || *c.RunAsUser == 0 ||
		c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("want a user who is not root and the default seccomp profile, got %+v", c)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Volumes) > 0 {
		t.Error("want nothing of the host and no volumes")
	}
	if *pod.TerminationGracePeriodSeconds <= 25 {
		t.Errorf("want more time to end than the 5 s + 20 s of the hook's own shutdown, got %d", *pod.TerminationGracePeriodSeconds)
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if s == nil || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Contains(s.Capabilities.Drop, "ALL") || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s: want a read-only root and no privileges, got %+v", c.Name, s)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: want requests and a memory limit, got %+v", c.Name, c.Resources)
		}
		if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" {
			t.Errorf("%s: want probes at /readyz and /healthz", c.Name)
		}
	}
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRoleBinding", "ServiceAccount", "Secret"} {
		if n := len(loadAll[metav1.PartialObjectMetadata](t, kind)); n > 0 {
			t.Errorf("want no %s for the hook, got %d", kind, n)
		}
	}
}

// SE-05: the roles cover the product's own kind and nothing else.
func TestSE05_Roles(t *testing.T) {
	roles := loadAll[rbacv1.ClusterRole](t, "ClusterRole")
	if len(roles) == 0 {
		t.Fatal("want roles for users, got none")
	}
	for _, role := range roles {
		for _, rule := range role.Rules {
			if !slices.Equal(rule.APIGroups, []string{greyrelease.Group}) {
				t.Errorf("%s: want rights on %s alone, got %v", role.Name, greyrelease.Group, rule.APIGroups)
			}
			for _, right := range slices.Concat(rule.Resources, rule.Verbs) {
				if strings.Contains(right, "*") || right == "escalate" || right == "bind" {
					t.Errorf("%s: want rights named one by one, got %s", role.Name, right)
				}
			}
		}
	}
}

// SE-03: only Metacontroller reaches the hook, and the hook reaches nobody.
func TestSE03_NetworkPolicy(t *testing.T) {
	spec := load[networkingv1.NetworkPolicy](t, "NetworkPolicy").Spec
	if !slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeEgress) || len(spec.Egress) > 0 {
		t.Errorf("want no way out, got %v %v", spec.PolicyTypes, spec.Egress)
	}
	if !slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
		t.Errorf("want the way in restricted, got %v", spec.PolicyTypes)
	}
	open := 0
	for _, rule := range spec.Ingress {
		if len(rule.Ports) == 0 {
			t.Errorf("want every rule to name its ports, got one that opens all to %+v", rule.From)
		}
		for _, port := range rule.Ports {
			if port.Port.String() != "http" {
				continue
			}
			open++
			if len(rule.From) != 1 || rule.From[0].NamespaceSelector == nil || rule.From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "metacontroller" {
				t.Errorf("want the hook open to Metacontroller's namespace alone, got %+v", rule.From)
			}
		}
	}
	if open != 1 {
		t.Errorf("want one rule for the hook, got %d", open)
	}
}
