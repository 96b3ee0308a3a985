package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// may asks the API server whether somebody may do something.
func may(t *testing.T, who authv1.SubjectAccessReviewSpec, verb, group, resource, namespace string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	who.ResourceAttributes = &authv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace}
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authv1.SubjectAccessReview{Spec: who}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// TestMetacontrollerRights has a release of every kind of child go out and fail, while
// Metacontroller has the shipped role alone, as in all stories: it misses no right, and
// has none of those that would make it an administrator.
func TestMetacontrollerRights(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	s.create(spec(2, "1.0", object{"progressDeadlineSeconds": int64(10), "traffic": object{
		"serviceName": "root", "ports": []any{object{"port": int64(80)}},
		"ingress": object{"host": "web.example.com"},
	}}))
	s.settled("1.0")
	s.patch(object{"targetVersion": "2.0", "template": behaving("crash")})
	s.phase(greyrelease.PhaseRolledBack)
	s.patch(object{"traffic": nil}) // children are deleted, too
	s.until("no Ingress", func() (bool, string) {
		out := s.kubectl("get", "ingresses", "-o", "name")
		return out == "" || strings.HasPrefix(out, "No resources"), out
	})
	writes, err := plane.Writes(cluster.Metacontroller, s.namespace)
	s.must(err)
	if len(writes) == 0 {
		t.Error("want writes of the user metacontroller, there are none")
	}
	for _, w := range writes {
		if w.Code == 403 {
			t.Errorf("want no write refused, got %+v", w)
		}
	}
	log, err := os.ReadFile(filepath.Join(plane.Dir, "metacontroller.log"))
	s.must(err)
	for line := range strings.Lines(string(log)) {
		// What is said of others can be of a time when an API server had just started.
		if strings.Contains(line, "is forbidden") && strings.Contains(line, s.namespace) {
			t.Errorf("want nothing forbidden to Metacontroller, got %s", line)
		}
	}
	who := authv1.SubjectAccessReviewSpec{User: cluster.Metacontroller}
	for _, seen := range []struct{ group, resource string }{
		{greyrelease.Group, greyrelease.Resource}, {"metacontroller.k8s.io", "compositecontrollers"}, {"metacontroller.k8s.io", "controllerrevisions"},
		{"apps", "deployments"}, {"", "configmaps"}, {"", "services"}, {"networking.k8s.io", "ingresses"}, {"gateway.networking.k8s.io", "httproutes"},
		{"discovery.k8s.io", "endpointslices"}, {"", "pods"}, {"", "namespaces"}, {"apiextensions.k8s.io", "customresourcedefinitions"},
	} {
		for _, verb := range []string{"list", "watch"} {
			if !may(t, who, verb, seen.group, seen.resource, "") {
				t.Errorf("want Metacontroller to %s %s, it may not", verb, seen.resource)
			}
		}
	}
	for _, right := range []struct{ verb, group, resource string }{
		{"*", "*", "*"}, {"get", "", "secrets"}, {"list", "", "secrets"}, {"create", "", "pods"}, {"create", "", "pods/exec"}, {"create", "", "serviceaccounts/token"},
		{"create", rbacv1.GroupName, "clusterrolebindings"}, {"escalate", rbacv1.GroupName, "clusterroles"}, {"impersonate", "", "users"},
		{"update", "", "nodes"}, {"delete", "", "namespaces"}, {"create", "apps", "daemonsets"},
		{"create", greyrelease.Group, greyrelease.Resource}, {"update", greyrelease.Group, greyrelease.Resource}, {"delete", greyrelease.Group, greyrelease.Resource},
		{"create", "admissionregistration.k8s.io", "validatingwebhookconfigurations"}, {"update", "metacontroller.k8s.io", "compositecontrollers"},
	} {
		if may(t, who, right.verb, right.group, right.resource, "") {
			t.Errorf("want Metacontroller not to %s %s %s, it may", right.verb, right.group, right.resource)
		}
	}
}

// TestUserRights gives people the cluster's own roles in one namespace. Those who may
// edit there may edit releases, those who may view may view them, and nobody may do
// either elsewhere or write a status.
func TestUserRights(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	for role, user := range map[string]string{"edit": "ed", "view": "vi", "admin": "ada"} {
		_, err := client.RbacV1().RoleBindings(s.namespace).Create(s.ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
		s.must(err)
	}
	answers := func(user, verb, resource, namespace string) string {
		s.Helper()
		resource, subresource, _ := strings.Cut(resource, "/")
		// It ends with an error where the answer is no.
		out, _ := plane.Kubectl(s.ctx, "auth", "can-i", verb, resource, "--subresource="+subresource, "-n", namespace, "--as", user)
		lines := strings.Fields(out)
		if len(lines) == 0 {
			return "nothing"
		}
		return lines[len(lines)-1]
	}
	// The binding takes effect a moment later.
	s.until("rights", func() (bool, string) {
		got := answers("ada", "create", "greyreleases.greyrelease.example.com", s.namespace)
		return got == "yes", got
	})
	const gr = "greyreleases.greyrelease.example.com"
	for _, test := range []struct{ user, verb, resource, want string }{
		{"ada", "delete", gr, "yes"}, {"ada", "update", gr + "/status", "no"},
		{"ed", "create", gr, "yes"}, {"ed", "patch", gr, "yes"}, {"ed", "delete", gr, "yes"}, {"ed", "patch", gr + "/scale", "yes"}, {"ed", "update", gr + "/status", "no"},
		{"vi", "get", gr, "yes"}, {"vi", "list", gr, "yes"}, {"vi", "get", gr + "/status", "yes"},
		{"vi", "create", gr, "no"}, {"vi", "patch", gr, "no"}, {"vi", "delete", gr, "no"}, {"vi", "patch", gr + "/scale", "no"},
		{"somebody", "get", gr, "no"},
	} {
		if got := answers(test.user, test.verb, test.resource, s.namespace); test.want != got {
			t.Errorf("%s %s %s: want %s, got %s", test.user, test.verb, test.resource, test.want, got)
		}
		if got := answers(test.user, test.verb, test.resource, "default"); got != "no" {
			t.Errorf("%s %s %s elsewhere: want no, got %s", test.user, test.verb, test.resource, got)
		}
	}
	// And for real: ed releases, and vi may look at it but not promote.
	as := func(user string) kubernetes.Interface {
		config := rest.CopyConfig(plane.Config(cluster.Tester))
		config.Impersonate.UserName = user
		return kubernetes.NewForConfigOrDie(config)
	}
	path := "/apis/" + greyrelease.APIVersion + "/namespaces/" + s.namespace + "/" + greyrelease.Resource
	body, err := s.release(spec(1, "1.0", nil)).MarshalJSON()
	s.must(err)
	s.must(as("ed").Discovery().RESTClient().Post().AbsPath(path).Body(body).Do(s.ctx).Error())
	s.settled("1.0")
	s.must(as("vi").Discovery().RESTClient().Get().AbsPath(path + "/web").Do(s.ctx).Error())
	for user, want := range map[string]bool{"vi": false, "ed": true} {
		_, err := plane.Kubectl(s.ctx, "-n", s.namespace, "--as", user, "annotate", "gr", "web", "greyrelease.example.com/command=retry 1.1", "--overwrite")
		if (err == nil) != want {
			t.Errorf("%s annotates: want %v, got %v", user, want, err)
		}
	}
	// A right on releases is a right on pods under any service account of the namespace,
	// so that it goes to those who have that already.
	for _, user := range []string{"ed", "ada"} {
		if !may(t, authv1.SubjectAccessReviewSpec{User: user}, "create", "apps", "deployments", s.namespace) {
			t.Errorf("want %s to create Deployments, which is as much", user)
		}
	}
}

// TestServicePodsAreRestricted lets the API server judge the pods of manifests/, in a
// namespace that enforces Pod Security's strictest level, as the shipped one does. A pod
// that asks for more is refused there.
func TestServicePodsAreRestricted(t *testing.T) {
	t.Parallel()
	const namespace = "greyrelease-system"
	ns, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ns.Labels["pod-security.kubernetes.io/enforce"]; got != "restricted" {
		t.Errorf("want the namespace to enforce restricted, got %q", got)
	}
	seen, ok := wait(func() (bool, string) {
		d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "greyrelease", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, c := range d.Status.Conditions {
			if c.Type == "ReplicaFailure" {
				return false, c.Message
			}
		}
		return d.Status.Replicas == 2 && d.Status.UpdatedReplicas == 2, d.Status.String()
	})
	if !ok {
		t.Fatalf("want the pods of the Deployment accepted, got %s", seen)
	}
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=greyrelease"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("want pods, got %v", err)
	}
	pod := pods.Items[0]
	if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken || len(pod.Spec.Volumes) > 0 {
		t.Errorf("want no token and no volume in the pod, got %+v", pod.Spec)
	}
	pod.ObjectMeta = metav1.ObjectMeta{Name: "laxer", Namespace: namespace}
	pod.Spec.NodeName = ""
	escalate := true
	pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = &escalate
	_, err = client.CoreV1().Pods(namespace).Create(t.Context(), &pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "allowPrivilegeEscalation != false") {
		t.Errorf("want a pod that may escalate refused by Pod Security, got %v", err)
	}
}
