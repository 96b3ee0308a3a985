package rollout

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// runBroken runs with the first pod of a revision broken for ever.
func (m *model) runBroken(d time.Duration, revision int64) {
	for end := m.now.Add(d); m.now.Before(end); m.now = m.now.Add(time.Second) {
		for range 50 {
			if pods := m.pods[revision]; len(pods) > 0 {
				pods[0] = time.Time{}
			}
			if !m.sync() {
				break
			}
		}
	}
}

// rebuilt loses the record and makes it again from what runs.
func rebuilt(m *model, h Hints) {
	f := m.facts()
	if d := f.of(m.record.Stable.Number); d != nil {
		d.Stable = true
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		d.Counter, d.Attempt = m.record.Counter, 1
		if d.Revision == m.record.Target.Number {
			d.Attempt = m.record.Attempt
			if m.record.Failure != nil {
				d.Failed, d.FailedAttempt = m.record.Failure, m.record.Attempt
			}
		}
	}
	m.record = Rebuild(&m.wish, f, h, m.now)
}

// The service is away in a rollback and somebody scales the old version up.
func TestHandScaledStableKeepsTheFloorInARollback(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.MaxSurge = Quantity{Value: 1}
	m.wish.Settings.Batches = []Batch{{Pods: 8, Approval: true}}
	m.target(2)
	m.run(20 * time.Second)
	m.ready[1] = 30 * time.Second
	m.wish.Command = "abort 2.1"
	m.run(time.Second)
	// the hook is away; somebody scales the old version up by hand.
	m.asked[1] = 10
	m.settle()
	m.now = m.now.Add(time.Minute)
	m.reset()
	m.sync()
	if m.lowest < 10 {
		t.Errorf("floor broken: lowest %d of 10", m.lowest)
	}
}

func TestHeldFirstInstallKeepsItsPods(t *testing.T) {
	m := newModel(t, 10)
	m.wish.Settings.MaxUnavailable = Quantity{Value: 50, Percent: true}
	m.target(1)
	m.runBroken(20*time.Minute, 1)
	if m.asked[1] != 10 {
		t.Errorf("a first install that failed is held at %d of 10 pods", m.asked[1])
	}
	m.wish.Replicas = 20
	m.run(time.Minute)
}

func TestAbortedFirstInstallKeepsItsPods(t *testing.T) {
	m := newModel(t, 10)
	m.wish.Settings.MaxUnavailable = Quantity{Value: 50, Percent: true}
	m.target(1)
	m.runBroken(20*time.Second, 1)
	m.wish.Command = "abort 1.1"
	m.run(time.Minute)
	if m.asked[1] != 10 {
		t.Errorf("aborting a first install leaves %d of 10 pods", m.asked[1])
	}
}

func TestHeldAfterPromoteAllStaysThere(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.AutoRollback = false
	m.wish.Settings.Batches = []Batch{{Pods: 2, Approval: true}, {Pods: 6, Approval: true}}
	m.target(2)
	m.run(2 * time.Second)
	m.wish.Command = "promote 2.1@all"
	m.runBroken(5*time.Minute, 2)
	m.runBroken(20*time.Minute, 2)
	m.run(time.Minute)
	if m.asked[2] != 10 {
		t.Errorf("held at %d of 10 pods", m.asked[2])
	}
}

func TestHeldPinnedRevisionKeepsItsPods(t *testing.T) {
	m := installed(t, 10)
	m.target(2)
	m.until(Complete, time.Minute)
	m.wish.Pin = m.rev[1]
	m.runBroken(5*time.Minute, 1)
	m.runBroken(20*time.Minute, 1)
	m.runBroken(time.Minute, 1)
	if m.asked[1] != 10 {
		t.Errorf("pinned, held at %d of 10 pods", m.asked[1])
	}
}

func TestPausedFirstInstallScales(t *testing.T) {
	m := newModel(t, 4)
	m.ready[1] = time.Hour
	m.target(1)
	m.run(5 * time.Second)
	m.wish.Settings.Paused = true
	m.run(5 * time.Second)
	m.wish.Replicas = 8
	m.run(time.Minute)
	if m.asked[1] != 8 {
		t.Errorf("paused: scaling to 8 left %d pods", m.asked[1])
	}
	m.wish.Replicas = 0
	m.run(time.Minute)
	m.wish.Replicas = 8
	m.run(time.Minute)
}

func TestInvalidFirstInstallScales(t *testing.T) {
	m := newModel(t, 4)
	m.ready[1] = 5 * time.Minute
	m.target(1)
	m.run(5 * time.Second)
	m.wish.Valid = false
	m.wish.Replicas = 8
	m.run(4 * time.Minute)
	if m.asked[1] != 8 {
		t.Errorf("invalid: scaling to 8 left %d pods", m.asked[1])
	}
}

func TestHeldFirstInstallScalesToZeroAndBack(t *testing.T) {
	m := newModel(t, 10)
	m.target(1)
	m.runBroken(20*time.Minute, 1)
	m.wish.Replicas = 0
	m.run(time.Minute)
	m.wish.Replicas = 10
	m.run(time.Minute)
	if m.asked[1] == 0 {
		t.Errorf("held first install: 0 pods of 10 after scaling to 0 and back")
	}
}

func TestLostRecordKeepsWhatAPinLeft(t *testing.T) {
	m := installed(t, 10)
	m.target(2)
	m.until(Complete, time.Minute)
	m.wish.Pin = m.rev[1]
	m.until(Complete, time.Minute)
	rebuilt(m, Hints{Past: []Past{{1, 1}, {2, 1}}, Highest: 2})
	m.run(5 * time.Second)
	m.wish.Pin = Revision{}
	m.run(time.Minute)
	if m.record.Stable.Number == 2 {
		t.Error("revision 2, left by rollbackTo, was released again")
	}
}

// The record and the failed Deployment are both gone; the annotation is not.
func TestStaleRetryDoesNotActAfterLosses(t *testing.T) {
	m := installed(t, 10)
	m.ready[2] = -1
	m.target(2)
	m.until(RolledBack, 30*time.Minute)
	m.wish.Command = "retry 2.1"
	m.run(5 * time.Second)
	m.until(RolledBack, 30*time.Minute)
	h := Hints{History: m.record.History, Highest: 2}
	delete(m.asked, 2)
	delete(m.pods, 2)
	rebuilt(m, h)
	m.run(5 * time.Second)
	if m.record.Stage == Rolling {
		t.Error("what failed twice is retried by a stale command")
	}
}

// The record was stored, then Metacontroller was away for three hours.
func TestNoFailureBeforeAPodWasAskedFor(t *testing.T) {
	m := installed(t, 10)
	m.target(2)
	m.record, _ = Next(m.record, &m.wish, m.facts(), m.now)
	m.now = m.now.Add(3 * time.Hour)
	m.run(5 * time.Second)
	if m.record.Failure != nil || m.record.Target.Number == 2 && m.record.Stage == RolledBack {
		t.Errorf("failed before a pod was asked for: %v", m.record.Failure)
	}
}

func TestApprovalCountsNoShortfalls(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 30, Approval: true}}
	m.target(2)
	m.run(time.Minute)
	for i := range 12 {
		m.run(time.Hour)
		m.pods[2][0] = m.now.Add(5 * time.Second)
		m.run(60 * time.Second)
		if m.record.Stage != Rolling {
			t.Errorf("after %d lost pods, an hour apart, while awaiting approval: %v", i+1, m.record.Failure)
			return
		}
	}
}

func TestEarlyRetryDoesNotActLater(t *testing.T) {
	m := installed(t, 10)
	m.ready[2] = -1
	m.target(2)
	m.run(5 * time.Second)
	m.wish.Command = "retry 2.1"
	m.run(5 * time.Second)
	m.run(11 * time.Minute)
	if m.record.Attempt == 2 {
		t.Error("a refused command acted 10 minutes later: what failed was tried again by itself")
	}
}

func TestLongCommandKeepsTheRecordSmall(t *testing.T) {
	m := installed(t, 3)
	m.wish.Command = "promote " + strings.Repeat("x", 100000)
	m.run(time.Second)
	b, _ := json.Marshal(m.record)
	if len(b) > 20000 {
		t.Errorf("record has %d bytes", len(b))
	}
}

func TestDeletedStableIsMadeAgainWithinTheCeiling(t *testing.T) {
	m := installed(t, 20)
	m.wish.Settings.Batches = []Batch{{Pods: 1, Approval: true}}
	m.target(2)
	m.run(10 * time.Second)
	m.wish.Replicas = 5
	m.run(time.Hour)
	delete(m.asked, 1)
	delete(m.pods, 1)
	m.reset()
	m.sync()
	if m.most > 7 {
		t.Errorf("%d pods asked for, replicas 5, surge 2", m.most)
	}
}

func TestWaitingForApprovalWritesNothing(t *testing.T) {
	m := installed(t, 14)
	m.wish.Settings.Batches = []Batch{{Percent: 50, Approval: true}}
	m.target(2)
	m.run(20 * time.Second)
	m.wish.Replicas = 10
	m.run(30 * time.Second)
	c := m.record.Counter
	m.run(60 * time.Second)
	if m.record.Counter > c {
		t.Errorf("%d records in 60 s of waiting for approval", m.record.Counter-c)
	}
}

func TestScaleInAtAGateIsNoFailure(t *testing.T) {
	m := installed(t, 14)
	m.wish.Settings.Batches = []Batch{{Percent: 50, Approval: true}}
	m.target(2)
	m.run(20 * time.Second)
	m.wish.Replicas = 10
	m.run(30 * time.Second)
	m.run(30 * time.Minute)
	if m.record.Stage != Rolling {
		t.Errorf("healthy version was rolled back at an approval gate: %v", m.record.Failure)
	}
}

func TestScalingDoesNotBreakASoak(t *testing.T) {
	m := installed(t, 20)
	m.wish.Settings.Batches = []Batch{{Percent: 50, SoakSeconds: 3600}}
	m.target(2)
	m.run(60 * time.Second)
	for i := range int64(12) {
		m.wish.Replicas = 20 - 4*(i%2)
		m.run(2 * time.Minute)
	}
	if m.record.Stage != Rolling {
		t.Errorf("healthy version was rolled back: %v", m.record.Failure)
	}
}

func TestPlanEditedToASmallerBatch(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.Batches = []Batch{{Pods: 6, Approval: true}}
	m.target(2)
	m.run(20 * time.Second)
	m.wish.Settings.Batches = []Batch{{Pods: 4, Approval: true}}
	m.run(30 * time.Minute)
	if m.record.Stage != Rolling {
		t.Errorf("rolled back: %v", m.record.Failure)
	}
}

// A restart of the Deployment by hand in the middle of a soak: its status is old,
// so that nothing is judged, and the soak's end must be looked at all the same.
func TestSoakThatCannotBeJudgedWakesUp(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.SoakSeconds = 30
	m.target(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:7/7 2:3/3")
	f := m.facts()
	f.of(2).Current = false
	soaked := due(m.record.Gate.Since, 30)
	if _, wake := Next(m.record, &m.wish, f, m.now); !wake.Equal(soaked) {
		t.Errorf("want a look at the end of the soak, %v, got %v", soaked, wake)
	}
	if _, wake := Next(m.record, &m.wish, f, soaked); !wake.After(soaked) || wake.After(soaked.Add(time.Minute)) {
		t.Errorf("want another look soon after %v, got %v", soaked, wake)
	}
}

// The spec goes back to the stable version while an answer is on its way that
// gives pods to the target: nothing runs yet, and still it is not over.
func TestRevertWhilePodsAreBeingAskedFor(t *testing.T) {
	m := installed(t, 8)
	m.wish.Settings.Batches = []Batch{{Percent: 50, Approval: true}}
	m.target(2)
	m.run(5 * time.Second)
	m.wish.Replicas = 0
	m.run(time.Minute)
	m.reset()
	m.wish.Replicas = 8
	m.sync()
	m.target(1)
	m.sync()
	if m.record.Stage != Restoring {
		t.Errorf("want it to be restoring for as long as pods of revision 2 are asked for, got %s", m.line())
	}
	m.run(time.Minute)
	wantLine(t, m, "Complete target=1.2 stable=1 1:8/8")
	if m.most > 10 {
		t.Errorf("want 10 pods asked for at most, got %d", m.most)
	}
}

// A superseded version is held while the spec is invalid, as large as it was told
// to be; what is observed of it may be newer than that.
func TestSupersededVersionsAreNeverRaised(t *testing.T) {
	m := installed(t, 3)
	m.target(2)
	m.target(3)
	m.record.Target, m.record.Stage = m.rev[3], Rolling
	m.record.Wave = &Wave{Replicas: 3, Floor: 2, Ceiling: 4, Asks: []Ask{{Revision: 1, Ask: 3, Goal: 3}, {Revision: 2, Ask: 3, Goal: 3}, {Revision: 3, Goal: 1}}}
	m.asked[2] = 0
	for _, o := range Act(m.record, &m.wish, m.facts()) {
		if o.Revision == 2 && o.Replicas > 0 {
			t.Errorf("want revision 2 left at 0, got %d", o.Replicas)
		}
	}
}

// Nothing moves by the record, and somebody else has scaled another version up.
func TestStableIsNotRaisedBesideOthersPods(t *testing.T) {
	m := installed(t, 8)
	m.target(2)
	m.until(Complete, 10*time.Minute)
	m.asked[1], m.asked[2] = 8, 0
	for _, o := range Act(m.record, &m.wish, m.facts()) {
		if o.Revision == 2 && o.Replicas != 2 {
			t.Errorf("want the stable revision raised to the surge of 2, got %d", o.Replicas)
		}
	}
}

// A Deployment that was made a moment ago and is not observed takes room.
func TestHiddenPodsTakeRoom(t *testing.T) {
	m := installed(t, 8)
	m.target(2)
	m.target(3)
	m.record.Target, m.record.Stage, m.record.Changed = m.rev[3], Rolling, m.now
	m.record.Wave = &Wave{Replicas: 8, Floor: 8, Ceiling: 10, Asks: []Ask{{Revision: 1, Ask: 8, Goal: 6}, {Revision: 2, Ask: 2, Goal: 0}, {Revision: 3, Goal: 2}}}
	next, _ := Next(m.record, &m.wish, m.facts(), m.now)
	if ask := next.Wave.of(3).Ask; ask != 0 {
		t.Errorf("want no room for revision 3, got %d pods", ask)
	}
	m.now = m.now.Add((hiddenSeconds + 2) * time.Second)
	next, _ = Next(m.record, &m.wish, m.facts(), m.now)
	if ask := next.Wave.of(3).Ask; ask != 2 {
		t.Errorf("want 2 pods of revision 3 once it is clear that nothing is hidden, got %d", ask)
	}
}

// The record is lost in a batch of 7 of which 2 were asked for, and then the plan
// gets a gate at 2: it was never open.
func TestNoGateIsPassedByALostRecord(t *testing.T) {
	m := installed(t, 7)
	m.wish.Settings.Batches = []Batch{{Percent: 100}}
	m.ready[2] = -1
	m.target(2)
	m.run(2 * time.Second)
	if m.asked[2] < 2 {
		t.Fatalf("want a batch on its way, got %s", m.line())
	}
	f := m.facts()
	f.Deployments[0].Stable = true
	m.record = Rebuild(&m.wish, f, Hints{}, m.now)
	m.wish.Settings.Batches = []Batch{{Pods: 2, Approval: true}}
	m.run(time.Minute)
	if step, _ := NewPlan(m.wish.Settings, 7).Current(m.record.Reached); step.Size != 2 || m.record.Stage != Rolling {
		t.Errorf("want it to wait at the gate of 2 pods, got %s", m.line())
	}

	m.wish.Settings.Batches = []Batch{{Pods: 1}, {Pods: 2, Approval: true}, {Pods: 5}}
	m.record = Rebuild(&m.wish, f, Hints{}, m.now)
	if p := m.record.Reached; p == nil || p.Pods != 1 {
		t.Errorf("want the last gate below 2 pods reached, got %+v", p)
	}
}

// A Deployment that shows fewer pods than the wave left it, decided under a record
// from before that wave: an answer to a record in between may be about to raise it.
func TestOldAnswersTakeRoom(t *testing.T) {
	m := installed(t, 5)
	m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = Quantity{}, Quantity{Value: 1}
	m.wish.Settings.BatchSize = 4
	m.target(2)
	m.asked[1], m.marked[1] = 4, 3
	m.settle()
	r := m.record
	r.Target, r.Stage, r.Counter, r.Settings = m.rev[2], Rolling, 5, m.wish.Settings
	r.Wave = &Wave{Replicas: 5, Floor: 4, Ceiling: 5, Began: 5, Asks: []Ask{{Revision: 1, Ask: 5, Goal: 1}, {Revision: 2, Goal: 4}}}
	m.target(3)
	next, _ := Next(r, &m.wish, m.facts(), m.now)
	if a := next.Wave.of(3); a.Ask != 0 || next.Wave.Confirm != next.Counter {
		t.Errorf("want no pod of revision 3 until revision 1 confirms, got %d, confirmed by %d of %d", a.Ask, next.Wave.Confirm, next.Counter)
	}
	m.record = next
	m.until(Complete, time.Minute)
	if m.most > 5 || m.lowest < 4 {
		t.Errorf("want 4 to 5 pods, got %d to %d", m.lowest, m.most)
	}
}

// The stable version is scaled in by the last answer before a release, which the wave
// does not know: it asks for a confirmation instead of waiting for one.
func TestScaleInRightBeforeAReleaseConfirms(t *testing.T) {
	m := installed(t, 3)
	m.asked[1] = 10
	m.settle()
	m.target(2)
	// The record of the release is written from what was seen before the scale-in.
	next, _ := Next(m.record, &m.wish, m.facts(), m.now)
	m.asked[1], m.marked[1] = 3, m.record.Counter
	m.settle()
	m.record = next
	m.until(Complete, time.Minute)
}

// A third version and a scale-out come at once: room that the stable version would
// take only now is not asked for and given away in one.
func TestScaleOutWithAThirdVersion(t *testing.T) {
	m := installed(t, 6)
	m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = Quantity{Value: 1}, Quantity{}
	m.wish.Settings.Batches = []Batch{{Pods: 4, Approval: true}}
	m.target(2)
	m.run(time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:2/2 2:4/4")
	m.wish.Replicas = 7
	m.wish.Settings.Batches = nil
	m.ready[3] = time.Second
	m.target(3)
	m.until(Complete, time.Hour)
}
