package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/test/e2e/cluster"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// password is what somebody wrote into env.
const password = "hunter2-of-the-story"

// withPassword is a template that holds it.
func withPassword() object {
	return object{"spec": object{"containers": []any{object{
		"name": "web", "image": "nginx", "env": []any{object{"name": "PASSWORD", "value": password}},
	}}}}
}

// kept are the specs in the snapshots of one kind, by name.
func (s *story) kept(kind string) map[string]string {
	s.Helper()
	mine := metav1.ListOptions{LabelSelector: history.NumberLabel}
	specs := map[string]string{}
	if kind == "Secret" {
		list, err := client.CoreV1().Secrets(s.namespace).List(s.ctx, mine)
		s.must(err)
		for _, o := range list.Items {
			if o.Type != history.SecretType || o.Immutable == nil || !*o.Immutable {
				s.Errorf("want an immutable Secret of type %s, got %s, %v", history.SecretType, o.Type, o.Immutable)
			}
			specs[o.Name] = string(o.Data["spec.json"])
		}
		return specs
	}
	list, err := client.CoreV1().ConfigMaps(s.namespace).List(s.ctx, mine)
	s.must(err)
	for _, o := range list.Items {
		specs[o.Name] = o.Data["spec.json"]
	}
	return specs
}

// moved waits until all snapshots are in one kind, as they were.
func (s *story) moved(to string, want map[string]string) {
	s.Helper()
	from := map[string]string{"Secret": "ConfigMap", "ConfigMap": "Secret"}[to]
	s.until(fmt.Sprintf("%d snapshots in %ss", len(want), to), func() (bool, string) {
		is, left := s.kept(to), s.kept(from)
		return len(is) == len(want) && len(left) == 0, fmt.Sprintf("%d, and %d in %ss", len(is), len(left), from)
	})
	if got := s.kept(to); !maps.Equal(want, got) {
		s.Errorf("want the snapshots as they were\n%v\ngot\n%v", want, got)
	}
}

// useComponents installs components on top of what is installed.
func useComponents(s *story, components ...string) {
	s.Helper()
	plane.Components = components
	s.must(plane.Install(s.ctx))
}

// TestSecretSnapshots moves the snapshots of a release into Secrets in the middle of it,
// and back in the end. In between status is wiped, the release goes back to an older
// revision, the component is taken away, and somebody's Secret is in the way. It changes
// the CompositeController for everybody, so it runs before the others.
func TestSecretSnapshots(t *testing.T) {
	s := begin(t, "web")
	s.Cleanup(func() {
		plane.Components = nil
		if err := plane.Install(context.Background()); err != nil {
			s.Error(err)
		}
	})
	s.install(4, object{"batches": []any{object{"replicas": int64(2), "approval": true}}, "template": withPassword()})
	s.patch(object{"targetVersion": "2.0"})
	s.stillHalfway()
	before := s.kept("ConfigMap")
	if len(before) != 2 || !strings.Contains(before["web-rev-1"], password) {
		t.Fatalf("want two snapshots with the password, got %v", before)
	}

	// Without the component the spec is refused, and all stays.
	s.patch(object{"snapshotKind": "Secret"})
	s.phase(greyrelease.PhaseInvalid)
	s.says("manifests/overlays/secret-snapshots")
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.quiet()
	count := s.writes()
	useComponents(s, "secret-snapshots")
	s.moved("Secret", before)
	s.stillHalfway()
	s.quiet()
	list, err := plane.Writes(cluster.Metacontroller, s.namespace)
	s.must(err)
	_, text := cluster.Count(list[count:])
	t.Logf("two snapshots moved into Secrets by %s", text)
	all, err := client.CoreV1().ConfigMaps(s.namespace).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	for _, m := range all.Items {
		if text := m.String(); strings.Contains(text, password) {
			t.Errorf("want no password in a ConfigMap, got it in %s", m.Name)
		}
	}

	s.merge(object{"status": nil}, "status")
	s.stillHalfway()
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
	s.patch(object{"rollbackTo": int64(1)})
	s.settled("1.0")
	s.pods(map[string]int{"1.0": 4})
	s.made(map[string]int{"1.0": 8, "2.0": 4})
	s.idle()
	count = s.writes()
	time.Sleep(time.Minute)
	if got := s.writes(); got != count {
		t.Errorf("want no write in a minute, got %d", got-count)
	}

	// The component goes: what Metacontroller does not send is not taken for lost.
	useComponents(s)
	s.patch(object{"paused": nil, "rollbackTo": nil, "targetVersion": "3.0"})
	s.phase(greyrelease.PhaseInvalid)
	s.patch(object{"snapshotKind": "ConfigMap"})
	s.says("revisions are still kept in Secrets")
	s.says("kubectl annotate configmap web-rollout -n " + s.namespace)
	s.stays(map[string]int{"1.0": 4})
	if secrets, others := s.kept("Secret"), s.kept("ConfigMap"); len(secrets) != 2 || len(others) != 0 {
		t.Errorf("want two Secrets and no other snapshot, got %d and %d", len(secrets), len(others))
	}

	// With it comes the third version, whose name somebody has taken.
	foreign, err := client.CoreV1().Secrets(s.namespace).Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "web-rev-3"}, Data: map[string][]byte{"password": []byte("another")},
	}, metav1.CreateOptions{})
	s.must(err)
	s.patch(object{"snapshotKind": "Secret"})
	useComponents(s, "secret-snapshots")
	s.says("Secret web-rev-3")
	s.stays(map[string]int{"1.0": 4})
	now, err := client.CoreV1().Secrets(s.namespace).Get(s.ctx, "web-rev-3", metav1.GetOptions{})
	s.must(err)
	if now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("want somebody's Secret untouched, got %v", now.ObjectMeta)
	}
	for _, event := range s.refusals() {
		t.Logf("event: %s", event)
	}
	s.kubectl("delete", "secret", "web-rev-3")
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "3.0": 2})
	st, _ := s.status()
	if st.TargetRevision != 3 {
		t.Errorf("want revision 3, got %d", st.TargetRevision)
	}
	s.command("promote")
	s.settled("3.0")

	// Back, and once more in a hurry.
	specs := s.kept("Secret")
	if names := slices.Sorted(maps.Keys(specs)); !slices.Equal(names, []string{"web-rev-1", "web-rev-2", "web-rev-3"}) {
		t.Errorf("want three snapshots, got %v", names)
	}
	s.patch(object{"snapshotKind": nil})
	s.moved("ConfigMap", specs)
	s.patch(object{"snapshotKind": "Secret"})
	s.patch(object{"snapshotKind": nil})
	s.moved("ConfigMap", specs)
	s.settled("3.0")
	s.idle()
	s.patch(object{"snapshotKind": "Secret"})
	s.moved("Secret", specs)

	s.delete(metav1.DeletePropagationBackground)
	s.eventually("no Secret", func() (bool, string) {
		n := len(s.kept("Secret"))
		return n == 0 && s.children() == 0, fmt.Sprintf("%d, and %d others", n, s.children())
	})
	for _, name := range []string{"greyrelease.log", "metacontroller.log"} {
		log, err := os.ReadFile(filepath.Join(plane.Dir, name))
		s.must(err)
		if bytes.Contains(log, []byte(password)) {
			t.Errorf("want no password in %s", name)
		}
	}
}
