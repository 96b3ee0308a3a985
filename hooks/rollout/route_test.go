package rollout

import (
	"fmt"
	"testing"
	"time"
)

// routed is a model with revision 1 complete and all requests led to it.
func routed(t *testing.T, replicas int64, router Router, keep bool) *model {
	t.Helper()
	m := newModel(t, replicas)
	m.wish.Settings.Router, m.wish.Settings.KeepStable = router, keep
	m.wish.Settings.ScaleDownDelaySeconds = 30
	m.target(1)
	m.until(Complete, time.Minute)
	m.run(time.Minute)
	m.reset()
	wantLine(t, m, fmt.Sprintf("Complete target=1.1 stable=1 1:%d/%d@100%%", replicas, replicas))
	return m
}

func TestWeightsFollowPodsAndPodsFollowWeights(t *testing.T) {
	m := routed(t, 10, RouterWeights, true)
	weight := int64(5)
	m.wish.Settings.Batches = []Batch{{Pods: 1, Weight: &weight, SoakSeconds: 30}, {Percent: 50, Approval: true}}
	m.ready[2], m.lag = 3*time.Second, 5*time.Second
	m.target(2)
	m.run(2 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@100% 2:0/1")
	m.run(2 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@95% 2:1/1@5%")
	// The soak begins when the weight is in place.
	m.run(34 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@95% 2:1/1@5%")
	m.run(2 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=1/10 1:10/10@95% 2:1/4@5%")
	m.run(20 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=1/10 1:10/10@50% 2:5/5@50%")
	m.wish.Command = m.record.Promote(5)
	m.run(2 * time.Second)
	wantLine(t, m, "Promoting target=2.1 stable=1 reached=10/10 1:10/10@50% 2:5/8@50%")
	m.until(Complete, time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 1:10/10@0% 2:10/10@100%")
	done := m.now
	m.run(28 * time.Second)
	wantLine(t, m, "Complete target=2.1 stable=2 1:10/10@0% 2:10/10@100%")
	m.run(time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 2:10/10@100%")
	if m.lowest < 10 || m.most > 20 || !m.wake.IsZero() || m.record.Route.Has(1) {
		t.Errorf("want 10 to 20 pods and rest, got %d to %d, wake %v, %v after %v", m.lowest, m.most, m.wake, m.record.Route, done)
	}
}

func TestStableGivesWayWithTheWeights(t *testing.T) {
	m := routed(t, 10, RouterWeights, false)
	m.wish.Settings.Batches = []Batch{{Percent: 40, Approval: true}}
	m.ready[2], m.lag = 3*time.Second, 2*time.Second
	m.target(2)
	m.run(time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@100% 2:0/3")
	m.run(2 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@70% 2:3/3@30%")
	m.run(20 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:6/6@60% 2:4/4@40%")
	m.wish.Command = m.record.Promote(4)
	m.until(Complete, 2*time.Minute)
	m.run(time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 2:10/10@100%")
	if m.lowest < 10 || m.most > 13 {
		t.Errorf("want 10 to 13 pods, got %d to %d", m.lowest, m.most)
	}
}

// TestWeightsAreReachedForAnySize: rounding to whole percentages must stop no
// release, whatever its size, its budget and the way the stable revision goes.
func TestWeightsAreReachedForAnySize(t *testing.T) {
	for _, router := range []Router{RouterWeights, RouterPair, RouterSwitch} {
		for _, keep := range []bool{true, false} {
			for _, replicas := range []int64{1, 2, 3, 7, 10, 33, 101, 250} {
				m := routed(t, replicas, router, keep || router == RouterSwitch)
				m.wish.Settings.BatchSize = max(1, replicas/3)
				m.wish.Settings.CanaryWeight = 1
				if m.wish.Settings.MaxUnavailable = (Quantity{Value: replicas % 2}); replicas%3 == 1 {
					m.wish.Settings.MaxSurge = Quantity{}
				}
				if router == RouterSwitch {
					zero := int64(0)
					m.wish.Settings.Batches = []Batch{{Percent: 100, Weight: &zero}}
				}
				m.lag = time.Second
				m.target(2)
				m.until(Complete, 10*time.Minute)
				m.run(time.Minute)
				wantLine(t, m, fmt.Sprintf("Complete target=2.1 stable=2 2:%d/%d@100%%", replicas, replicas))
				if m.lowest < 1 {
					t.Errorf("%s, stable kept %t, %d replicas: want a pod for the requests at any time", router, keep, replicas)
				}
			}
		}
	}
}

func TestRollbackTakesRequestsFirst(t *testing.T) {
	m := routed(t, 10, RouterWeights, true)
	m.wish.Settings.Batches = []Batch{{Percent: 30, Approval: true}}
	m.wish.Settings.Headers = true
	m.target(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@70% 2:3/3@30%")
	if m.route.Header != 2 {
		t.Errorf("want the header to lead to revision 2, got %d", m.route.Header)
	}
	m.lag = 4 * time.Second
	m.wish.Command = m.record.Abort()
	m.run(time.Second)
	wantLine(t, m, "RollingBack target=2.1 stable=1 1:10/10@100% 2:3/3@0%")
	if m.route.Header != 0 {
		t.Errorf("want no header rule, got one to %d", m.route.Header)
	}
	m.run(13 * time.Second)
	wantLine(t, m, "RollingBack target=2.1 stable=1 1:10/10@100% 2:3/3@0%")
	m.run(3 * time.Second)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10@100% 2:0/0")
}

// TestRollbackSendsNoMoreThanCanBeServed: stable gave way with the batches.
func TestRollbackSendsNoMoreThanCanBeServed(t *testing.T) {
	m := routed(t, 10, RouterWeights, false)
	m.wish.Settings.Batches = []Batch{{Percent: 60, Approval: true}}
	m.target(2)
	m.run(20 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:4/4@40% 2:6/6@60%")
	m.ready[1] = 10 * time.Second
	m.wish.Command = m.record.Abort()
	m.run(5 * time.Second)
	wantLine(t, m, "RollingBack target=2.1 stable=1 1:4/7@40% 2:6/6@60%")
	m.run(7 * time.Second)
	wantLine(t, m, "RollingBack target=2.1 stable=1 1:7/10@70% 2:3/3@30%")
	m.until(RolledBack, 2*time.Minute)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10@100% 2:0/0")
	if m.lowest < 10 || m.most > 13 {
		t.Errorf("want 10 to 13 pods, got %d to %d", m.lowest, m.most)
	}
}

func TestThirdVersionTakesRequestsOffTheSecond(t *testing.T) {
	for _, router := range []Router{RouterWeights, RouterPair} {
		m := routed(t, 10, router, true)
		m.wish.Settings.Batches = []Batch{{Percent: 30, Approval: true}}
		m.target(2)
		m.run(5 * time.Second)
		wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@70% 2:3/3@30%")
		m.ready[3] = 2 * time.Second
		m.target(3)
		m.run(time.Second)
		wantLine(t, m, "Rolling target=3.1 stable=1 1:10/10@100% 2:3/3@0% 3:0/3")
		m.run(20 * time.Second)
		wantLine(t, m, "Rolling target=3.1 stable=1 1:10/10@70% 3:3/3@30%")
	}
}

func TestSwitchAndSwitchBack(t *testing.T) {
	m := routed(t, 4, RouterSwitch, true)
	zero := int64(0)
	m.wish.Settings.Batches = []Batch{{Percent: 100, Weight: &zero, Approval: true}}
	m.target(2)
	m.run(10 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:4/4@100% 2:4/4")
	m.wish.Command = m.record.Promote(4)
	m.run(2 * time.Second)
	wantLine(t, m, "Complete target=2.1 stable=2 1:4/4@0% 2:4/4@100%")
	m.run(20 * time.Second)
	m.target(1)
	m.run(2 * time.Second)
	wantLine(t, m, "Complete target=1.2 stable=1 1:4/4@100% 2:4/4@0%")
	m.run(time.Minute)
	wantLine(t, m, "Complete target=1.2 stable=1 1:4/4@100%")
}

func TestRouteThatIsNotAccepted(t *testing.T) {
	m := routed(t, 4, RouterWeights, true)
	m.refused = "NoMatchingListenerHostname: no listener has the hostname"
	m.wish.Settings.Batches = []Batch{{Percent: 50}}
	m.target(2)
	m.run(2 * time.Second)
	if m.record.Stage != RollingBack && m.record.Stage != RolledBack || m.record.Failure.Reason != ReasonRouteRefused {
		t.Fatalf("want the release failed by the route, got %s %+v", m.line(), m.record.Failure)
	}
	m.until(RolledBack, time.Minute)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:4/4@100% 2:0/0")
}

func TestRecordLostWithWeights(t *testing.T) {
	m := routed(t, 10, RouterWeights, true)
	m.wish.Settings.Batches = []Batch{{Percent: 30, Approval: true}, {Percent: 60, Approval: true}}
	m.target(2)
	m.run(5 * time.Second)
	f := m.facts()
	f.Deployments[0].Stable = true
	m.record = Rebuild(&m.wish, f, Hints{}, m.now)
	m.run(time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:10/10@70% 2:3/3@30%")
}

// TestRefusedOnTheWayBack: a gateway that says no to every change must not keep
// the failed version alive.
func TestRefusedOnTheWayBack(t *testing.T) {
	m := routed(t, 4, RouterWeights, true)
	m.wish.Settings.Batches = []Batch{{Percent: 50, Approval: true}}
	m.target(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:4/4@50% 2:2/2@50%")
	m.refused = "Pending: no"
	m.run(20 * time.Second)
	wantLine(t, m, "RollingBack target=2.1 stable=1 1:4/4@100% 2:2/2@0%")
	m.run(30 * time.Second)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:4/4@100% 2:0/0")
}

// TestRebuiltBehindEverything: what else than Deployments was decided counts.
func TestRebuiltBehindEverything(t *testing.T) {
	m := routed(t, 4, RouterWeights, true)
	if r := Rebuild(&m.wish, m.facts(), Hints{Counter: 40}, m.now); r.Counter != 41 {
		t.Errorf("want counter 41, got %d", r.Counter)
	}
}

// TestKeptUntilTheNewOneIsWhole: what served until a moment ago is the way back.
func TestKeptUntilTheNewOneIsWhole(t *testing.T) {
	m := routed(t, 4, RouterSwitch, true)
	zero := int64(0)
	m.wish.Settings.Batches = []Batch{{Percent: 100, Weight: &zero}}
	m.target(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Complete target=2.1 stable=2 1:4/4@0% 2:4/4@100%")
	if f := m.facts(); !f.Drained(2, m.record.Route) || f.Drained(2, nil) {
		t.Errorf("want nothing left to wait for but what is kept, got %s", m.line())
	}
	for i := range 3 {
		m.pods[2][i] = m.now.Add(2 * time.Minute)
	}
	m.run(time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 1:4/4@0% 2:1/4@100%")
	m.run(2 * time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 2:4/4@100%")
}

// TestRequestsGoWhereAnybodyIs: when nobody is left of the versions that have
// requests, another one that still serves gets them.
func TestRequestsGoWhereAnybodyIs(t *testing.T) {
	m := routed(t, 4, RouterWeights, true)
	m.target(2)
	m.run(20 * time.Second)
	wantLine(t, m, "Complete target=2.1 stable=2 1:4/4@0% 2:4/4@100%")
	for i := range m.pods[2] {
		m.pods[2][i] = m.now.Add(time.Minute)
	}
	if next, _ := Next(m.record, &m.wish, m.facts(), m.now); next.Route.Of(1).Weight != 100 {
		t.Errorf("want all requests at revision 1, got %v", next.Route)
	}
}

// TestLateEndpointsOpenNoGate: endpoints that are seen late do not lead requests to
// a version that waits for its approval.
func TestLateEndpointsOpenNoGate(t *testing.T) {
	m := routed(t, 4, RouterSwitch, true)
	zero := int64(0)
	m.wish.Settings.Batches = []Batch{{Percent: 100, Weight: &zero, Approval: true}}
	m.target(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:4/4@100% 2:4/4")
	f := m.facts()
	f.Traffic.Endpoints = map[int64]int64{2: 4}
	if next, _ := Next(m.record, &m.wish, f, m.now); next.Route.Of(1).Weight != 100 {
		t.Errorf("want all requests at revision 1, got %v", next.Route)
	}
}

// TestFailedVersionGetsNoMore: not even when nobody else serves.
func TestFailedVersionGetsNoMore(t *testing.T) {
	m := routed(t, 4, RouterWeights, true)
	m.wish.Settings.Batches = []Batch{{Percent: 50, Approval: true}}
	m.target(2)
	m.run(5 * time.Second)
	m.lag = time.Hour
	m.wish.Command = m.record.Abort()
	m.sync()
	for _, weight := range []int64{50, 0} {
		m.record.Route.Shares = []Share{{Revision: 1, Weight: 100 - weight}, {Revision: 2, Weight: weight}}
		for i := range m.pods[1] {
			m.pods[1][i] = m.now.Add(time.Minute)
		}
		next, _ := Next(m.record, &m.wish, m.facts(), m.now)
		if next.Stage != RollingBack || next.Route.Of(2).Weight != weight {
			t.Errorf("want revision 2 to keep %d%% on the way back, got %s and %v", weight, next.Stage, next.Route)
		}
	}
}

// TestWayBackInSteps: pods that come back one by one are not a write each, but the
// last of them does not wait for one that never comes.
func TestWayBackInSteps(t *testing.T) {
	m := routed(t, 100, RouterWeights, false)
	m.wish.Settings.Batches = []Batch{{Percent: 60, Approval: true}}
	m.target(2)
	m.run(time.Minute)
	m.wish.Command = m.record.Abort()
	m.ready[1] = -1 // in the order set below
	m.sync()
	m.sync()
	came, last, changes := time.Second, m.route.Since, 0
	for range 120 {
		for i, at := range m.pods[1] {
			if at.IsZero() {
				m.pods[1][i] = m.now.Add(came)
				break
			}
		}
		if m.run(came); m.route.Since.After(last) {
			changes, last = changes+1, m.route.Since
		}
	}
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:100/100@100% 2:0/0")
	if changes > 12 {
		t.Errorf("want at most 12 changes of the route for 60 points, got %d", changes)
	}
}

// TestWayBackOnePodAtATime: where the next pod needs the room that a small change
// of weight makes, the change is not held back.
func TestWayBackOnePodAtATime(t *testing.T) {
	m := routed(t, 100, RouterWeights, false)
	m.wish.Settings.Batches = []Batch{{Percent: 60, Approval: true}}
	m.target(2)
	m.run(time.Minute)
	m.wish.Settings.MaxSurge = Quantity{Value: 1}
	m.ready[1] = time.Second
	m.wish.Command = m.record.Abort()
	m.run(5 * time.Minute)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:100/100@100% 2:0/0")
}

func TestCanaryWeightIsTheRoutesWeight(t *testing.T) {
	s := Settings{CanaryWeight: 10, Router: RouterWeights}
	if step, _ := NewPlan(s, 3).Current(nil); step.Size != 1 || step.Weight != 10 {
		t.Errorf("want 1 pod and 10%% of the requests, got %d and %d", step.Size, step.Weight)
	}
	s.Router = RouterNone
	if step, _ := NewPlan(s, 3).Current(nil); step.Weight != 33 {
		t.Errorf("want the share of the pods without a router, 33, got %d", step.Weight)
	}
}

// TestScaledToNothingDuringTheFirstInstall: requests that are led to the only
// version keep no pod when there are to be none.
func TestScaledToNothingDuringTheFirstInstall(t *testing.T) {
	m := newModel(t, 2)
	m.wish.Settings.Router, m.wish.Settings.KeepStable = RouterWeights, true
	m.lag = time.Minute
	m.target(1)
	m.run(5 * time.Second)
	wantLine(t, m, "Promoting target=1.1 stable=0 1:2/2@100%")
	m.wish.Replicas = 0
	m.run(time.Second)
	m.record = Rebuild(&m.wish, m.facts(), Hints{}, m.now)
	m.run(10 * time.Second)
	wantLine(t, m, "Promoting target=1.1 stable=0 1:0/0@100%")
}

// TestFirstVersionIsReplacedUnderASwitch: the version that has the requests keeps
// its pods, and the one that is to get all of them at once has room beside it.
func TestFirstVersionIsReplacedUnderASwitch(t *testing.T) {
	m := newModel(t, 3)
	m.wish.Settings.Router, m.wish.Settings.KeepStable = RouterSwitch, true
	m.wish.Settings.MaxSurge = Quantity{Value: 10, Percent: true}
	m.lag = time.Hour
	m.target(1)
	m.run(5 * time.Second)
	wantLine(t, m, "Promoting target=1.1 stable=0 1:3/3@100%")
	m.lag = 0
	m.target(2)
	m.run(time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 2:3/3@100%")
}
