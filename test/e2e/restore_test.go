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

// The stories of this file begin before those that run in parallel, because they
// stop the service, and end among them: a record that is newer than its release
// looks like an old cache for a minute, and nothing is done.

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
	s.away(lines[2:], func(lines []string) { s.script(folder, lines...) })

	t.Parallel()
	s.stillHalfway()
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	is, _ := s.status()
	if want, got := fmt.Sprint(was.History), fmt.Sprint(is.History); want != got {
		t.Errorf("want history %s, got %s", want, got)
	}
	s.finish(map[string]int{"1.0": 4, "2.0": 4})
}

// TestRestoreElsewhere restores backups of a release that was halfway where it gets
// another uid, by the documented lines. One has the Deployments in it, the other
// not.
func TestRestoreElsewhere(t *testing.T) {
	from := halfway(begin(t, "web"))
	was, _ := from.status()
	configMaps, deployments := corev1.SchemeGroupVersion.WithResource("configmaps"), appsv1.SchemeGroupVersion.WithResource("deployments")
	with, without := begin(t, "web"), begin(t, "web")
	lines := documented(t, "docs/operations.md", "Backup and restore")
	from.away(lines, func(lines []string) {
		with.script(from.backup(configMaps, deployments), lines...)
		without.script(from.backup(configMaps), lines...)
	})

	t.Parallel()
	for _, s := range []*story{with, without} {
		s.stillHalfway()
		s.guard.keep(4)
		s.guard.limit(4 + surge(4))
		s.stays(map[string]int{"1.0": 2, "2.0": 2})
		is, _ := s.status()
		if want, got := fmt.Sprint(was.History), fmt.Sprint(is.History); want != got {
			t.Errorf("want history %s, got %s", want, got)
		}
		s.finish(map[string]int{"1.0": s.guard.createdPods()["1.0"], "2.0": 4})
	}
	// Where it was taken from nothing has changed.
	from.stays(map[string]int{"1.0": 2, "2.0": 2})
}

// backup writes the release and its children of some kinds to files, as a backup
// has them, and returns their folder.
func (s *story) backup(kinds ...schema.GroupVersionResource) string {
	s.Helper()
	folder := s.TempDir()
	u, err := s.gr().Get(s.ctx, s.name, metav1.GetOptions{})
	s.must(err)
	s.write(filepath.Join(folder, "web.yaml"), bare(u))
	var children []object
	for _, kind := range kinds {
		list, err := dyn.Resource(kind).Namespace(s.namespace).List(s.ctx, metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=web"})
		s.must(err)
		for i := range list.Items {
			children = append(children, bare(&list.Items[i]))
		}
	}
	s.write(filepath.Join(folder, "children.yaml"), children...)
	return folder
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
