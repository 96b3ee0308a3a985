package rollout

import "fmt"

// Check verifies the invariants that one answer can show: what it orders, given
// what was observed, and the record it carries. A breach is a bug of this
// package; the answer must not be given.
func Check(observed, next *Record, w *Wish, f *Facts, out []Order) error {
	ordered := make(map[int64]int64, len(out))
	for _, o := range out {
		if o.Replicas < 0 {
			return fmt.Errorf("I2: revision %d is asked for %d pods", o.Revision, o.Replicas)
		}
		ordered[o.Revision] = o.Replicas
	}
	if err := checkDrops(observed, f, ordered); err != nil {
		return err
	}
	if err := checkRequests(observed, f, ordered); err != nil {
		return err
	}
	if observed != nil && observed.Wave != nil {
		if err := checkWave(observed, f, ordered); err != nil {
			return err
		}
	}
	if next == nil {
		return nil
	}
	if err := next.Validate(); err != nil {
		return fmt.Errorf("I11: next record: %w", err)
	}
	return checkNext(observed, next, w, f)
}

// checkDrops is I3.
func checkDrops(observed *Record, f *Facts, ordered map[int64]int64) error {
	for i := range f.Deployments {
		d := &f.Deployments[i]
		_, listed := ordered[d.Revision]
		kept := observed == nil || observed.kept(d.Revision) || d.Asked > 0
		if !listed && kept && !d.Deleting {
			return fmt.Errorf("I3: revision %d has %d pods asked for and is dropped", d.Revision, d.Asked)
		}
	}
	return nil
}

// checkRequests is I3 for requests: no pods are taken from where they are led to.
func checkRequests(r *Record, f *Facts, ordered map[int64]int64) error {
	if r == nil {
		return nil
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		var needed int64
		switch {
		case r.Wave != nil:
			needed = r.neededNow(d.Revision, f)
		case r.kept(d.Revision):
			continue // scaled by the user
		default:
			needed = r.needed(d.Revision, d.asked(), f)
		}
		n, have := ordered[d.Revision], d.available()
		if needed = min(have, needed); n < needed {
			return fmt.Errorf("I3: revision %d is asked for %d pods, requests are led to it and need %d", d.Revision, n, needed)
		}
	}
	return nil
}

// checkRoute is I9 for requests: on the way back the target's weight never rises.
func checkRoute(observed, next *Record) error {
	if observed == nil || observed.Route == nil || next.Route == nil || !observed.backward() || !next.backward() || next.Target != observed.Target {
		return nil
	}
	n := next.Target.Number
	if before, after := observed.Route.Of(n).Weight, next.Route.Of(n).Weight; n != next.Stable.Number && after > before {
		return fmt.Errorf("I9: the weight of revision %d rises from %d to %d on the way back", n, before, after)
	}
	return nil
}

// checkWave is I1, I2 and I9 while versions change places.
func checkWave(r *Record, f *Facts, ordered map[int64]int64) error {
	w := r.Wave
	var before, after, asked, total int64
	lowered, raised := false, false
	for i := range f.Deployments {
		d := &f.Deployments[i]
		have, n := d.available(), ordered[d.Revision]
		before += have
		after += min(have, n)
		lowered = lowered || n < have
		if w.has(d.Revision) {
			asked += d.asked()
		}
	}
	for revision, n := range ordered {
		if w.has(revision) {
			// What the wave does not know came to light after it was made.
			total += n
		}
		raised = raised || n > f.of(revision).asked() && n > 0
		if a := w.of(revision); n > max(a.Ask, f.of(revision).asked()) {
			return fmt.Errorf("I9: revision %d is asked for %d pods, its wave allows %d", revision, n, a.Ask)
		}
	}
	if lowered && after < min(w.Floor, before) && !handEdited(w, f) {
		return fmt.Errorf("I1: %d available pods would become %d, the floor is %d", before, after, w.Floor)
	}
	limit := max(w.Ceiling, asked, sumAsks(w))
	if !f.Locked {
		// Nothing is held back there: what others have too much of goes in time.
		limit = max(limit, sumAtMost(w, f))
	}
	if raised && total > limit {
		return fmt.Errorf("I2: %d pods would be asked for, the ceiling is %d: %v under wave %+v", total, w.Ceiling, ordered, w.Asks)
	}
	return nil
}

// handEdited tells whether someone else scaled a Deployment up: bringing it back
// to what was decided is no take-down of ours.
func handEdited(w *Wave, f *Facts) bool {
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if a := w.of(d.Revision); d.asked() > a.Ask {
			return true
		}
	}
	return false
}

// sumAtMost adds up what each revision may have until it has given way.
func sumAtMost(w *Wave, f *Facts) int64 {
	var n int64
	for _, a := range w.Asks {
		n += max(a.Ask, f.of(a.Revision).asked())
	}
	return n
}

func sumAsks(w *Wave) int64 {
	var n int64
	for _, a := range w.Asks {
		n += a.Ask
	}
	return n
}

// checkNext is what must hold between two records.
func checkNext(observed, next *Record, w *Wish, f *Facts) error {
	if observed == nil {
		return nil
	}
	switch {
	case next.Counter < observed.Counter || next != observed && next.Counter == observed.Counter:
		return fmt.Errorf("I7: counter goes from %d to %d", observed.Counter, next.Counter)
	case next.Highest < observed.Highest:
		return fmt.Errorf("I11: highest number goes from %d to %d", observed.Highest, next.Highest)
	}
	if err := checkRoute(observed, next); err != nil {
		return err
	}
	if err := checkAnalysis(observed, next); err != nil {
		return err
	}
	same := next.Target.Number == observed.Target.Number && next.Attempt == observed.Attempt
	if next.Stable != observed.Stable && (next.Stable != next.Target || f.of(next.Stable.Number).available() < max(1, w.Replicas)) {
		return fmt.Errorf("I13: stable goes from %d to %d in stage %s", observed.Stable.Number, next.Stable.Number, next.Stage)
	}
	if !w.Valid && (!same || position(next) > position(observed)) {
		return fmt.Errorf("I13: the release advances while the spec is invalid")
	}
	return nil
}

func position(r *Record) int64 {
	if r.Reached == nil {
		return 0
	}
	return r.Reached.Pods
}
