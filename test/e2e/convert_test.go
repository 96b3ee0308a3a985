package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plain is an ordinary Deployment with pods like those of spec, labelled app=web.
func plain(n int32, version string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &n,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "nginx:" + version, Ports: []corev1.ContainerPort{{ContainerPort: 80}},
				}}},
			},
		},
	}
}

// TestConversion proves LC-06: a Deployment and its Service are taken over as
// documented and no endpoint is lost, in either apply strategy. Server-side apply
// would seize what has the name of a child, so the first line looks for that.
func TestConversion(t *testing.T) {
	t.Parallel()
	const replicas = 5
	s := beginServing(t, "web", map[string]string{"app": "web"})
	// Pods take five seconds to be ready: who does not wait for them loses endpoints.
	old := plain(replicas, "1.0")
	old.Spec.Template.Annotations = map[string]string{"test/behave": "slow"}
	_, err := client.AppsV1().Deployments(s.namespace).Create(s.ctx, old, metav1.CreateOptions{})
	s.must(err)
	s.eventually("the plain Deployment out", func() (bool, string) {
		n := s.guard.readyEndpoints()
		return n == replicas, fmt.Sprintf("%d endpoints", n)
	})
	s.guard.keep(replicas)
	service, err := client.CoreV1().Services(s.namespace).Get(s.ctx, "web", metav1.GetOptions{})
	s.must(err)

	folder := t.TempDir()
	release := s.release(spec(replicas, "1.0", nil))
	release.Object["spec"].(object)["template"].(object)["metadata"] = object{
		"labels": object{"app": "web"}, "annotations": object{"test/behave": "slow"},
	}
	s.write(filepath.Join(folder, "web.yaml"), release.Object)

	lines := documented(t, "docs/operations.md", "Taking over a Deployment")
	if len(lines) != 6 {
		t.Fatalf("want 6 commands, got %q", lines)
	}
	// Somebody's object under the name of a child is found before it is too late.
	_, err = client.CoreV1().ConfigMaps(s.namespace).Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web-rollout"}}, metav1.CreateOptions{})
	s.must(err)
	if got, want := s.script(folder, lines[0]), "configmap/web-rollout\n"; got != want {
		t.Fatalf("want %q, got %q", want, got)
	}
	s.must(client.CoreV1().ConfigMaps(s.namespace).Delete(s.ctx, "web-rollout", metav1.DeleteOptions{}))
	if got := s.script(folder, "{ "+lines[0]+"\n} || true"); got != "" {
		t.Fatalf("want no name taken, got %q", got)
	}

	s.script(folder, lines[1:3]...)
	s.until("twice the endpoints", func() (bool, string) {
		n := s.guard.readyEndpoints()
		return n == 2*replicas, fmt.Sprintf("%d endpoints", n)
	})
	if out := s.script(folder, lines[3]); !strings.Contains(out, "web-") {
		t.Errorf("want the slices of web, got %q", out)
	}
	s.script(folder, lines[4:]...)
	s.stays(map[string]int{"1.0": replicas})
	s.settled("1.0")

	deployments, err := client.AppsV1().Deployments(s.namespace).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	if n := len(deployments.Items); n != 1 || metav1.GetControllerOf(&deployments.Items[0]) == nil {
		t.Errorf("want one Deployment, of the release, got %v", deployments.Items)
	}
	now, err := client.CoreV1().Services(s.namespace).Get(s.ctx, "web", metav1.GetOptions{})
	s.must(err)
	if now.ResourceVersion != service.ResourceVersion {
		t.Errorf("want the Service untouched, got %v", now)
	}
	// And a release goes out as any other.
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": replicas})
	s.made(map[string]int{"1.0": replicas, "2.0": replicas})
}
