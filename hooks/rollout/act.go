package rollout

import "sort"

// Order is what one revision's Deployment should be now.
type Order struct {
	Revision int64
	// Replicas is the number of pods to ask for.
	Replicas int64
	// Failed is the failure to mark the Deployment with, so that nothing that
	// failed is tried again even if the record is lost.
	Failed *Failure
	// Confirm asks to note this record's counter on the Deployment although its
	// replicas stay: see [Wave].
	Confirm bool
}

// Act tells what the Deployments should be under the observed record. Nothing
// here depends on the instant or on a record that has not been stored yet.
//
// Revisions without an order are dropped; that is never one that is observed
// with pods asked for. A nil record orders what is observed, as it is.
func Act(r *Record, w *Wish, f *Facts) []Order {
	asked := orders(r, w, f)
	out := make([]Order, 0, len(asked))
	for revision, n := range asked {
		o := Order{Revision: revision, Replicas: n}
		if r != nil && r.Failure != nil && revision == r.Target.Number {
			o.Failed = r.Failure
		}
		if r != nil && r.Wave != nil {
			d := f.of(revision)
			o.Confirm = d != nil && d.Asked > 0 && d.Counter < r.Wave.Confirm
		}
		out = append(out, o)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Revision < out[j].Revision })
	return out
}

func orders(r *Record, w *Wish, f *Facts) map[int64]int64 {
	out := map[int64]int64{}
	for i := range f.Deployments {
		// Until an order says otherwise nothing that is there changes.
		d := &f.Deployments[i]
		if r == nil || !d.Deleting && (d.Asked > 0 || r.kept(d.Revision)) {
			out[d.Revision] = d.Asked
		}
	}
	if r == nil {
		return out
	}
	if r.Wave != nil {
		for revision, n := range r.asks(f) {
			out[revision] = n
		}
	}
	switch r.Stage {
	case Complete, RolledBack:
		for _, s := range r.Route.shares() {
			if _, runs := out[s.Revision]; runs && s.Free && r.needed(s.Revision, 0, f) == 0 && r.whole(w, f) {
				out[s.Revision] = 0
			}
		}
		out[r.Stable.Number] = r.within(r.steady(w, f), f, out)
		if r.Stage == RolledBack {
			// Kept at 0, or what it has if somebody scaled it up; see rolledBack.
			out[r.Target.Number] = f.of(r.Target.Number).asked()
		}
	case Rolling, Promoting, Restoring, RollingBack, Held:
		// The wave has said it all; a stage just entered has one from the start.
	}
	for revision, n := range out {
		if n == 0 && !r.kept(revision) {
			if d := f.of(revision); d == nil || d.asked() == 0 {
				delete(out, revision)
			}
		}
	}
	// What does not exist is asked for only if it can be made.
	if f.of(r.Target.Number) == nil && r.Target != r.Stable && !f.Deployable {
		delete(out, r.Target.Number)
	}
	if f.of(r.Stable.Number) == nil && !f.Restorable {
		delete(out, r.Stable.Number)
	}
	return out
}

// kept tells whether the Deployment of a revision stays although it has no pods.
func (r *Record) kept(revision int64) bool {
	return revision == r.Target.Number || revision == r.Stable.Number
}

// steady is the size of the stable revision while nothing moves: spec.replicas,
// or what it has while that is missing.
func (r *Record) steady(w *Wish, f *Facts) int64 {
	if w.Replicas >= 0 {
		return w.Replicas
	}
	if d := f.of(r.Stable.Number); d != nil {
		return d.Asked
	}
	return 1
}

// whole tells whether the stable revision has the pods that can be relied on. Until
// then a version that was kept stays: it may have to take the requests back.
func (r *Record) whole(w *Wish, f *Facts) bool {
	n := r.steady(w, f)
	_, unavailable := r.Settings.budget(n)
	return f.of(r.Stable.Number).available() >= n-unavailable
}

// within holds a raise of the stable revision back to what there is room for beside
// pods of others, that somebody else scaled up or an old cache shows. The next
// record takes those away.
func (r *Record) within(n int64, f *Facts, out map[int64]int64) int64 {
	var others int64
	for revision, asked := range out {
		if revision != r.Stable.Number && !r.Route.Has(revision) {
			others += asked
		}
	}
	if others == 0 {
		return n
	}
	surge, _ := r.Settings.budget(n)
	return min(n, max(0, f.of(r.Stable.Number).asked(), n+surge-others))
}

func (r *Record) parts() parts {
	return parts{stable: r.Stable.Number, target: r.Target.Number}
}

// backward tells whether the stable revision is on its way back.
func (r *Record) backward() bool {
	return r.Stage == RollingBack || r.Stage == RolledBack || r.Stage == Restoring
}
