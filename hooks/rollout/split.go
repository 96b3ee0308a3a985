package rollout

import (
	"math"
	"slices"
)

// split divides the requests as the stage asks for and as the pods allow. The
// target gets its share, the stable revision the rest as far as it can serve it, and
// superseded ones what is left: no more than they have, but where the stable revision
// gives way with the batches the later of them relieves the earlier. The result sums
// to 100 and has no zeros; it is empty before the first pod serves.
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
		return t.asleep()
	}
	if heir := t.heir(cur); heir != 0 {
		cur = map[int64]int64{heir: 100}
	}
	target, stable := r.Target.Number, r.Stable.Number
	var share int64
	if target != stable && !r.backward() {
		share = t.forTarget(cur[target])
	}
	out := t.divide(cur, share)
	if r.Settings.Router != RouterWeights && share > 0 && len(out) > t.most() {
		// A superseded version must leave before the target can enter, or the target
		// takes its place.
		if out = t.divide(cur, 0); t.serving(stable) > 0 && t.impatient() {
			out = map[int64]int64{target: share, stable: 100 - share}
		}
	}
	if len(out) > t.most() {
		return cur
	}
	if r.backward() && t.small(cur, out) {
		return cur
	}
	return out
}

// asleep are the weights while nobody is to answer: all go to one version. With shares,
// those of whose pods come later would be led nowhere when the release wakes up, until
// the routes follow. If it is another that gets the pods then, see [transition.heir].
func (t *transition) asleep() map[int64]int64 {
	r := t.r
	if r.Stable.Number == 0 || r.Stage == Promoting && !r.Settings.KeepStable {
		return map[int64]int64{r.Target.Number: 100}
	}
	return map[int64]int64{r.Stable.Number: 100}
}

// heir is the revision with the most pods in the wave that begins, the stable one of
// equal ones, where requests are led to none that has pods or gets any: as after the
// release was asleep. 0 otherwise.
func (t *transition) heir(cur map[int64]int64) int64 {
	for revision := range cur {
		if t.told[revision] > 0 || t.facts.of(revision).asked() > 0 || t.r.Wave.of(revision).Ask > 0 {
			return 0
		}
	}
	if t.r.Wave == nil {
		return 0
	}
	var heir Ask
	for _, a := range t.r.Wave.Asks {
		if a.Ask > heir.Ask || a.Ask > 0 && a.Ask == heir.Ask && a.Revision == t.r.Stable.Number {
			heir = a
		}
	}
	return heir.Revision
}

// busiest is the revision with the most pods that serve, of equal ones the latest;
// 0 if there is none.
func (t *transition) busiest() int64 {
	var best int64
	for i := range t.facts.Deployments {
		if n := t.facts.Deployments[i].Revision; t.serving(n) > 0 && t.serving(n) >= t.serving(best) {
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
		if n = min(n, rest); n > 0 && t.serving(revision) > 0 {
			out[revision] += n
			rest -= n
		}
	}
	give(target, share)
	if stable != 0 {
		n := t.ample(stable)
		if n == rest-1 {
			n = rest // a point lost to rounding keeps no version alive
		}
		give(stable, n)
	}
	held := revisions(cur)
	slices.Reverse(held)
	for _, revision := range held {
		if revision != stable && (revision != target || r.backward()) {
			n := cur[revision]
			if !r.Settings.KeepStable && revision != target {
				// Of several the later takes what its pods can serve from the earlier:
				// where there is no surge, the next pods need the room of those.
				n = max(n, t.ample(revision))
			}
			if n > 1 && n == rest-1 && revision != target {
				n = rest // as for the stable one: the last point keeps no other version
			}
			give(revision, n)
		}
	}
	if !r.backward() && target != stable {
		// It has more than it is to have, as after an edit of the plan, and the pods for it:
		// it keeps what nobody else has room for yet.
		give(target, min(cur[target], t.capacity(target))-out[target])
	}
	// What nobody has room for goes where there is anybody, but not for the sake of
	// endpoints that are only late, or gone because somebody changed a Service: that
	// would lead requests past a gate. A version that failed gets no more at all.
	give(stable, rest)
	if rest > 0 && slices.ContainsFunc(held, func(n int64) bool { return t.facts.of(n).available() > 0 && t.facts.serving(n) == 0 }) {
		return cur
	}
	if !r.backward() {
		give(target, rest)
	}
	for _, revision := range append(held, t.busiest()) {
		if revision != target || !r.backward() {
			give(revision, rest)
		}
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
	serving := t.serving(r.Target.Number)
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
		// As much as its pods can serve, and what is too much for the stable revision's.
		return max(min(cur, most), min(most, 100-t.capacity(r.Stable.Number)))
	}
	return min(cur, max(1, planned*serving/size))
}

// crowded tells whether the target waits for a superseded version that stands
// between it and the stable one, in a router that knows two.
func (t *transition) crowded() bool {
	r := t.r
	if r.Settings.Router != RouterPair || r.backward() || r.Stable.Number == 0 {
		return false
	}
	return slices.ContainsFunc(r.Route.shares(), func(s Share) bool {
		return s.Weight > 0 && s.Revision != r.Target.Number && s.Revision != r.Stable.Number
	}) && !t.impatient()
}

// impatient tells whether the stable version has had its time to take the requests
// of a superseded one, in a router that knows two. One whose pods come and go can
// never take them all, and the target may be what mends it.
func (t *transition) impatient() bool {
	r := t.r
	return r.Settings.Router == RouterPair && t.over(r.Started, r.Settings.ProgressDeadlineSeconds)
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

// serving is how many pods of a revision requests can be sent to once the answer
// being given is carried out: it may take some away.
func (t *transition) serving(revision int64) int64 {
	return min(t.facts.serving(revision), t.told[revision])
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
	return 100 * t.serving(revision) / t.servers()
}

// ample is the largest share that needs no more pods than serve: needed allows for
// the point that rounding takes.
func (t *transition) ample(revision int64) int64 {
	by := t.servers()
	return (100*t.serving(revision) + by - 1) / by
}

// servers is how many pods all requests have to get along with, at least 1.
func (t *transition) servers() int64 {
	all := int64(0)
	for i := range t.facts.Deployments {
		all += t.serving(t.facts.Deployments[i].Revision)
	}
	return max(1, min(t.floor(), all))
}

// small tells whether the way back is not worth a write yet: more of the pods that
// were asked for are about to serve. Where none is to come, or none does come, the
// smallest step is worth one, because the next pods can need its room.
func (t *transition) small(cur, out map[int64]int64) bool {
	r := t.r
	if len(cur) < 2 || r.Route == nil || t.serving(r.Stable.Number) >= r.Wave.of(r.Stable.Number).Ask {
		return false
	}
	for revision, n := range cur {
		if revision == r.Stable.Number {
			continue
		}
		if t.serving(revision) == 0 || out[revision] == 0 || n-out[revision] >= smallMove {
			return false
		}
	}
	return !t.over(r.Route.Since, smallMoveSeconds)
}

// carried are the weights that requests follow by the record.
func (t *transition) carried() map[int64]int64 {
	out := map[int64]int64{}
	for _, s := range t.r.Route.shares() {
		if s.Weight > 0 {
			out[s.Revision] = s.Weight
		}
	}
	return out
}
