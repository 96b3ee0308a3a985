package rollout

import (
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

// A change of weight by less than smallMove on the way back waits for more pods to
// come, for smallMoveSeconds at most.
const (
	smallMove        = 10
	smallMoveSeconds = 10
)

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
