package rollout

import (
	"math"
	"slices"
	"time"
)

// AcceptSeconds is how long a route is given to be accepted by what serves it.
// A gateway that reports nothing must not hold a release, let alone a rollback.
const AcceptSeconds = 30

// drainSeconds is how long a version that failed or was superseded is kept after
// its last request, at most: proxies take a moment to follow. The previous stable
// one is kept for scaleDownDelaySeconds, to switch back to.
const drainSeconds = 10

// smallMove is a change of weight on the way back that is not worth a write yet.
const smallMove = 10

// steer keeps the record's route up to date.
func (t *transition) steer() {
	r := t.r
	if r.Settings.Router == RouterNone {
		r.Route = nil
		return
	}
	next := &Route{Header: t.header()}
	weights := t.split()
	if len(weights) == 0 {
		return // A first version that has no pod yet.
	}
	revisions := revisions(weights)
	if next.Header != 0 {
		// It has requests as well, and is kept when it has lost them.
		revisions = append(revisions, next.Header)
	}
	if r.Route != nil {
		next.Since = r.Route.Since
		for _, s := range r.Route.Shares {
			if weights[s.Revision] == 0 && t.lingers(s) {
				revisions = append(revisions, s.Revision)
			}
		}
	}
	slices.Sort(revisions)
	for _, revision := range slices.Compact(revisions) {
		s := r.Route.Of(revision)
		if s.Weight = weights[revision]; s.Weight > 0 || next.Header == revision {
			s.Empty, s.Free = time.Time{}, false
		}
		next.Shares = append(next.Shares, s)
	}
	if !next.sameAs(r.Route) {
		next.Since = t.now
	} else if t.placed() || t.givenUp() {
		t.release(next)
	}
	r.Route = next
	t.lookAtRoute()
}

// givenUp tells whether a way back waits no longer for a route that is refused: it
// carries what it should, and nobody will ever say yes to it.
func (t *transition) givenUp() bool {
	tr := t.facts.Traffic
	return t.r.backward() && tr != nil && tr.Refused != "" && t.over(t.r.Route.Since, AcceptSeconds)
}

// lingers tells whether a share without weight still says something: its pods
// are kept, or routes lead to it.
func (t *transition) lingers(s Share) bool {
	return !s.Free || t.facts.of(s.Revision).asked() > 0 || t.facts.leads(s.Revision)
}

// release stamps the shares that have become empty, and frees those that have
// been for long enough.
func (t *transition) release(route *Route) {
	for i := range route.Shares {
		s := &route.Shares[i]
		if s.Weight > 0 || s.Free || route.Header == s.Revision || t.facts.leads(s.Revision) {
			continue
		}
		if s.Empty.IsZero() {
			s.Empty = t.now
		}
		s.Free = t.over(s.Empty, t.delay(s.Revision))
	}
}

// delay is how long a revision without requests is kept.
func (t *transition) delay(revision int64) int64 {
	r := t.r
	if r.Stage == Complete || revision == r.Stable.Number {
		return r.Settings.ScaleDownDelaySeconds
	}
	return min(drainSeconds, r.Settings.ScaleDownDelaySeconds)
}

// lookAtRoute looks again when a route counts as in place that nobody reports on.
func (t *transition) lookAtRoute() {
	if t.placed() {
		return
	}
	moving := t.r.Stage != Complete && t.r.Stage != RolledBack && t.r.Stage != Held
	for _, s := range t.r.Route.Shares {
		moving = moving || s.Weight == 0 && !s.Free
	}
	if moving && t.over(t.r.Route.Since, AcceptSeconds) {
		t.over(t.now, lookSeconds-1)
	}
}

// sameAs tells whether two routes send requests the same way.
func (r *Route) sameAs(other *Route) bool {
	return other != nil && r.Header == other.Header && slices.EqualFunc(r.Shares, other.Shares, func(a, b Share) bool {
		return a.Revision == b.Revision && a.Weight == b.Weight
	})
}

// placed tells whether the observed routes are those of the observed record.
func (t *transition) placed() bool {
	return t.r.Settings.Router == RouterNone || t.facts.Traffic != nil && t.facts.Traffic.Placed
}

// steered tells whether requests go where the stage wants them by now.
func (t *transition) steered() bool {
	r := t.r
	if r.Settings.Router == RouterNone {
		return true
	}
	if r.Route == nil || !t.placed() || r.Route.Header != t.header() {
		return false
	}
	weights := t.split()
	for _, s := range r.Route.Shares {
		if weights[s.Revision] != s.Weight {
			return false
		}
		delete(weights, s.Revision)
	}
	return len(weights) == 0
}

// header is the revision that requests with the release's headers go to.
func (t *transition) header() int64 {
	r := t.r
	if !r.Settings.Headers || r.Target.Number == r.Stable.Number || r.Stable.Number == 0 || t.facts.serving(r.Target.Number) == 0 {
		return 0
	}
	if r.Stage == Rolling || r.Stage == Promoting || r.Stage == Held {
		return r.Target.Number
	}
	return 0
}

// split divides the requests as the stage asks for and as the pods allow; the
// result sums to 100 and has no zeros; it is empty before the first pod serves. The target gets its share, the stable
// revision the rest as far as it can serve it, superseded ones no more than they
// have.
func (t *transition) split() map[int64]int64 {
	r := t.r
	cur := t.carried()
	switch {
	case len(cur) == 0:
		// The first route of all: as if those that serve had got all requests.
		if best := t.busiest(); best != 0 {
			cur = map[int64]int64{best: 100}
		}
	case t.replicas == 0:
		return cur // Whose pods go last says nothing.
	}
	target, stable := r.Target.Number, r.Stable.Number
	var share int64
	if target != stable && !r.backward() {
		share = t.forTarget(cur[target])
	}
	out := t.divide(cur, share)
	if r.Settings.Router != RouterWeights && share > 0 && len(out) > t.most() {
		// A superseded version must leave before the target can enter.
		out = t.divide(cur, 0)
	}
	if len(out) > t.most() {
		return cur
	}
	if r.backward() && t.small(cur, out) {
		return cur
	}
	return out
}

// busiest is the revision with the most pods that serve, of equal ones the latest;
// 0 if there is none.
func (t *transition) busiest() int64 {
	var best int64
	for i := range t.facts.Deployments {
		if n := t.facts.Deployments[i].Revision; t.facts.serving(n) > 0 && t.facts.serving(n) >= t.facts.serving(best) {
			best = n
		}
	}
	return best
}

// most is how many versions the router can split requests between.
func (t *transition) most() int {
	switch t.r.Settings.Router {
	case RouterSwitch:
		return 1
	case RouterPair:
		return 2
	case RouterWeights, RouterNone:
	}
	return math.MaxInt
}

// divide is split for a given share of the target.
func (t *transition) divide(cur map[int64]int64, share int64) map[int64]int64 {
	r := t.r
	target, stable := r.Target.Number, r.Stable.Number
	out := map[int64]int64{}
	rest := int64(100)
	give := func(revision, n int64) {
		if n = min(n, rest); n > 0 && t.facts.serving(revision) > 0 {
			out[revision] += n
			rest -= n
		}
	}
	give(target, share)
	if stable != 0 {
		n := t.capacity(stable)
		if n == rest-1 {
			n = rest // a point lost to rounding keeps no version alive
		}
		give(stable, n)
	}
	held := revisions(cur)
	slices.Reverse(held)
	for _, revision := range held {
		if revision != stable && (revision != target || r.backward()) {
			give(revision, cur[revision])
		}
	}
	// What nobody has room for goes where there is anybody.
	give(stable, rest)
	if !r.backward() || cur[target] > 0 {
		give(target, rest)
	}
	for _, revision := range held {
		give(revision, rest)
	}
	if rest == 0 {
		return out
	}
	return cur // Nobody serves: to move requests would help nobody.
}

// forTarget is the target's share, cur of which it has. It is raised when all
// pods of the batch serve, or of the wave where the stable revision gives way
// with the batches; it is lowered when pods go missing.
func (t *transition) forTarget(cur int64) int64 {
	r := t.r
	serving := t.facts.serving(r.Target.Number)
	if serving == 0 {
		return 0
	}
	if r.Stable.Number == 0 {
		return t.forFirst(cur, serving)
	}
	size, weight := t.replicas, int64(100)
	if r.Stage == Rolling || r.Stage == Held && r.inBatches() {
		if step, ok := t.plan().Current(r.Reached); ok {
			size, weight = step.Size, step.Weight
		}
	}
	planned := weight
	if t.frozen() || r.Stage == Held {
		weight = min(weight, cur)
	}
	if weight == 0 || size == 0 {
		return 0
	}
	full, most := serving >= size, weight
	if !r.Settings.KeepStable {
		most = min(weight, max(1, t.capacity(r.Target.Number)))
		a := r.Wave.of(r.Target.Number)
		full = full || a.Ask > 0 && (serving >= a.Ask || r.Wave.Closed)
	}
	if full {
		return most
	}
	if !r.Settings.KeepStable {
		return min(cur, most) // as much as its pods can serve
	}
	return min(cur, max(1, planned*serving/size))
}

// crowded tells whether a superseded version stands between the stable one and
// the target, in a router that knows two.
func (t *transition) crowded() bool {
	r := t.r
	if r.Settings.Router != RouterPair || r.backward() || r.Stable.Number == 0 {
		return false
	}
	return slices.ContainsFunc(r.Route.shares(), func(s Share) bool {
		return s.Weight > 0 && s.Revision != r.Target.Number && s.Revision != r.Stable.Number
	})
}

// forFirst is the share of a target where no version has ever been out. One that
// it replaces serves until the target's pods can.
func (t *transition) forFirst(cur, serving int64) int64 {
	most := min(100, max(1, t.capacity(t.r.Target.Number)))
	if a := t.r.Wave.of(t.r.Target.Number); most == 100 || a.Ask > 0 && serving >= a.Ask {
		return most
	}
	return min(cur, most)
}

// floor is how many pods can be relied on: replicas - maxUnavailable. Requests are
// to get along with so many.
func (t *transition) floor() int64 {
	_, unavailable := t.r.Settings.budget(t.replicas)
	return t.replicas - unavailable
}

// capacity is the share of the requests that a revision's pods can serve: each
// no more than one of the pods that can be relied on would, or than all that serve
// do.
func (t *transition) capacity(revision int64) int64 {
	all := int64(0)
	for i := range t.facts.Deployments {
		all += t.facts.serving(t.facts.Deployments[i].Revision)
	}
	return 100 * t.facts.serving(revision) / max(1, min(t.floor(), all))
}

// small tells whether the way back is not worth a write yet.
func (t *transition) small(cur, out map[int64]int64) bool {
	for revision, n := range cur {
		if revision == t.r.Stable.Number {
			continue
		}
		if t.facts.serving(revision) == 0 || out[revision] == 0 || n-out[revision] >= smallMove {
			return false
		}
	}
	return len(cur) > 1
}

// carried are the weights that requests follow now: the record's, or after it was
// lost those that are observed.
func (t *transition) carried() map[int64]int64 {
	out := map[int64]int64{}
	for _, s := range t.r.Route.shares() {
		if s.Weight > 0 {
			out[s.Revision] = s.Weight
		}
	}
	return out
}

func (r *Route) shares() []Share {
	if r == nil {
		return nil
	}
	return r.Shares
}

// observedRoute is the route that is observed, for a record that has none; nil
// when there is no whole one.
func observedRoute(f *Facts, now time.Time) *Route {
	if f.Traffic == nil {
		return nil
	}
	r := &Route{Since: now, Header: f.Traffic.Header}
	for _, revision := range revisions(f.Traffic.Weights) {
		r.Shares = append(r.Shares, Share{Revision: revision, Weight: f.Traffic.Weights[revision]})
	}
	if r.validate() != nil {
		return nil
	}
	return r
}

// serving is the number of pods of a revision that requests can be sent to.
func (f *Facts) serving(revision int64) int64 {
	n := f.of(revision).available()
	if f.Traffic != nil && f.Traffic.Endpoints != nil {
		n = min(n, f.Traffic.Endpoints[revision])
	}
	return n
}

// leads tells whether requests are observed to be led to a revision.
func (f *Facts) leads(revision int64) bool {
	tr := f.Traffic
	return tr != nil && (tr.Weights[revision] > 0 || tr.Header == revision || tr.Leads[revision])
}

// needed is how many pods of a revision must stay for the requests that are led
// to it, by what is observed or by the record, whichever is more. Weights are
// whole percentages: one point is what rounding may have taken. All requests get
// along with floor pods.
func (r *Record) needed(revision, floor int64, f *Facts) int64 {
	if f.Traffic == nil && r.Route == nil {
		return 0
	}
	s := r.Route.Of(revision)
	weight := s.Weight
	if f.Traffic != nil {
		weight = max(weight, f.Traffic.Weights[revision])
	}
	if tr := f.Traffic; tr != nil && !tr.Placed && tr.Refused == "" && r.Route.Has(revision) {
		// Nobody knows yet by which weights requests are led.
		return math.MaxInt
	}
	switch {
	case weight >= 100:
		return max(1, floor)
	case weight > 1:
		return max(1, ceilPercent(floor, weight-1))
	case weight == 1 || f.leads(revision) || r.Route != nil && r.Route.Header == revision:
		return 1
	case r.Route.Has(revision) && !s.Free:
		return math.MaxInt
	}
	return 0
}
