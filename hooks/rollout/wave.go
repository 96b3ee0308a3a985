package rollout

import (
	"fmt"
	"slices"
	"sort"
)

// Wave is one movement of pods between versions: how many pods each revision is
// asked for now and where it is going. It is computed once, stored with the
// record and followed to the letter, so that an answer to a stale request can
// only repeat an older step and never mixes two.
//
// A revision with Ask <= Goal grows: it is asked for exactly Ask pods. One with
// Ask > Goal shrinks: it is asked for something between the two, as low as the
// available pods of the others allow.
type Wave struct {
	// Replicas is what spec.replicas was when it began.
	Replicas int64 `json:"replicas"`
	// Floor is replicas - maxUnavailable: available pods are not taken below it.
	Floor int64 `json:"floor"`
	// Ceiling is replicas + maxSurge: no raise takes the pods asked for above it.
	Ceiling int64 `json:"ceiling"`
	// Closed lets a wave shrink the other side although its own side is not full:
	// nothing became available for quietSeconds.
	Closed bool `json:"closed,omitempty"`
	// Began is the counter of the record that began it. A Deployment that was decided
	// under an older one may still be written by an answer to that.
	Began int64 `json:"began,omitempty"`
	// Confirm, if not 0, is the counter of the record that began this wave: under
	// the wave before, a revision may have been asked for other than a cache shows.
	// Available pods are taken down only once every Deployment says that it was
	// decided under that record or a later one.
	Confirm int64 `json:"confirm,omitempty"`
	// Asks by revision number, ascending.
	Asks []Ask `json:"asks"`
}

// Ask is one revision's part of a wave.
type Ask struct {
	Revision int64 `json:"revision"`
	Ask      int64 `json:"ask"`
	Goal     int64 `json:"goal"`
}

func (a Ask) shrinks() bool { return a.Ask > a.Goal }

func (w *Wave) validate() error {
	if w == nil {
		return nil
	}
	for i, a := range w.Asks {
		if a.Ask < 0 || a.Goal < 0 || a.Revision < 1 || i > 0 && w.Asks[i-1].Revision >= a.Revision {
			return fmt.Errorf("wave asks revision %d for %d pods, goal %d", a.Revision, a.Ask, a.Goal)
		}
	}
	return nil
}

func (w *Wave) clone() *Wave {
	if w == nil {
		return nil
	}
	c := *w
	c.Asks = append([]Ask(nil), w.Asks...)
	return &c
}

// of is the ask of a revision; the zero Ask when the wave does not know it.
func (w *Wave) of(revision int64) Ask {
	if w != nil {
		for _, a := range w.Asks {
			if a.Revision == revision {
				return a
			}
		}
	}
	return Ask{Revision: revision}
}

// has tells whether the wave knows a revision.
func (w *Wave) has(revision int64) bool {
	return slices.ContainsFunc(w.Asks, func(a Ask) bool { return a.Revision == revision })
}

// goals is where a stage wants to be.
type goals struct {
	target, stable int64
	// keep holds superseded revisions at a size while the release is frozen.
	keep map[int64]int64
	// stableFirst raises the stable revision before the target.
	stableFirst bool
}

// parts are the roles in a movement.
type parts struct {
	stable, target int64
}

// now is what each revision is asked for at this moment: by the answer being
// given, or by what is observed, whichever is more. It never understates, so a
// raise on top of it stays within the ceiling even if a take-down was lost.
type now map[int64]int64

// newWave computes the next movement from what is asked for now.
//
// Replicas 10, surge 3, unavailable 0, batch 4, from 8 and 2: ceiling 13, room
// 3, so the target is raised to 4 and the stable revision shrinks towards 6 once
// they are available.
//
// told is what the answer asks for. Where it is less than cur and there is no room
// for cur, it stands: the rest is on its way out.
func newWave(p parts, g goals, told map[int64]int64, cur now, f *Facts, replicas int64, s Settings) *Wave {
	surge, unavailable := s.budget(replicas)
	w := &Wave{Replicas: replicas, Floor: replicas - unavailable, Ceiling: replicas + surge}
	// The version that requests are leaving keeps its pods: the stable one, or before
	// there is any, the one that the target replaces.
	beside := s.KeepStable && p.target != p.stable
	if p.stable == 0 {
		beside = beside && slices.ContainsFunc(revisions(cur), func(n int64) bool { return n != p.target && cur[n] > 0 })
	}
	if beside {
		w.Ceiling += replicas
	}
	room := w.Ceiling
	for _, n := range cur {
		room -= n
	}
	raise := func(revision, goal int64) int64 {
		at := cur[revision]
		if out := min(-room, at-told[revision]); out > 0 && goal >= at {
			at, room = at-out, room+out
		}
		if goal > at {
			add := min(goal-at, max(room, 0))
			if beside && revision == p.target {
				// The nodes need not take all at once.
				add = min(add, max(0, max(surge, 1)-(at-min(at, f.of(revision).available()))))
			}
			at, room = at+add, room-add
		}
		return at
	}
	asks := map[int64]Ask{}
	set := func(revision, ask, goal int64) {
		if revision != 0 && (ask > 0 || goal > 0 || revision == p.target || revision == p.stable) {
			asks[revision] = Ask{Revision: revision, Ask: ask, Goal: goal}
		}
	}
	if g.stableFirst && p.stable != 0 {
		set(p.stable, raise(p.stable, g.stable), g.stable)
	}
	if p.target != p.stable {
		set(p.target, raise(p.target, g.target), g.target)
	}
	if !g.stableFirst && p.stable != 0 {
		set(p.stable, raise(p.stable, g.stable), g.stable)
	}
	held := int64(0)
	for revision, at := range cur {
		if revision != p.target && revision != p.stable {
			set(revision, at, min(at, g.keep[revision]))
			held += at - min(at, g.keep[revision])
		}
	}
	if target := asks[p.target]; p.target != p.stable && target.Ask < target.Goal && held > 0 && room <= 0 {
		borrow(asks, p, cur, f)
	}
	for _, a := range asks {
		w.Asks = append(w.Asks, a)
	}
	sort.Slice(w.Asks, func(i, j int) bool { return w.Asks[i].Revision < w.Asks[j].Revision })
	return w
}

// borrow makes room for the target out of stable pods that are asked for and
// not available. Superseded pods may be all that serves, and then they stay;
// without this a broken stable version would block the one that mends it.
func borrow(asks map[int64]Ask, p parts, cur now, f *Facts) {
	a, target, d := asks[p.stable], asks[p.target], f.of(p.stable)
	if p.stable == 0 || a.shrinks() || d == nil || !d.Current {
		return
	}
	need := target.Goal - target.Ask
	if back := min(need, a.Ask-cur[p.stable]); back > 0 {
		// Room that it would take only now. Were it asked for and given away in one,
		// neither would get it.
		a.Ask, target.Ask, need = a.Ask-back, target.Ask+back, need-back
		asks[p.target] = target
	}
	if idle := a.Ask - max(d.available(), 0); idle > 0 && need > 0 {
		a.Goal = a.Ask - min(need, idle)
	}
	asks[p.stable] = a
}

// replicas turns a wave into what every revision is asked for in this answer.
//
// Growing revisions get their ask. The others give way: first the superseded
// ones, then a failed target, then the stable one, and available pods only as
// far as the rest keeps the floor.
//
// Requests come first: of a revision that is led to, needed says how many pods
// must stay.
func (w *Wave) replicas(p parts, backward bool, f *Facts, needed func(revision int64) int64) map[int64]int64 {
	w = w.over(f)
	out := make(map[int64]int64, len(w.Asks))
	ready, current := true, true
	var total int64
	for _, a := range w.Asks {
		d := f.of(a.Revision)
		if d != nil && d.Asked > 0 && !d.Current {
			current = false
		}
		if a.shrinks() {
			total += a.at(d)
			continue
		}
		n := a.Ask
		if a.Revision != p.target && a.Revision != p.stable {
			n = min(n, d.asked()) // a superseded one that is held never comes back
		}
		out[a.Revision] = n
		total += n
		if a.Revision == p.target && d.available() < a.Ask && (d == nil || d.Failure == "") {
			ready = false
		}
	}
	slack := int64(0)
	if current && (ready || w.Closed || backward) && w.confirmed(f) {
		var kept int64
		for i := range f.Deployments {
			d := &f.Deployments[i]
			if n, ok := out[d.Revision]; ok {
				kept += min(n, d.available())
			} else {
				kept += d.available()
			}
		}
		slack = max(0, kept-w.Floor)
	}
	for _, a := range w.giving(p) {
		d := f.of(a.Revision)
		if d == nil || d.Deleting {
			// Gone for good if it was giving way altogether, else made again as
			// large as there is room for.
			if a.Revision == p.stable || a.Revision == p.target {
				out[a.Revision] = max(a.Goal, min(a.Ask, w.Ceiling-(total-a.Ask)))
			}
			continue
		}
		at, have := a.at(d), d.available()
		lowest := at
		serves := a.Revision == p.stable || a.Revision == p.target && !backward
		if d.Current && (!serves || (ready || w.Closed) && w.confirmed(f)) {
			// What is not available serves nobody: of a superseded or failed version
			// it goes at once, of the others when the wave may take.
			lowest = have
		}
		n := max(a.Goal, min(at, lowest-min(slack, have)))
		if serves {
			// It may come back, so it is kept where the floor could not be reached
			// again without it.
			n = max(n, at-max(0, total-w.Floor))
		}
		// Requests are sent to what is ready, whether it counts as available or not.
		n = max(n, min(max(have, min(d.Ready, d.Asked)), needed(a.Revision)))
		slack -= max(0, have-n)
		total -= at - n
		out[a.Revision] = n
	}
	w.holdRaises(p, f, out)
	return out
}

// asks is what the wave of r asks for.
func (r *Record) asks(f *Facts) map[int64]int64 {
	return r.Wave.replicas(r.parts(), r.backward(), f, func(revision int64) int64 { return r.neededNow(revision, f) })
}

// neededNow is needed under the wave. Scaled to 0, nobody is to answer.
func (r *Record) neededNow(revision int64, f *Facts) int64 {
	if r.Wave.Replicas == 0 {
		return 0
	}
	return r.needed(revision, r.Wave.Floor, f)
}

// holdRaises keeps a raise back while what others give way for it is still
// asked for: of two writes the second can get lost. Without a lock only a
// Deployment that does not exist yet can be held back; what is observed of
// another may be less than it has.
func (w *Wave) holdRaises(p parts, f *Facts, out map[int64]int64) {
	var total int64
	for revision, n := range out {
		total += max(n, f.of(revision).asked())
	}
	for i := range f.Deployments {
		if d := &f.Deployments[i]; d.asked() > 0 {
			if _, listed := out[d.Revision]; !listed {
				total += d.asked()
			}
		}
	}
	for _, revision := range []int64{p.target, p.stable} {
		n, listed := out[revision]
		d := f.of(revision)
		if over := total - w.Ceiling; listed && over > 0 && n > d.asked() && (f.Locked || d == nil) {
			held := max(d.asked(), n-over)
			total -= n - held
			out[revision] = held
			if d == nil && held == 0 {
				delete(out, revision)
			}
		}
	}
}

// confirmed tells whether all Deployments of the wave were decided under a record
// that knows it, where that matters.
func (w *Wave) confirmed(f *Facts) bool {
	for _, a := range w.Asks {
		if d := f.of(a.Revision); d != nil && !d.Deleting && d.Asked > 0 && d.Counter < w.Confirm {
			return false
		}
	}
	return true
}

// outlives tells whether the last decision about a Deployment was by a record from
// before the wave.
func (w *Wave) outlives(d *Deployment) bool {
	return d != nil && d.Asked > 0 && d.Counter < w.Began
}

// doubtful tells whether a revision may have been asked for fewer pods under
// this wave than it is now, without a cache showing it yet. A growing revision
// is asked for its ask and nothing else. A stable one that gives way is left
// what the floor needs beside all that the others may have.
func (w *Wave) doubtful(p parts, cur now) bool {
	var total int64
	for _, a := range w.Asks {
		total += a.Ask
	}
	for _, a := range w.Asks {
		low := a.Ask
		if a.shrinks() {
			low = a.Goal
		}
		if a.Revision == p.stable {
			low = max(low, min(a.Ask, w.Floor-(total-a.Ask)))
		}
		if low < cur[a.Revision] {
			return true
		}
	}
	return false
}

// at is what a shrinking revision is asked for until it gives way further.
func (a Ask) at(d *Deployment) int64 {
	if d == nil || d.Deleting {
		return a.Ask
	}
	return min(a.Ask, max(d.Asked, d.available()))
}

// giving lists the shrinking revisions in the order in which they give way.
func (w *Wave) giving(p parts) []Ask {
	var superseded, target, stable []Ask
	for _, a := range w.Asks {
		switch {
		case !a.shrinks():
		case a.Revision == p.stable:
			stable = append(stable, a)
		case a.Revision == p.target:
			target = append(target, a)
		default:
			superseded = append(superseded, a)
		}
	}
	return append(append(superseded, target...), stable...)
}

func (w *Wave) over(f *Facts) *Wave {
	c := w.clone()
	for i, a := range c.Asks {
		if d := f.of(a.Revision); d != nil && !d.Deleting && d.Asked > a.Ask {
			if !a.shrinks() {
				c.Asks[i].Goal = a.Ask
			}
			c.Asks[i].Ask = d.Asked
		}
	}
	return c
}
