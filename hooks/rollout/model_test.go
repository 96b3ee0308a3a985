package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// model is the smallest world the core can be run in: Deployments that become
// available some seconds after they were asked for, observed at once. The full
// cluster, with caches, lost writes and Metacontroller, is test/sim.
type model struct {
	t      *testing.T
	now    time.Time
	record *Record
	wish   Wish
	pods   map[int64][]time.Time // by revision, when each pod becomes available
	asked  map[int64]int64
	marked map[int64]int64         // by revision, the record's counter of the last decision
	ready  map[int64]time.Duration // by revision; negative: never
	room   int64                   // pods that the quota allows, 0: all
	wake   time.Time
	writes int
	rev    map[int64]Revision
	lowest int64 // the fewest available pods seen since reset
	most   int64 // the most pods asked for since reset

	route   *Route        // as the last answer rendered it
	routed  time.Time     // when it came to be so
	lag     time.Duration // until what serves the route reports it in place
	refused string        // or what it says against it

	gauge *gauge // what metrics show; nil without a Prometheus
}

func newModel(t *testing.T, replicas int64) *model {
	m := &model{
		t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		pods: map[int64][]time.Time{}, asked: map[int64]int64{}, ready: map[int64]time.Duration{},
		rev: map[int64]Revision{}, marked: map[int64]int64{},
	}
	m.wish = Wish{Valid: true, Replicas: replicas, Settings: Settings{
		MaxSurge: Quantity{Value: 25, Percent: true}, ProgressDeadlineSeconds: 600, AutoRollback: true,
	}}
	return m
}

// target makes revision n what the spec wants.
func (m *model) target(n int64) {
	m.rev[n] = Revision{Number: n, Hash: fmt.Sprintf("hash%d", n), Version: fmt.Sprintf("v%d", n)}
	m.wish.Content = m.rev[n]
}

func (m *model) facts() *Facts {
	f := &Facts{Deployable: true, Restorable: true}
	for n := int64(1); n <= int64(len(m.rev)); n++ {
		asked, ok := m.asked[n]
		if !ok {
			continue
		}
		d := Deployment{Revision: n, Identity: m.rev[n], Asked: asked, Current: true, Total: int64(len(m.pods[n])), Counter: m.marked[n]}
		for _, at := range m.pods[n] {
			if !at.IsZero() && !m.now.Before(at) {
				d.Available++
			}
		}
		d.Ready = d.Available
		if d.Total < asked {
			d.Failure = "quota"
		}
		f.Deployments = append(f.Deployments, d)
	}
	f.Traffic = m.traffic()
	m.gauge.measure(m.record, f, m.now)
	return f
}

// traffic is what is observed of the route.
func (m *model) traffic() *Traffic {
	if m.wish.Settings.Router == RouterNone {
		return nil
	}
	tr := &Traffic{Weights: map[int64]int64{}, Refused: m.refused}
	if m.route == nil {
		return tr
	}
	tr.Header = m.route.Header
	for _, s := range m.route.Shares {
		tr.Weights[s.Revision] = s.Weight
	}
	tr.Placed = m.record != nil && m.route.sameAs(m.record.Route) && !m.now.Before(m.routed.Add(m.lag)) && m.refused == ""
	return tr
}

// sync is one call of the hook with everything observed and written at once.
func (m *model) sync() bool {
	m.t.Helper()
	f := m.facts()
	before := fmt.Sprint(m.record, f)
	out := Act(m.record, &m.wish, f)
	next, wake := Next(m.record, &m.wish, f, m.now)
	if err := Check(m.record, next, &m.wish, f, out); err != nil {
		m.t.Fatalf("%s\n%v\n%s", m.line(), err, m.dump())
	}
	if after := fmt.Sprint(m.record, f); after != before {
		m.t.Fatalf("the input was modified:\nbefore %s\nafter  %s", before, after)
	}
	changed := next != m.record
	seen := map[int64]bool{}
	for _, o := range out {
		seen[o.Revision] = true
		if n, ok := m.asked[o.Revision]; !ok || n != o.Replicas || o.Confirm {
			m.asked[o.Revision], m.marked[o.Revision] = o.Replicas, m.record.Counter
			m.writes++
			changed = true
		}
	}
	for n := range m.asked {
		if !seen[n] {
			delete(m.asked, n)
			delete(m.pods, n)
			m.writes++
			changed = true
		}
	}
	if m.record != nil && m.wish.Settings.Router != RouterNone && m.record.Route != nil && !m.record.Route.sameAs(m.route) {
		m.raised(f)
		m.route, m.routed = m.record.Route.clone(), m.now
		m.writes++
		changed = true
	}
	m.record, m.wake = next, wake
	m.settle()
	m.serve()
	return changed
}

// raised checks that the target gets no larger share than its pods can serve
// where the stable revision gives way with the batches.
func (m *model) raised(f *Facts) {
	m.t.Helper()
	n := m.record.Target.Number
	was, is := m.route.Of(n).Weight, m.record.Route.Of(n).Weight
	if m.record.Settings.KeepStable || m.record.Stable.Number == 0 || f.available() == 0 || m.record.Stable.Number == n || is <= max(1, was) {
		return
	}
	if most := 100 * f.of(n).available() / max(1, min(m.record.Wave.Floor, f.available())); is > most+1 && m.record.Wave.Replicas == m.wish.Replicas {
		m.t.Fatalf("revision %d gets %d%% of the requests and can serve %d%%: %s\n%s", n, is, most, m.line(), m.dump())
	}
}

// serve checks that every request meets a pod: what the route led to until a
// moment ago is in force as long as the new one is not.
func (m *model) serve() {
	m.t.Helper()
	f := m.facts()
	if f.available() == 0 || m.route == nil {
		return
	}
	for _, s := range m.route.Shares {
		if d := f.of(s.Revision); s.Weight > 0 && d.available() == 0 && m.ready[s.Revision] >= 0 {
			m.t.Fatalf("%d%% of the requests are led to revision %d, which has no pod: %s\n%s", s.Weight, s.Revision, m.line(), m.dump())
		}
	}
}

// settle lets the Deployments follow: not-available pods go first.
func (m *model) settle() {
	var total int64
	for _, n := range revisions(m.asked) {
		pods := m.pods[n]
		for int64(len(pods)) > m.asked[n] {
			at := len(pods) - 1
			for i, p := range pods {
				if p.IsZero() || m.now.Before(p) {
					at = i
				}
			}
			pods = append(pods[:at:at], pods[at+1:]...)
		}
		m.pods[n] = pods
		total += int64(len(pods))
	}
	for _, n := range revisions(m.asked) {
		for int64(len(m.pods[n])) < m.asked[n] && (m.room == 0 || total < m.room) {
			at := time.Time{}
			if m.ready[n] >= 0 {
				at = m.now.Add(m.ready[n])
			}
			m.pods[n] = append(m.pods[n], at)
			total++
		}
	}
	var asked, available int64
	for _, d := range m.facts().Deployments {
		asked += d.Asked
		available += d.Available
	}
	m.lowest, m.most = min(m.lowest, available), max(m.most, asked)
}

func (m *model) reset() { m.lowest, m.most, m.writes = 1<<40, 0, 0 }

// run passes time, from one second in which something can happen to the next.
func (m *model) run(d time.Duration) {
	m.t.Helper()
	for end := m.now.Add(d); ; m.now = m.next(end) {
		for i := 0; m.sync(); i++ {
			if i > 1000 {
				m.t.Fatalf("does not settle: %s\n%s", m.line(), m.dump())
			}
		}
		if !m.now.Before(end) {
			return
		}
	}
}

// next is when the hook asked to be called, a pod becomes available, or end.
func (m *model) next(end time.Time) time.Time {
	next := end
	sooner := func(t time.Time) {
		if t.After(m.now) && t.Before(next) {
			next = t
		}
	}
	sooner(m.wake)
	sooner(m.routed.Add(m.lag))
	sooner(m.gauge.next(m.now))
	for _, pods := range m.pods {
		for _, t := range pods {
			sooner(t)
		}
	}
	return next
}

// until runs until the stage is reached.
func (m *model) until(s Stage, within time.Duration) {
	m.t.Helper()
	m.run(time.Second)
	for end := m.now.Add(within); m.record == nil || m.record.Stage != s; m.run(time.Second) {
		if m.now.After(end) {
			m.t.Fatalf("not %s within %s: %s\n%s", s, within, m.line(), m.dump())
		}
	}
}

func (m *model) line() string {
	var b strings.Builder
	if m.record != nil {
		fmt.Fprintf(&b, "%s target=%d.%d stable=%d", m.record.Stage, m.record.Target.Number, m.record.Attempt, m.record.Stable.Number)
		if m.record.Reached != nil {
			fmt.Fprintf(&b, " reached=%d/%d", m.record.Reached.Pods, m.record.Reached.Replicas)
		}
	}
	for _, d := range m.facts().Deployments {
		fmt.Fprintf(&b, " %d:%d/%d", d.Revision, d.Available, d.Asked)
		if m.route.Has(d.Revision) {
			fmt.Fprintf(&b, "@%d%%", m.route.Of(d.Revision).Weight)
		}
	}
	return b.String()
}

func (m *model) dump() string {
	if m.record == nil {
		return "no record"
	}
	return fmt.Sprintf("wave %+v clock %+v gate %+v failure %+v wish %+v", m.record.Wave, m.record.Clock, m.record.Gate, m.record.Failure, m.wish)
}

// installed is a model with revision 1 complete.
func installed(t *testing.T, replicas int64) *model {
	t.Helper()
	m := newModel(t, replicas)
	m.target(1)
	m.until(Complete, time.Minute)
	m.reset()
	return m
}
