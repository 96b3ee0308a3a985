package rollout

import (
	"testing"
	"time"
)

func wantLine(t *testing.T, m *model, want string) {
	t.Helper()
	if got := m.line(); got != want {
		t.Errorf("want %s\n got %s\n%s", want, got, m.dump())
	}
}

func TestFirstInstallHasNoBatches(t *testing.T) {
	m := newModel(t, 10)
	m.ready[1] = 5 * time.Second
	m.target(1)
	m.run(4 * time.Second)
	wantLine(t, m, "Promoting target=1.1 stable=0 1:0/10")
	m.run(2 * time.Second)
	wantLine(t, m, "Complete target=1.1 stable=1 1:10/10")
}

func TestBatchesGoOutAndComplete(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.CanaryWeight, m.wish.Settings.BatchSize, m.wish.Settings.SoakSeconds = 10, 3, 30
	m.target(2)
	m.run(time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:9/9 2:1/1")
	m.run(33 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=1/10 1:6/6 2:4/4")
	m.until(Complete, 2*time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 2:10/10")
	if m.lowest < 10 || m.most > 13 {
		t.Errorf("want 10 available or more and 13 asked for or fewer, got %d and %d", m.lowest, m.most)
	}
	if m.writes != 9 {
		// 1 create and 3 raises, 4 take-downs, 1 delete.
		t.Errorf("want 9 writes of Deployments, got %d", m.writes)
	}
}

func TestFailureRollsBackAndIsNotRetried(t *testing.T) {
	m := installed(t, 10)
	m.ready[2] = -1
	m.target(2)
	m.run(time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10 2:0/3")
	m.run(609 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10 2:0/3")
	m.run(3 * time.Second)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
	counter := m.record.Counter
	m.run(time.Hour)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
	if m.record.Counter != counter || !m.wake.IsZero() {
		t.Errorf("want nothing to happen, got counter %d after %d, wake %v", m.record.Counter, counter, m.wake)
	}
	m.ready[2] = 0
	m.wish.Command = m.record.Retry()
	m.until(Complete, time.Minute)
	wantLine(t, m, "Complete target=2.2 stable=2 2:10/10")
}

func TestThirdVersionStartsAtItsFirstBatch(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.Batches = []Batch{{Percent: 20}, {Percent: 40, Approval: true}, {Percent: 100}}
	m.target(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=2/10 1:6/6 2:4/4")
	m.ready[3] = 5 * time.Second
	m.target(3)
	m.run(time.Second)
	wantLine(t, m, "Rolling target=3.1 stable=1 1:7/7 2:4/4 3:0/2")
	m.run(10 * time.Second)
	wantLine(t, m, "Rolling target=3.1 stable=1 reached=2/10 1:6/6 3:4/4")
	m.wish.Command = "promote 2.1@4"
	m.run(10 * time.Second)
	wantLine(t, m, "Rolling target=3.1 stable=1 reached=2/10 1:6/6 3:4/4")
	m.wish.Command = "promote 3.1@4"
	m.until(Complete, time.Minute)
	if m.lowest < 10 {
		t.Errorf("want 10 available or more, got %d", m.lowest)
	}
}

func TestRevertDrainsAndIsHealthy(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.Batches = []Batch{{Percent: 50, Approval: true}}
	m.target(2)
	m.run(10 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:5/5 2:5/5")
	m.ready[1] = 5 * time.Second
	m.target(1)
	m.until(Complete, time.Minute)
	wantLine(t, m, "Complete target=1.2 stable=1 1:10/10")
	if m.lowest < 10 || m.most > 13 {
		t.Errorf("want 10 available or more and 13 asked for or fewer, got %d and %d", m.lowest, m.most)
	}
}

func TestRollbackToPinsUntilRemoved(t *testing.T) {
	m := installed(t, 10)
	m.target(2)
	m.until(Complete, time.Minute)
	m.wish.Pin = m.rev[1]
	m.until(Complete, time.Minute)
	wantLine(t, m, "Complete target=1.2 stable=1 1:10/10")
	m.wish.Pin = Revision{}
	m.run(time.Minute)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
	m.wish.Command = m.record.Retry()
	m.until(Complete, time.Minute)
	wantLine(t, m, "Complete target=2.2 stable=2 2:10/10")
}

func TestScaleToZeroHoldsThePosition(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.Batches = []Batch{{Percent: 20}, {Percent: 40, Approval: true}, {Percent: 100}}
	m.target(2)
	m.run(5 * time.Second)
	m.wish.Replicas = 0
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=2/10 1:0/0 2:0/0")
	m.wish.Replicas = 10
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=2/10 1:6/6 2:4/4")
}

func TestNewTargetAtZeroReplicas(t *testing.T) {
	m := installed(t, 10)
	m.wish.Replicas = 0
	m.run(5 * time.Second)
	m.ready[2] = -1
	m.target(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Promoting target=2.1 stable=1 1:0/0 2:0/0")
	m.wish.Replicas = 4
	m.run(5 * time.Second)
	wantLine(t, m, "Promoting target=2.1 stable=1 1:0/0 2:0/4")
	m.until(RolledBack, 15*time.Minute)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:4/4 2:0/0")
}

func TestScaleInAtBatch18SkipsNoGate(t *testing.T) {
	m := installed(t, 100)
	for n := int64(1); n <= 46; n++ {
		m.wish.Settings.Batches = append(m.wish.Settings.Batches, Batch{Pods: 2 * n, Approval: true})
	}
	m.target(2)
	for n := int64(1); n < 18; n++ {
		m.run(time.Second)
		m.wish.Command = m.record.Promote(2 * n)
	}
	m.run(time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=34/100 1:64/64 2:36/36")
	m.wish.Replicas = 20
	m.run(10 * time.Second)
	// 34 of 100 is 7 of 20: the batch of 8 is next, and asks for its approval.
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=34/100 1:12/12 2:8/8")
	m.run(time.Hour)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=34/100 1:12/12 2:8/8")
}

func TestStableStuckAtHalfDoesNotBlock(t *testing.T) {
	for _, surge := range []Quantity{{Value: 25, Percent: true}, {Value: 0}} {
		m := installed(t, 10)
		m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = surge, Quantity{Value: 3}
		m.wish.Settings.Batches = []Batch{{Pods: 2, Approval: true}, {Pods: 6}}
		m.target(2)
		m.run(30 * time.Second)
		for i := range m.pods[1] {
			if i%2 == 0 {
				m.pods[1][i] = time.Time{}
			}
		}
		m.run(5 * time.Second)
		m.target(3)
		m.run(30 * time.Second)
		if d := m.facts().of(3); d.available() != 2 {
			t.Errorf("surge %v: want 2 pods of the third version, got %s", surge, m.line())
		}
		m.wish.Command = "promote 3.1@all"
		m.until(Complete, time.Minute)
	}
}

func TestRoomForTwoOfThreeSurgePods(t *testing.T) {
	m := installed(t, 10)
	m.room = 12
	m.ready[2] = 3 * time.Second
	m.target(2)
	m.until(Complete, 10*time.Minute)
	if m.lowest < 10 {
		t.Errorf("want 10 available or more, got %d", m.lowest)
	}
}

func TestSurgeZeroAndAQuarterOfThree(t *testing.T) {
	m := installed(t, 3)
	m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = Quantity{Value: 0}, Quantity{Value: 25, Percent: true}
	m.target(2)
	m.until(Complete, time.Minute)
	if m.lowest != 2 || m.most != 3 {
		t.Errorf("want 2 available and 3 asked for, got %d and %d", m.lowest, m.most)
	}
}

func TestPodLostInSoakIsNoInstantRollback(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 3600}}
	m.target(2)
	m.run(20 * time.Minute)
	m.pods[2][0] = m.now.Add(time.Minute)
	m.run(30 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:1/2")
	m.run(45 * time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.until(Complete, 16*time.Minute)
}

func TestTenShortfallsInOneSoakFail(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 3600}}
	m.target(2)
	m.run(time.Minute)
	for range 9 {
		m.pods[2][0] = m.now.Add(5 * time.Second)
		m.run(30 * time.Second)
	}
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.pods[2][0] = m.now.Add(5 * time.Second)
	m.run(30 * time.Second)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
}

func TestPausedFreezesAtOnce(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.MaxSurge = Quantity{Value: 1}
	m.wish.Settings.BatchSize = 10
	m.ready[2] = 5 * time.Second
	m.target(2)
	m.run(13 * time.Second)
	m.wish.Settings.Paused = true
	m.run(2 * time.Second)
	at := m.line()
	m.run(24 * time.Hour)
	if got := m.line(); got[len(got)-12:] != at[len(at)-12:] {
		t.Errorf("want the pods to stay, %s became %s", at, got)
	}
	m.target(3)
	m.run(time.Minute)
	if d := m.facts().of(3); d.asked() != 0 {
		t.Errorf("want no pod of the third version while paused, got %s", m.line())
	}
	m.wish.Settings.Paused = false
	m.until(Complete, 10*time.Minute)
}

func TestHoldWithoutAutoRollback(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.AutoRollback = false
	m.wish.Settings.Batches = []Batch{{Pods: 4}}
	m.ready[2] = -1
	m.target(2)
	m.until(Held, 20*time.Minute)
	held := m.line()
	m.run(time.Hour)
	wantLine(t, m, held)
	m.target(3)
	m.until(Complete, time.Minute)
}

func TestAbortDuringPromotion(t *testing.T) {
	m := installed(t, 10)
	m.wish.Settings.MaxSurge = Quantity{Value: 1}
	m.ready[2] = 3 * time.Second
	m.target(2)
	m.wish.Command = "promote 2.1@all"
	m.run(12 * time.Second)
	if m.record.Stage != Promoting {
		t.Fatalf("want Promoting, got %s", m.line())
	}
	m.wish.Command = "abort 2.1"
	m.ready[1] = 5 * time.Second
	m.until(RolledBack, time.Minute)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
	if m.lowest < 10 || m.most > 11 {
		t.Errorf("want 10 available or more and 11 asked for or fewer, got %d and %d", m.lowest, m.most)
	}
}
