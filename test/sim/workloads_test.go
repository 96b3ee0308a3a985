package sim

import (
	"testing"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// pods is a cluster with a Deployment of four pods that have been ready for a minute.
func pods(t *testing.T) (*Cluster, Ref) {
	t.Helper()
	c := New(Options{}, silent)
	d := create(t, c, deploymentYAML)
	mustRun(t, c, time.Minute)
	wantPods(t, c, d.Ref, 4, 4, 4)
	return c, d.Ref
}

func mustRun(t *testing.T, c *Cluster, d time.Duration) {
	t.Helper()
	if err := c.Run(d); err != nil {
		t.Fatal(err)
	}
}

func wantPods(t *testing.T, c *Cluster, ref Ref, count, ready, available int64) {
	t.Helper()
	w := c.Workload(ref)
	if w.Pods != count || w.Ready != ready || w.Available != available {
		t.Errorf("want %d/%d/%d pods, ready and available, got %d/%d/%d", count, ready, available, w.Pods, w.Ready, w.Available)
	}
}

func condition(c *Cluster, ref Ref, kind string) (status, reason string) {
	cond := find(apply.List(c.Server.Get(ref).Tree, "status", "conditions"), kind)
	return apply.Text(cond, "status"), apply.Text(cond, "reason")
}

func mustScale(t *testing.T, c *Cluster, ref Ref, n int64) {
	t.Helper()
	if err := c.Scale(ref, n); err != nil {
		t.Fatal(err)
	}
}

func TestStatusFollowsThePods(t *testing.T) {
	c, ref := pods(t)
	d := c.Server.Get(ref)
	for name, want := range map[string]int64{"replicas": 4, "updatedReplicas": 4, "readyReplicas": 4, "availableReplicas": 4, "observedGeneration": 1} {
		if got := d.Int("status", name); want != got {
			t.Errorf("%s: want %d, got %d", name, want, got)
		}
	}
	if apply.Field(d.Tree, "status", "unavailableReplicas") != nil {
		t.Error("want counts of zero left out")
	}
	if d.Annotation(revisionAnnotation) != "1" {
		t.Errorf("want revision 1, got %q", d.Annotation(revisionAnnotation))
	}
}

// The generation is taken over at once and the counts when the set has acted, so
// that for a moment a status looks settled and is not.
func TestStatusShowsTheGenerationBeforeTheCounts(t *testing.T) {
	c, ref := pods(t)
	mustScale(t, c, ref, 2)
	seen := false
	if _, err := c.Until(time.Second, func() bool {
		d := c.Server.Get(ref)
		seen = seen || d.Int("status", "observedGeneration") == 2 && d.Int("status", "availableReplicas") == 4
		return d.Int("status", "availableReplicas") == 2
	}); err != nil {
		t.Fatal(err)
	}
	if !seen {
		t.Error("want a status of the new generation with the old counts in between")
	}
}

func TestScaleDownTakesTheUselessFirst(t *testing.T) {
	c := New(Options{}, silent)
	d := create(t, c, deploymentYAML)
	mustRun(t, c, time.Minute)
	c.Behave("1", Behavior{Hang: true})
	mustScale(t, c, d.Ref, 6)
	mustRun(t, c, time.Minute)
	wantPods(t, c, d.Ref, 6, 4, 4)
	mustScale(t, c, d.Ref, 4)
	mustRun(t, c, time.Minute)
	wantPods(t, c, d.Ref, 4, 4, 4)
}

func TestMinReadySeconds(t *testing.T) {
	c, ref := pods(t)
	if err := c.Edit(ref, map[string]any{"spec": map[string]any{"minReadySeconds": int64(30), "replicas": int64(5)}}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, 20*time.Second)
	wantPods(t, c, ref, 5, 5, 4)
	if got := c.Server.Get(ref).Int("status", "availableReplicas"); got != 4 {
		t.Errorf("want 4 available in the status, got %d", got)
	}
	mustRun(t, c, 15*time.Second)
	wantPods(t, c, ref, 5, 5, 5)
	if got := c.Server.Get(ref).Int("status", "availableReplicas"); got != 5 {
		t.Errorf("want 5 available in the status, got %d", got)
	}
}

// A restart of a Deployment of four with surge 25% and nothing unavailable goes
// pod by pod: five at most, four available at least.
func TestRestartKeepsTheDeploymentsPromise(t *testing.T) {
	c, ref := pods(t)
	c.Behave("1", Behavior{Ready: 5 * time.Second})
	if err := c.Edit(ref, map[string]any{"spec": map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxUnavailable": int64(0)}}}}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	if err := c.RestartRollout(ref); err != nil {
		t.Fatal(err)
	}
	fewest, most := int64(4), int64(4)
	c.Look = func() {
		w := c.Workload(ref)
		fewest, most = min(fewest, w.Available), max(most, w.Pods)
	}
	mustRun(t, c, time.Minute)
	wantPods(t, c, ref, 4, 4, 4)
	if fewest != 4 || most != 5 {
		t.Errorf("want 4 available and 5 pods on the way, got %d and %d", fewest, most)
	}
	if got := c.Server.Get(ref).Annotation(revisionAnnotation); got != "2" {
		t.Errorf("want revision 2, got %s", got)
	}
}

// Once a template was available as a whole, Progressing never speaks of its pods
// again: scaled from 0 with a bad image it still says all is well.
func TestOldConditionsStay(t *testing.T) {
	c, ref := pods(t)
	mustScale(t, c, ref, 0)
	mustRun(t, c, time.Minute)
	c.Behave("1", Behavior{Image: true})
	mustScale(t, c, ref, 1)
	mustRun(t, c, time.Hour)
	wantPods(t, c, ref, 1, 0, 0)
	if status, reason := condition(c, ref, "Progressing"); status != "True" || reason != "NewReplicaSetAvailable" {
		t.Errorf("want Progressing=True NewReplicaSetAvailable, got %s %s", status, reason)
	}
}

func TestProgressDeadline(t *testing.T) {
	c := New(Options{}, silent)
	c.Behave("1", Behavior{Crash: true})
	d := create(t, c, deploymentYAML)
	mustRun(t, c, 9*time.Minute)
	if status, _ := condition(c, d.Ref, "Progressing"); status != "True" {
		t.Errorf("want Progressing=True before the deadline, got %s", status)
	}
	mustRun(t, c, 2*time.Minute)
	if status, reason := condition(c, d.Ref, "Progressing"); status != "False" || reason != "ProgressDeadlineExceeded" {
		t.Errorf("want Progressing=False ProgressDeadlineExceeded, got %s %s", status, reason)
	}
	if p := c.Pods(d.Ref)[0]; p.Reason != "CrashLoopBackOff" || p.Restarts(c.Now()) < 5 {
		t.Errorf("want a crash loop, got %s with %d restarts", p.Reason, p.Restarts(c.Now()))
	}
}

func TestQuota(t *testing.T) {
	c, ref := pods(t)
	c.Quota = 5
	mustScale(t, c, ref, 8)
	mustRun(t, c, time.Minute)
	wantPods(t, c, ref, 5, 5, 5)
	if status, reason := condition(c, ref, "ReplicaFailure"); status != "True" || reason != "FailedCreate" {
		t.Errorf("want ReplicaFailure=True FailedCreate, got %s %s", status, reason)
	}
	c.Quota = 0
	mustRun(t, c, 5*time.Minute)
	wantPods(t, c, ref, 8, 8, 8)
	if status, _ := condition(c, ref, "ReplicaFailure"); status != "" {
		t.Errorf("want ReplicaFailure gone, got %s", status)
	}
}

func TestPodsWithoutRoomStayPending(t *testing.T) {
	c, ref := pods(t)
	c.Capacity = 6
	mustScale(t, c, ref, 8)
	mustRun(t, c, time.Minute)
	wantPods(t, c, ref, 8, 6, 6)
	c.KillPods(ref, 1)
	mustRun(t, c, time.Minute)
	wantPods(t, c, ref, 8, 6, 6)
}

func TestTerminatingPodsDoNotCount(t *testing.T) {
	c := New(Options{}, silent)
	c.Behave("1", Behavior{Grace: 20 * time.Second})
	d := create(t, c, deploymentYAML)
	mustRun(t, c, time.Minute)
	mustScale(t, c, d.Ref, 1)
	mustRun(t, c, 10*time.Second)
	wantPods(t, c, d.Ref, 1, 1, 1)
	if got := c.Server.Get(d.Ref).Int("status", "terminatingReplicas"); got != 3 {
		t.Errorf("want 3 terminating, got %d", got)
	}
	mustRun(t, c, 15*time.Second)
	if got := len(c.Pods(d.Ref)); got != 1 {
		t.Errorf("want 1 pod left, got %d", got)
	}
}

func TestNodeLoss(t *testing.T) {
	c, ref := pods(t)
	lost := 0
	for i := range c.nodes {
		if lost == 0 {
			lost = c.LoseNode(i)
		}
	}
	mustRun(t, c, time.Minute)
	wantPods(t, c, ref, 4, 4-int64(lost), 4-int64(lost))
	mustRun(t, c, 5*time.Minute)
	wantPods(t, c, ref, 4, 4, 4)
}

func TestBehaviors(t *testing.T) {
	for _, test := range []struct {
		why   string
		b     Behavior
		after time.Duration
		ready int64
	}{
		{"ready after a while, not yet", Behavior{Ready: 10 * time.Second}, 9 * time.Second, 0},
		{"ready after a while", Behavior{Ready: 10 * time.Second}, 11 * time.Second, 4},
		{"crash after a while, not yet", Behavior{CrashAfter: time.Minute}, 50 * time.Second, 4},
		{"crash after a while", Behavior{CrashAfter: time.Minute}, 70 * time.Second, 0},
		{"flapping, down", Behavior{Up: 10 * time.Second, Down: 10 * time.Second}, 15 * time.Second, 0},
		{"flapping, up", Behavior{Up: 10 * time.Second, Down: 10 * time.Second}, 25 * time.Second, 4},
		{"hang", Behavior{Hang: true}, time.Hour, 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			c := New(Options{}, silent)
			c.Behave("1", test.b)
			d := create(t, c, deploymentYAML)
			mustRun(t, c, test.after)
			wantPods(t, c, d.Ref, 4, test.ready, test.ready)
		})
	}
}

// Without its pods a Deployment is gone at once and they follow; deleted with
// --cascade=orphan it leaves them to the next one of that selector.
func TestDeploymentsComeAndGo(t *testing.T) {
	c, ref := pods(t)
	if err := c.Delete(ref, Orphan); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	if c.Server.Get(ref) != nil {
		t.Fatal("want the Deployment gone")
	}
	create(t, c, deploymentYAML)
	mustRun(t, c, time.Second)
	wantPods(t, c, ref, 4, 4, 4)
	if c.pods != 4 {
		t.Errorf("want the 4 pods taken over, got %d made", c.pods)
	}
	if err := c.Delete(ref, Background); err != nil {
		t.Fatal(err)
	}
	if c.Server.Get(ref) != nil || c.podsIn("default") != 4 {
		t.Errorf("want the Deployment gone before its 4 pods, got %d pods", c.podsIn("default"))
	}
	mustRun(t, c, time.Second)
	if n := c.podsIn("default"); n != 0 {
		t.Errorf("want no pods left, got %d", n)
	}
}
