package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUninstall proves a part of LC-07. It removes GreyRelease in the documented order: one release is
// let go of in the middle of a rollout, and not one of its pods notices, then or
// later; another one is deleted while the service is gone already, and nothing hangs.
func TestUninstall(t *testing.T) {
	t.Cleanup(func() {
		// Everybody else needs it, also if the story ended early.
		ctx := context.Background()
		plane.End("greyrelease", true)
		plane.End("metacontroller", true)
		for _, step := range []func(context.Context) error{plane.Install, plane.StartService, plane.StartMetacontroller} {
			if err := step(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	kept, gone := halfway(begin(t, "web")), begin(t, "web")
	gone.install(2, nil)
	lines := documented(t, "docs/operations.md", "Removing")
	if len(lines) != 3 {
		t.Fatalf("want 3 commands, got %q", lines)
	}
	let := strings.ReplaceAll(lines[0], "NAMESPACE", kept.namespace)
	if want := " --cascade=orphan"; !strings.Contains(let, want) {
		t.Fatalf("want a command with %s, got %q", want, let)
	}

	kept.script(plane.Root, let)
	kept.stays(map[string]int{"1.0": 2, "2.0": 2})
	plane.End("greyrelease", false)
	gone.guard.keep(0)
	gone.script(plane.Root, strings.NewReplacer(kept.namespace, gone.namespace, " --cascade=orphan", "").Replace(let))
	gone.eventually("no children and no pods", func() (bool, string) {
		n, pods := gone.children(), gone.guard.allPods()
		return n == 0 && pods == 0, fmt.Sprintf("%d children, %d pods", n, pods)
	})
	// Namespaces of earlier stories may still be on their way out.
	kept.eventually("no release anywhere", func() (bool, string) {
		out := kept.script(plane.Root, lines[1])
		return strings.Contains(out, "No resources found"), out
	})
	kept.script(plane.Root, lines[2])
	plane.End("metacontroller", false)

	kept.stays(map[string]int{"1.0": 2, "2.0": 2})
	for _, kind := range []string{"crd/greyreleases.greyrelease.example.com", "compositecontroller/greyrelease", "namespace/greyrelease-system"} {
		if out, err := plane.Kubectl(t.Context(), "get", kind); err == nil || !strings.Contains(out, "NotFound") {
			t.Errorf("want %s gone, got %q", kind, out)
		}
	}
	deployments, err := client.AppsV1().Deployments(kept.namespace).List(kept.ctx, metav1.ListOptions{})
	kept.must(err)
	for _, d := range deployments.Items {
		if len(d.OwnerReferences) > 0 {
			t.Errorf("want Deployment %s owned by nobody, got %v", d.Name, d.OwnerReferences)
		}
	}
	// They are the user's own now: one is scaled as any other.
	kept.guard.limit(0)
	kept.kubectl("scale", "deployment", "-l", "greyrelease.example.com/track=canary", "--replicas=4")
	kept.eventually("4 pods of 2.0", func() (bool, string) {
		got := kept.guard.readyPods()
		return got["2.0"] == 4 && got["1.0"] == 2, fmt.Sprint(got)
	})
	kept.made(map[string]int{"1.0": 4, "2.0": 4})
}
