package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The stories of this file stop the service, so they do not run in parallel.

// TestReadoptAsDocumented proves parts of LC-01 and LC-07. It lets go of a release
// that is halfway: its pods stay as they are, a mixture. It is taken back by the
// lines of README.md, record and history included. No pod notices.
func TestReadoptAsDocumented(t *testing.T) {
	s := halfway(begin(t, "web"))
	was, _ := s.status()
	folder := t.TempDir()
	u, err := s.gr().Get(s.ctx, s.name, metav1.GetOptions{})
	s.must(err)
	s.write(filepath.Join(folder, "web.yaml"), bare(u))
	lines := documented(t, "README.md", "Deleting")
	if len(lines) != 7 || lines[1] != "kubectl delete gr web --cascade=orphan" {
		t.Fatalf("want 7 commands, the second an orphan delete, got %q", lines)
	}
	s.script(folder, lines[1])
	for range 10 {
		time.Sleep(200 * time.Millisecond)
		if got := s.guard.readyEndpoints(); got != 4 {
			t.Fatalf("want 4 endpoints without the release, got %d", got)
		}
	}
	s.away(folder, lines[2:])
	s.stillHalfway()
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	is, _ := s.status()
	if want, got := fmt.Sprint(was.History), fmt.Sprint(is.History); want != got {
		t.Errorf("want history %s, got %s", want, got)
	}
	s.finish(map[string]int{"1.0": 4, "2.0": 4})
}

// TestRestoreElsewhere restores a backup of a release that was halfway where it
// gets another uid, by the documented lines.
func TestRestoreElsewhere(t *testing.T) {
	for name, kinds := range map[string][]schema.GroupVersionResource{
		"with Deployments":    {corev1.SchemeGroupVersion.WithResource("configmaps"), appsv1.SchemeGroupVersion.WithResource("deployments")},
		"without Deployments": {corev1.SchemeGroupVersion.WithResource("configmaps")},
	} {
		t.Run(name, func(t *testing.T) {
			from := halfway(begin(t, "web"))
			folder := t.TempDir()
			u, err := from.gr().Get(from.ctx, from.name, metav1.GetOptions{})
			from.must(err)
			from.write(filepath.Join(folder, "web.yaml"), bare(u))
			var children []object
			for _, kind := range kinds {
				list, err := dyn.Resource(kind).Namespace(from.namespace).List(from.ctx, metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=web"})
				from.must(err)
				for i := range list.Items {
					children = append(children, bare(&list.Items[i]))
				}
			}
			from.write(filepath.Join(folder, "children.yaml"), children...)

			s := begin(t, "web")
			s.away(folder, documented(t, "docs/operations.md", "Backup and restore"))
			// Metacontroller was refused and waits for up to a minute, or for an event.
			s.merge(object{"metadata": object{"annotations": object{"poke": "now"}}})
			s.stillHalfway()
			s.guard.keep(4)
			s.guard.limit(4 + surge(4))
			s.stays(map[string]int{"1.0": 2, "2.0": 2})
			was, _ := from.status()
			is, _ := s.status()
			if want, got := fmt.Sprint(was.History), fmt.Sprint(is.History); want != got {
				t.Errorf("want history %s, got %s", want, got)
			}
			s.finish(map[string]int{"1.0": s.guard.createdPods()["1.0"], "2.0": 4})
			// Where it was taken from nothing has changed.
			from.stays(map[string]int{"1.0": 2, "2.0": 2})
		})
	}
}

// bare is an object as a backup has it: without what a server gives it, and without
// owners.
func bare(u *unstructured.Unstructured) object {
	o := u.DeepCopy().Object
	delete(o, "status")
	meta := object{"name": u.GetName()}
	for _, key := range []string{"labels", "annotations"} {
		if value, ok := o["metadata"].(object)[key]; ok {
			meta[key] = value
		}
	}
	o["metadata"] = meta
	return o
}
