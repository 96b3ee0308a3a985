package rollout

import (
	"testing"
	"time"
)

// The stable version is one pod short for ever, so that it can never take the
// requests of a superseded one. Where a router knows two versions, the target takes
// the superseded one's place after the deadline.
func TestTargetTakesThePlaceOfASupersededVersion(t *testing.T) {
	for _, keep := range []bool{true, false} {
		m := routed(t, 3, RouterPair, keep)
		m.wish.Settings.ProgressDeadlineSeconds = 60
		m.wish.Settings.Batches = []Batch{{Pods: 1, Approval: true}}
		m.target(2)
		m.run(20 * time.Second)
		if m.route.Of(2).Weight == 0 {
			t.Fatalf("want requests at revision 2, got %s", m.line())
		}
		m.pods[1][0], m.ready[1] = time.Time{}, -1
		if keep {
			m.pods[1][1] = time.Time{}
		}
		m.target(3)
		m.run(59 * time.Second)
		if m.route.Of(3).Weight != 0 || m.route.Of(2).Weight == 0 {
			t.Errorf("want the superseded version to keep its requests for the time of the deadline, got %s", m.line())
		}
		m.run(30 * time.Second)
		if m.route.Of(3).Weight == 0 || m.route.Of(2).Weight != 0 {
			t.Errorf("want the target in the place of the superseded version, got %s", m.line())
		}
	}
}

// A third version comes while the release is scaled to 0: the second, which has
// requests, gets no pods when it wakes up.
func TestNobodyWakesUpBehindASupersededVersion(t *testing.T) {
	for _, router := range []Router{RouterWeights, RouterPair} {
		m := routed(t, 10, router, true)
		m.wish.Settings.Batches = []Batch{{Percent: 30, Approval: true}}
		m.target(2)
		m.run(5 * time.Second)
		m.wish.Replicas = 0
		m.run(time.Second)
		m.target(3)
		m.run(time.Minute)
		if got := m.route.Of(2).Weight; got != 0 {
			t.Errorf("%s: want no requests at a superseded version that is asleep, got %d%%", router, got)
		}
		m.wish.Replicas = 10
		m.until(Complete, time.Minute)
	}
}

// The record is lost right after a promotion: the version before is kept for as long
// as proxies may need to follow.
func TestLostRecordKeepsWhatRequestsHaveLeft(t *testing.T) {
	m := routed(t, 4, RouterWeights, true)
	m.target(2)
	m.until(Complete, time.Minute)
	if m.asked[1] == 0 {
		t.Fatalf("want revision 1 kept, got %s", m.line())
	}
	rebuilt(m, Hints{})
	m.run(8 * time.Second)
	if m.asked[1] != 4 {
		t.Errorf("want revision 1 kept for a while longer, got %s", m.line())
	}
	m.run(time.Minute)
	wantLine(t, m, "Complete target=2.1 stable=2 2:4/4@100%")
}

// The plan is edited to a much smaller batch: requests go back only as fast as the
// stable version gets the pods for them.
func TestEditToASmallerBatchOverloadsNobody(t *testing.T) {
	m := routed(t, 10, RouterWeights, false)
	m.wish.Settings.Batches = []Batch{{Percent: 100, Approval: true}}
	m.target(2)
	m.run(20 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:1/1@0% 2:10/10@100%")
	m.ready[1] = 10 * time.Second
	m.wish.Settings.Batches = []Batch{{Percent: 10, Approval: true}}
	m.run(12 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:4/7@40% 2:6/6@60%")
	m.run(time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:9/9@90% 2:1/1@10%")
}

// stands makes the world what the record says: its route in force, and all pods that
// are asked for available.
func (m *model) stands() {
	m.route, m.routed = m.record.Route.clone(), m.now
	m.settle()
	for _, pods := range m.pods {
		for i := range pods {
			pods[i] = m.now
		}
	}
}

// 5 and 6 of 11 pods can serve 45% and 54%: the point that is left must not keep a
// superseded version, and with it the release, for ever.
func TestAPointLostToRoundingKeepsNoSupersededVersion(t *testing.T) {
	m := routed(t, 12, RouterWeights, false)
	m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = Quantity{}, Quantity{Value: 1}
	m.target(2)
	m.target(3)
	m.target(4)
	m.ready[4] = time.Second
	m.asked[1], m.asked[2], m.asked[3], m.asked[4] = 0, 1, 6, 5
	r := m.record
	r.Target, r.Highest, r.Stage, r.Settings = m.rev[4], 4, Rolling, m.wish.Settings
	r.Reached = &Position{Pods: 3, Replicas: 12}
	r.Route = &Route{Since: m.now, Shares: []Share{{Revision: 2, Weight: 1}, {Revision: 3, Weight: 54}, {Revision: 4, Weight: 45}}}
	r.Wave = &Wave{Replicas: 12, Floor: 11, Ceiling: 12, Asks: []Ask{{Revision: 1, Goal: 6}, {Revision: 2, Ask: 1}, {Revision: 3, Ask: 6}, {Revision: 4, Ask: 5, Goal: 6}}}
	m.stands()
	m.until(Complete, time.Hour)
}

// Without surge, the pods of one of two superseded versions have to go before anybody
// else gets one; the other has to be able to take its requests.
func TestSupersededVersionsGiveWayWithoutSurge(t *testing.T) {
	m := routed(t, 4, RouterWeights, false)
	m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = Quantity{}, Quantity{Value: 1}
	m.target(2)
	m.target(3)
	m.target(4)
	m.ready[4] = time.Second
	m.asked[1], m.asked[2], m.asked[3] = 1, 2, 1
	r := m.record
	r.Target, r.Highest, r.Stage, r.Settings = m.rev[3], 3, Rolling, m.wish.Settings
	r.Route = &Route{Since: m.now, Shares: []Share{{Revision: 1, Weight: 33}, {Revision: 2, Weight: 42}, {Revision: 3, Weight: 25}}}
	r.Wave = &Wave{Replicas: 4, Floor: 3, Ceiling: 4, Asks: []Ask{{Revision: 1, Ask: 1, Goal: 3}, {Revision: 2, Ask: 2}, {Revision: 3, Ask: 1, Goal: 1}}}
	m.stands()
	m.until(Complete, time.Hour)
}

// Woken up with all pods of the target, requests are led there before anybody serves.
func TestWakingUpLeadsWherePodsCome(t *testing.T) {
	m := routed(t, 6, RouterWeights, false)
	m.wish.Settings.Batches = []Batch{{Percent: 100, Approval: true}}
	m.target(2)
	m.run(time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:0/0 2:6/6@100%")
	m.wish.Replicas = 0
	m.run(time.Minute)
	m.wish.Replicas = 6
	m.ready[2] = 5 * time.Second
	m.run(4 * time.Second)
	if m.route.Of(2).Weight != 100 {
		t.Errorf("want requests led to the revision that gets all pods, before they serve, got %s", m.line())
	}
}

// A scale-out and a release at once, pods come one by one: what is too much for the
// stable version goes to the first pods of the target, before its wave is full.
func TestFirstPodsRelieveAnOverloadedStableVersion(t *testing.T) {
	m := routed(t, 3, RouterWeights, false)
	m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = Quantity{Value: 3}, Quantity{}
	m.target(2)
	r := m.record
	r.Target, r.Highest, r.Stage, r.Settings = m.rev[2], 2, Rolling, m.wish.Settings
	m.asked[1], m.asked[2] = 1, 3
	r.Route = &Route{Since: m.now, Shares: []Share{{Revision: 1, Weight: 100}}}
	r.Wave = &Wave{Replicas: 3, Floor: 3, Ceiling: 6, Asks: []Ask{{Revision: 1, Ask: 1}, {Revision: 2, Ask: 3, Goal: 3}}}
	m.wish.Settings.Batches = []Batch{{Percent: 100}}
	r.Settings = m.wish.Settings
	m.stands()
	m.pods[2][1], m.pods[2][2] = time.Time{}, time.Time{}
	m.sync()
	if w := m.record.Route.Of(2).Weight; w != 50 {
		t.Errorf("want half of the requests at the target, which has half of the pods that serve, got %d%%: %s", w, m.line())
	}
}

// An answer that takes pods away splits the requests by what it leaves.
func TestSplitCountsPodsAsTheAnswerLeavesThem(t *testing.T) {
	m := routed(t, 7, RouterWeights, false)
	m.wish.Settings.MaxUnavailable = Quantity{}
	m.target(2)
	m.target(3)
	m.asked[1], m.asked[2] = 7, 5
	r := m.record
	r.Target, r.Highest, r.Stage, r.Settings = m.rev[2], 2, Rolling, m.wish.Settings
	r.Route = &Route{Since: m.now, Shares: []Share{{Revision: 1, Weight: 29}, {Revision: 2, Weight: 71}}}
	r.Wave = &Wave{Replicas: 7, Floor: 7, Ceiling: 12, Asks: []Ask{{Revision: 1, Ask: 7, Goal: 2}, {Revision: 2, Ask: 5, Goal: 5}}}
	m.stands()
	told := orders(r, &m.wish, m.facts())[1]
	if told >= 7 {
		t.Fatalf("want an answer that takes pods of revision 1 away, it leaves %d", told)
	}
	next, _ := Next(r, &m.wish, m.facts(), m.now)
	if w, most := next.Route.Of(1).Weight, (100*told+6)/7; w > most {
		t.Errorf("want at most %d%% of the requests at the %d pods that are left, got %d%%", most, told, w)
	}
}

// All gates are passed when a release is scaled to 0. Where the stable version keeps all
// its pods, it gets them back at once and the target a few at a time.
func TestPromotionAsleepLeadsWhereMostPodsCome(t *testing.T) {
	for _, keep := range []bool{true, false} {
		m := routed(t, 10, RouterWeights, keep)
		m.wish.Settings.Batches = []Batch{{Percent: 50, Approval: true}}
		m.target(2)
		m.run(20 * time.Second)
		m.ready[2] = -1
		m.wish.Command = m.record.Promote(0)
		m.run(time.Second)
		m.wish.Replicas = 0
		m.run(time.Minute)
		want := map[bool]int64{true: 1, false: 2}[keep]
		if got := m.route.Of(want).Weight; m.record.Stage != Promoting || got != 100 {
			t.Errorf("stable kept %t: want all requests at revision %d, got %s", keep, want, m.line())
		}
	}
}
