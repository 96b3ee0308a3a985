package rollout

import (
	"maps"
	"slices"
)

// move keeps the wave of a stage that moves pods up to date.
func (t *transition) move() {
	r := t.r
	if r.Stage == Complete || r.Stage == RolledBack {
		r.Wave = nil
		return
	}
	next := t.nextWave()
	switch was := r.Wave.of(r.Target.Number).Ask; {
	case r.Wave == nil || t.replan || !next.sameWay(r.Wave) || t.left(next) || t.raises(next) || t.mistrusts():
		ask := next.of(r.Target.Number).Ask
		r.Wave = next
		t.restartClock(was, ask)
	case t.quiet():
		r.Wave.Closed = true
	}
}

// raises tells whether it is time for a wave that asks for more than the present one.
func (t *transition) raises(next *Wave) bool {
	r := t.r
	var more int64
	full, settled, done := true, true, true
	emitted := r.asks(t.facts)
	for _, a := range r.Wave.Asks {
		d := t.facts.of(a.Revision)
		if a.shrinks() {
			settled = settled && d.asked() <= emitted[a.Revision]
			continue
		}
		if a.Revision == r.Target.Number {
			full = d.available() >= a.Ask || d != nil && d.Failure != ""
		}
		n := next.of(a.Revision)
		more += n.Ask - a.Ask
		done = done && n.Ask >= n.Goal
	}
	if more <= 0 {
		return false
	}
	if r.backward() {
		// Going back has no waves, but not a write for every single pod either.
		surge, _ := r.Settings.budget(t.replicas)
		return full || done || 2*more >= surge
	}
	return settled && (full || r.Wave.Closed)
}

// left tells whether a superseded revision that the wave takes away is seen to have
// no pods. The record says so before its Deployment goes: one that is not observed
// and not known to be gone may be hidden.
func (t *transition) left(next *Wave) bool {
	for _, a := range t.r.Wave.Asks {
		if d := t.facts.of(a.Revision); a.Ask > 0 && !t.r.kept(a.Revision) && !next.has(a.Revision) && d != nil && d.Asked == 0 {
			return true
		}
	}
	return false
}

// mistrusts tells whether a Deployment shows fewer pods than the wave left it, by an
// answer from before the wave, and nobody asked it to confirm.
func (t *transition) mistrusts() bool {
	w := t.r.Wave
	return w.Confirm < w.Began && slices.ContainsFunc(w.Asks, func(a Ask) bool {
		d := t.facts.of(a.Revision)
		return a.shrinks() && w.outlives(d) && d.Asked < a.Ask
	})
}

// sameWay tells whether two waves go to the same place within the same limits.
func (w *Wave) sameWay(other *Wave) bool {
	if w.Floor != other.Floor || w.Ceiling != other.Ceiling || w.Replicas != other.Replicas {
		return false
	}
	for _, a := range w.Asks {
		if a.Goal != other.of(a.Revision).Goal || a.Ask > 0 && other.of(a.Revision).Ask == 0 && a.shrinks() {
			return false
		}
	}
	for _, a := range other.Asks {
		if a.Goal != w.of(a.Revision).Goal {
			return false
		}
	}
	return true
}

// nextWave is the wave that would start now.
func (t *transition) nextWave() *Wave {
	cur := now(maps.Clone(t.told))
	for i := range t.facts.Deployments {
		d := &t.facts.Deployments[i]
		cur[d.Revision] = max(cur[d.Revision], d.asked())
	}
	for n, asked := range t.hidden() {
		cur[n] = max(cur[n], asked)
	}
	if o := t.observed; o != nil && o.Wave != nil {
		for _, a := range o.Wave.Asks {
			if !a.shrinks() || o.Wave.outlives(t.facts.of(a.Revision)) {
				// It may have been asked for by an answer to an older request, or is yet
				// to be by one to an older record.
				cur[a.Revision] = max(cur[a.Revision], a.Ask)
			}
		}
	}
	w := newWave(t.r.parts(), t.goals(), t.told, cur, t.facts, t.replicas, t.r.Settings)
	w.Began = t.r.Counter + 1 // of the record that is being written
	if t.inDoubt(cur) {
		w.Confirm = w.Began
	}
	return w
}

// hiddenSeconds is how long a cache may not show a Deployment that was made.
const hiddenSeconds = 10

// hidden are the pods of superseded revisions that the wave takes away and whose
// Deployments are not observed. They may have been made a moment before.
func (t *transition) hidden() map[int64]int64 {
	o := t.observed
	if o == nil || o.Wave == nil {
		return nil
	}
	out := map[int64]int64{}
	for _, a := range o.Wave.Asks {
		if a.Ask > 0 && !o.kept(a.Revision) && t.facts.of(a.Revision) == nil && !t.over(o.Changed, hiddenSeconds) {
			out[a.Revision] = a.Ask
		}
	}
	return out
}

// inDoubt tells whether caches may show Deployments as they no longer are.
func (t *transition) inDoubt(cur now) bool {
	o := t.observed
	switch {
	case o == nil:
		return false
	case o.Wave != nil:
		return o.Wave.doubtful(o.parts(), cur) || !o.Wave.confirmed(t.facts)
	}
	for revision, n := range cur {
		if t.facts.of(revision).asked() != n {
			return true
		}
	}
	return false
}

// goals is where the stage wants to be.
func (t *transition) goals() goals {
	r := t.r
	switch r.Stage {
	case Restoring, RollingBack, Complete, RolledBack:
		return goals{stable: t.replicas, stableFirst: true}
	case Rolling, Promoting, Held:
	}
	g := goals{target: t.replicas}
	if r.Stage == Rolling || r.Stage == Held && r.inBatches() {
		if step, ok := t.plan().Current(r.Reached); ok {
			g.target = step.Size
		}
	}
	if t.replicas == 0 {
		g.target = 0
	}
	if t.frozen() || r.Stage == Held {
		return t.freeze(g)
	}
	g.stable = t.replicas - g.target
	if r.Settings.KeepStable {
		g.stable = t.replicas
	}
	if t.crowded() {
		// The stable revision takes the requests of the superseded one first.
		return goals{stable: t.replicas, stableFirst: true}
	}
	g.stableFirst = t.mendsFloor(t.told[r.Stable.Number], g.stable)
	return g
}

// inBatches tells whether the attempt has batches: a first install and a release
// by rollbackTo have none.
func (r *Record) inBatches() bool { return r.Stable.Number != 0 && r.Pin == 0 }

// mendsFloor tells whether the floor is broken and healthy stable pods can mend
// it, so that they come before the next pod of the target.
func (t *transition) mendsFloor(at, goal int64) bool {
	d := t.facts.of(t.r.Stable.Number)
	_, unavailable := t.r.Settings.budget(t.replicas)
	return at < goal && t.facts.available() < t.replicas-unavailable && d.available() == d.asked()
}

// freeze keeps every version at what it was told, as far as the replicas allow:
// nothing new is asked for, and scaling goes to the stable revision. What somebody
// else scaled a Deployment to is not kept.
func (t *transition) freeze(g goals) goals {
	r := t.r
	surge, _ := r.Settings.budget(t.replicas)
	g.target = min(g.target, t.told[r.Target.Number])
	rest := t.replicas - g.target
	total := g.target
	g.keep = map[int64]int64{}
	for _, revision := range revisions(t.told) {
		if r.kept(revision) {
			continue
		}
		g.keep[revision] = min(t.told[revision], rest)
		rest -= g.keep[revision]
		total += g.keep[revision]
	}
	if r.Stable.Number == 0 {
		if t.told[r.Target.Number] > 0 || r.Stage == Held {
			// Scaling is never frozen, and there is nobody else to grow.
			g.target += rest
		}
		return g
	}
	g.stable = rest
	if r.Settings.KeepStable {
		g.stable = t.replicas
		return g
	}
	if at := t.told[r.Stable.Number]; total+at <= t.replicas+surge {
		g.stable = max(rest, at)
	}
	return g
}
