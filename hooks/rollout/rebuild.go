package rollout

import (
	"slices"
	"time"
)

// Hints are what else is known when the record is lost. All of it may be missing.
type Hints struct {
	// Stable is the stable revision that status names.
	Stable Revision
	// Command is the last command that status shows: it was looked at already.
	Command *Command
	// History is what status shows.
	History []Entry
	// Highest is the highest revision number seen anywhere.
	Highest int64
	// Counter is the highest counter that anything was decided under.
	Counter int64
	// Past are the revisions with a snapshot, the oldest first.
	Past []Past
}

// Rebuild makes a record out of what runs, when the one that was kept is gone or
// can't be read. It errs on the safe side: nothing that serves is scaled down by
// a guess, no gate is skipped, and nothing that failed is tried again.
//
// The position is the last gate that the target has more pods than, so that the one
// it may be waiting at asks again.
func Rebuild(w *Wish, f *Facts, h Hints, now time.Time) *Record {
	target, ok := rebuildTarget(w, f)
	if !ok {
		return nil
	}
	r := &Record{
		Format: Format, Counter: 1, Changed: now, Generation: w.Generation, Started: now, Attempt: 1,
		Highest: max(h.Highest, target.Number), Target: target, Pin: w.Pin.Number,
		Settings: w.Settings, History: h.History, Past: h.Past, Command: copyOf(h.Command),
	}
	if len(r.Settings.Batches) == 0 {
		r.Settings.Batches = nil
	}
	if !w.Valid {
		r.Settings = keepAll()
	}
	if c := w.Content.Number; r.Pin != 0 && c != r.Pin && slices.ContainsFunc(h.Past, func(p Past) bool { return p.Revision == c }) {
		// The pin was set while the spec had this content: it is not released
		// again by removing the pin.
		r.Left = c
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		r.Counter = max(r.Counter, d.Counter+1)
		if d.Revision <= MaxNumber {
			r.Highest = max(r.Highest, d.Revision)
		}
	}
	r.Counter = max(r.Counter, h.Counter+1)
	r.Stable = rebuildStable(target, f, h)
	d := f.of(target.Number)
	r.Attempt = max(1, h.attempt(target.Number))
	if d != nil {
		r.Attempt = max(r.Attempt, d.Attempt, d.FailedAttempt)
	}
	r.Highest = max(r.Highest, r.Stable.Number)
	r.Failure = rebuildFailure(r, d)
	r.Stage = rebuildStage(r, d)
	if r.Stage == Complete || r.Stage == Restoring {
		r.Failure = nil
	}
	if r.Stage == Rolling {
		r.Reached = rebuildReached(r.Settings, w, f, d.asked())
	}
	return r
}

// rebuildReached is the last gate below the pods of the target, or nil. Nothing is
// taken for passed between two gates: the plan may get another one there.
func rebuildReached(s Settings, w *Wish, f *Facts, asked int64) *Position {
	replicas := max(w.Replicas, runningPods(f))
	if s.KeepStable && w.Replicas >= asked {
		replicas = w.Replicas // the others are beside the target
	}
	var reached *Position
	for {
		step, ok := NewPlan(s, replicas).Current(reached)
		if !ok || step.Size >= asked {
			return reached
		}
		reached = step.reached(replicas)
	}
}

// attempt is the last attempt of a revision that an executed command tells of: a
// retry of 2.1 began 2.2.
func (h *Hints) attempt(revision int64) int64 {
	var last int64
	texts := make([]string, 0, len(h.History)+1)
	for _, e := range h.History {
		if e.Result == ResultCommand {
			texts = append(texts, e.Reason)
		}
	}
	if h.Command != nil && h.Command.Result == executed {
		texts = append(texts, h.Command.Text)
	}
	for _, text := range texts {
		if o, err := parseCommand(text); err == nil && o.revision == revision {
			if o.verb == "retry" {
				o.attempt++
			}
			last = max(last, o.attempt)
		}
	}
	return last
}

// keepAll are settings under which nothing moves, for a record that is lost
// while the spec is invalid.
func keepAll() Settings {
	return Settings{MaxSurge: Quantity{Value: 25, Percent: true}, ProgressDeadlineSeconds: 600, AutoRollback: false, Paused: true}
}

// rebuildTarget is what the spec wants; while that is invalid, what is not stable.
func rebuildTarget(w *Wish, f *Facts) (Revision, bool) {
	if want := w.want(); w.Valid && want.Number != 0 {
		return want, true
	}
	for i := len(f.Deployments) - 1; i >= 0; i-- {
		if d := &f.Deployments[i]; !d.Stable && d.Asked > 0 {
			return d.Identity, true
		}
	}
	if n := len(f.Deployments); n > 0 {
		return f.Deployments[n-1].Identity, true
	}
	return Revision{}, false
}

// rebuildStable looks for the stable revision: the Deployment that says so, of
// two the one decided last; else what status says; else the most available one
// that is not the target. One Deployment alone that never became stable is a
// first install.
func rebuildStable(target Revision, f *Facts, h Hints) Revision {
	var best *Deployment
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if d.Stable && (best == nil || d.Counter > best.Counter || d.Counter == best.Counter && d.Available > best.Available) {
			best = d
		}
	}
	if best != nil {
		return best.Identity
	}
	if h.Stable.Number != 0 {
		return h.Stable
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if d.Revision != target.Number && d.Asked > 0 && (best == nil || d.Available > best.Available) {
			best = d
		}
	}
	if best != nil {
		return best.Identity
	}
	return Revision{}
}

// rebuildFailure tells whether the target failed before: its Deployment says so,
// or the newest entry of the history about it.
func rebuildFailure(r *Record, d *Deployment) *Failure {
	if d != nil && d.Failed != nil && d.FailedAttempt >= r.Attempt {
		return copyOf(d.Failed)
	}
	for i := len(r.History) - 1; i >= 0; i-- {
		e := r.History[i]
		if e.Revision != r.Target.Number || e.Result == ResultCommand {
			continue
		}
		if (e.Result == ResultRolledBack || e.Result == ResultFailed) && d.asked() == 0 {
			return &Failure{Reason: ReasonUnknown, Message: e.Reason, At: e.FinishedAt}
		}
		return nil
	}
	return nil
}

func rebuildStage(r *Record, d *Deployment) Stage {
	back := r.Stable.Number != 0 && r.Stable.Number != r.Target.Number
	switch {
	case r.Stable.Number == r.Target.Number:
		// What else runs is seen and drained by the next step.
		return Complete
	case r.Failure != nil && back && r.Pin == 0 && d.asked() == 0:
		// What else runs is seen and drained by the next step.
		return RolledBack
	case r.Failure != nil && back && r.Pin == 0 && (r.Settings.AutoRollback || r.Failure.Reason == ReasonAborted):
		return RollingBack
	case r.Failure != nil:
		return Held
	case !back || r.Pin != 0:
		return Promoting
	}
	return Rolling
}

func runningPods(f *Facts) int64 {
	var n int64
	for i := range f.Deployments {
		n += f.Deployments[i].asked()
	}
	return n
}
