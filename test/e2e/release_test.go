package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// surge is the default maxSurge of n replicas: a quarter, rounded up.
func surge(n int) int { return (n + 3) / 4 }

// installed begins a story in which version 1.0 of n replicas is out, and the
// promises of maxUnavailable 0 and the default surge hold from then on.
func installed(t *testing.T, n int, more object) *story {
	t.Helper()
	t.Parallel()
	s := begin(t, "web")
	s.install(n, more)
	return s
}

func (s *story) install(n int, more object) {
	s.Helper()
	s.create(spec(int64(n), "1.0", more))
	s.settled("1.0")
	s.pods(map[string]int{"1.0": n})
	s.guard.keep(n)
	s.guard.limit(n + surge(n))
}

// made checks how many pods of each version were ever created.
func (s *story) made(want map[string]int) {
	s.Helper()
	if got := s.guard.createdPods(); !maps.Equal(got, want) {
		s.Errorf("want pods created %v, got %v", want, got)
	}
}

// steps checks that a version's Deployment grew, or shrank, through these sizes.
// Others in between are fine as long as the direction holds.
func (s *story) steps(version string, want ...int32) {
	s.Helper()
	got, _ := s.guard.asks(version)
	next := 0
	for i, n := range got {
		if next < len(want) && n == want[next] {
			next++
		}
		if i > 0 && (n > got[i-1]) != (want[len(want)-1] > want[0]) {
			next = -1
			break
		}
	}
	if next != len(want) {
		s.Errorf("want %s to be asked for %v one after the other, got %v", version, want, got)
	}
}

// TestInstall installs as shipped and makes a first release. Its columns are those
// of UX-06, and an idle release costs nothing (TI-06).
func TestInstall(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	// Pods of the service as shipped pass the checks of their namespace.
	out, err := plane.Kubectl(s.ctx, "-n", "greyrelease-system", "rollout", "status", "deployment/greyrelease", "--timeout=60s")
	s.must(err)
	if want := `deployment "greyrelease" successfully rolled out`; !strings.Contains(out, want) {
		t.Errorf("want %q, got %q", want, out)
	}
	if out := s.kubectl("explain", "gr.spec.batchSize"); !strings.Contains(out, "Pods moved to the new version in each batch") {
		t.Errorf("want the description of batchSize, got %q", out)
	}

	s.install(5, nil)
	s.kubectl("wait", "--for=condition=Ready", "gr/web", "--timeout=60s")
	s.made(map[string]int{"1.0": 5})
	snapshot, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, "web-rev-1", metav1.GetOptions{})
	s.must(err)
	if snapshot.Immutable == nil || !*snapshot.Immutable {
		t.Errorf("want the snapshot immutable, got %v", snapshot.Immutable)
	}
	if owner := metav1.GetControllerOf(snapshot); owner == nil || owner.Name != "web" {
		t.Errorf("want the snapshot owned by web, got %v", owner)
	}
	columns := strings.Fields(s.kubectl("get", "gr"))
	if want := []string{"NAME", "PHASE", "TARGET", "STABLE", "BATCH", "WEIGHT", "READY", "AGE", "web", "Healthy", "1.0", "1.0"}; len(columns) < len(want) || !slices.Equal(columns[:len(want)], want) {
		t.Errorf("want columns %v, got %v", want, columns)
	}
	s.idle()
}

// TestDerivedBatches goes through 1, 4, 7 and 10 of 10 pods, by canaryWeight and
// batchSize.
func TestDerivedBatches(t *testing.T) {
	s := installed(t, 10, object{"canaryWeight": int64(10), "batchSize": int64(3)})
	before := s.writes()
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 10})
	s.made(map[string]int{"1.0": 10, "2.0": 10})
	s.steps("2.0", 1, 4, 7, 10)
	s.steps("1.0", 10, 9, 6, 3, 0)
	s.quiet()
	t.Logf("%d writes for the release", s.writes()-before)
	s.idle()
}

// TestExplicitBatches goes through four batches given in percent.
func TestExplicitBatches(t *testing.T) {
	s := installed(t, 10, object{"batches": []any{
		object{"replicas": "20%"}, object{"replicas": "40%"}, object{"replicas": "60%"}, object{"replicas": "80%"},
	}})
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 10})
	s.made(map[string]int{"1.0": 10, "2.0": 10})
	s.steps("2.0", 2, 4, 6, 8, 10)
	s.steps("1.0", 10, 8, 6, 4, 2, 0)
}

// TestApproval approves by the line that the message prints, twice.
func TestApproval(t *testing.T) {
	s := installed(t, 4, object{"batches": []any{
		object{"replicas": int64(1), "approval": true}, object{"replicas": "50%", "approval": true},
	}})
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.stays(map[string]int{"1.0": 3, "2.0": 1})
	s.command("promote")
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.phase(greyrelease.PhasePaused)
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
	s.made(map[string]int{"1.0": 4, "2.0": 4})
}

// TestAbort gives up by the line that the message prints, and tries again by the
// next one (a part of RB-02).
func TestAbort(t *testing.T) {
	s := installed(t, 4, object{"batches": []any{object{"replicas": int64(2), "approval": true}}})
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.command("abort")
	s.phase(greyrelease.PhaseRolledBack)
	s.stays(map[string]int{"1.0": 4})
	s.command("retry")
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
}

// TestSoak proves AM-09: nothing but time ends a soak, and not too early.
func TestSoak(t *testing.T) {
	const soak = 5
	s := installed(t, 4, object{"batchSize": int64(2), "soakSeconds": int64(soak)})
	s.patch(object{"targetVersion": "2.0"})
	s.says("soaking until")
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	full := time.Now()
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
	sizes, at := s.guard.asks("2.0")
	i := slices.Index(sizes, 4)
	if i < 0 {
		t.Fatalf("want 2.0 asked for 4, got %v", sizes)
	}
	// The batch was full when it was seen so, or a moment before.
	if waited := at[i].Sub(full); waited < (soak-2)*time.Second {
		t.Errorf("want a soak of %d s, got %v", soak, waited)
	}
}

// TestThirdVersion proves RB-04 and a part of CS-07.
func TestThirdVersion(t *testing.T) {
	s := installed(t, 4, object{"batches": []any{object{"replicas": int64(2), "approval": true}}})
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.patch(object{"targetVersion": "3.0"})
	s.phase(greyrelease.PhasePaused)
	// An approval of 2.0 is none of 3.0.
	s.stays(map[string]int{"1.0": 2, "3.0": 2})
	s.command("promote")
	s.settled("3.0")
	s.pods(map[string]int{"3.0": 4})
}

// TestRevert proves LC-13: the pods of the stable version that are there stay.
func TestRevert(t *testing.T) {
	s := installed(t, 4, object{"batches": []any{object{"replicas": int64(2), "approval": true}}})
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.patch(object{"targetVersion": "1.0"})
	s.settled("1.0")
	s.pods(map[string]int{"1.0": 4})
	// Two of 1.0 had gone, so two were made again, and no more.
	s.made(map[string]int{"1.0": 6, "2.0": 2})
}

// TestRollbackTo pins the first revision and lets go of it. What was left that way is
// not tried again by itself (RB-01).
func TestRollbackTo(t *testing.T) {
	s := installed(t, 4, nil)
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
	s.patch(object{"rollbackTo": int64(1)})
	s.settled("1.0")
	s.pods(map[string]int{"1.0": 4})
	s.patch(object{"rollbackTo": nil})
	s.phase(greyrelease.PhaseRolledBack)
	s.stays(map[string]int{"1.0": 4})
	s.command("retry")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
}

// TestSettingsRestartNothing edits all but the template: no pod is made.
func TestSettingsRestartNothing(t *testing.T) {
	s := installed(t, 4, nil)
	s.patch(object{"maxSurge": int64(2), "progressDeadlineSeconds": int64(300), "soakSeconds": int64(1), "batchSize": int64(2)})
	s.settled("1.0")
	s.stays(map[string]int{"1.0": 4})
	s.made(map[string]int{"1.0": 4})
}

// TestSlowPods proves RM-09: the old version shrinks by what is available of the new
// one. It takes five seconds for a pod to become ready, and four for one to go.
func TestSlowPods(t *testing.T) {
	template := behaving("slow")
	template["metadata"].(object)["annotations"].(object)["test/end"] = "slow"
	template["spec"].(object)["terminationGracePeriodSeconds"] = int64(4)
	s := installed(t, 4, object{"template": template, "batchSize": int64(2)})
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
	s.made(map[string]int{"1.0": 4, "2.0": 4})
}
