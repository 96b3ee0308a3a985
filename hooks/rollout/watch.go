package rollout

import (
	"fmt"
	"sort"
	"time"
)

// due is the instant at which a wait of seconds that began at since is over.
// Both are whole seconds, cut off: a second is added so that none ends early.
func due(since time.Time, seconds int64) time.Time {
	return since.Add(time.Duration(seconds+1) * time.Second)
}

// over tells whether a wait is over; if not, Next wakes up when it is.
func (t *transition) over(since time.Time, seconds int64) bool {
	at := due(since, seconds)
	if !t.now.Before(at) {
		return true
	}
	if t.wake.IsZero() || at.Before(t.wake) {
		t.wake = at
	}
	return false
}

// slack is how old the stored rise must be before a newer one is stored: it
// keeps writes few. The deadline is judged that much later: late by a little,
// never early. Deadline 600: 10 s; deadline 30: 3 s.
func (s Settings) slack() int64 { return min(10, s.ProgressDeadlineSeconds/10) }

// watch runs the progress deadline of the target. Health is looked at first, so
// a service that was away for hours does not fail what has become healthy.
func (t *transition) watch() {
	r := t.r
	if t.paused() || r.Wave == nil || t.replan {
		if t.paused() {
			r.Clock = nil
		}
		return
	}
	ask := r.Wave.of(r.Target.Number).Ask
	if a := r.Wave.of(r.Target.Number); a.shrinks() {
		ask = a.Goal
	}
	have := t.facts.of(r.Target.Number).available()
	slack := r.Settings.slack()
	switch c := r.Clock; {
	case have >= ask && c == nil:
	case have >= ask:
		// Full: disarmed, at once when something is written anyway (see passes),
		// otherwise when the rise is old enough to be worth a write.
		if t.over(c.Since, slack) {
			r.Clock = nil
		}
	case c == nil:
		// A shortfall: pods that were there are missing. A fresh deadline.
		r.Clock = &Clock{Since: t.now, Best: have}
		t.over(t.now, r.Settings.ProgressDeadlineSeconds+slack)
		t.breakSoak()
	case have > c.Best:
		if t.over(c.Since, slack) {
			r.Clock = &Clock{Since: t.now, Best: have}
			t.over(t.now, r.Settings.ProgressDeadlineSeconds+slack)
		}
	case !c.Late && t.facts.of(r.Target.Number).asked() < ask && t.over(c.Since, r.Settings.ProgressDeadlineSeconds+slack):
		// Not one pod more was asked for: the service or Metacontroller was away, or
		// the API server refuses the Deployment. It gets its time once more.
		r.Clock = &Clock{Since: t.now, Best: have, Late: true}
		t.over(t.now, r.Settings.ProgressDeadlineSeconds+slack)
	case t.over(c.Since, r.Settings.ProgressDeadlineSeconds+slack):
		t.fail(ReasonDeadline, fmt.Sprintf("%d of %d pods of revision %d were available, and no further one became so within %d s%s",
			have, ask, r.Target.Number, r.Settings.ProgressDeadlineSeconds, t.why()))
	}
}

// breakSoak notes that a pod went missing while the gate was waiting.
func (t *transition) breakSoak() {
	g := t.r.Gate
	if g == nil || g.Since.IsZero() {
		return
	}
	soaked := !t.now.Before(due(g.Since, t.step.SoakSeconds)) && t.r.analysed(t.step)
	g.Since = time.Time{}
	if soaked {
		// Only the approval was missing, and that counts none. Metrics are part of the
		// soak: with an initial delay they may be all of it.
		g.Shortfalls = 0
		return
	}
	g.Shortfalls++
	if g.Shortfalls >= maxShortfalls {
		t.fail(ReasonUnstable, fmt.Sprintf("pods of revision %d went missing %d times in one soak%s", t.r.Target.Number, g.Shortfalls, t.why()))
	}
}

// passes tells whether the batch is done: full, settled, the stable revision not
// above its goal, the soak unbroken, the metrics good and the approval given.
func (t *transition) passes(step Step) bool {
	r := t.r
	d := t.facts.of(r.Target.Number)
	if r.Gate != nil && !r.Gate.Since.IsZero() && d.available() < step.Size {
		// Seen while paused, where the deadline does not run and nothing counts.
		r.Gate.Since = time.Time{}
	}
	if !d.settled(step.Size) || d.available() < step.Size || !t.gaveWay(step) || !t.steered() {
		if r.Gate != nil && !r.Gate.Since.IsZero() && t.over(r.Gate.Since, step.SoakSeconds) {
			// Such as a restart by hand, whose status has not caught up.
			t.over(t.now, lookSeconds-1)
		}
		return false
	}
	promoted := t.wish.Valid && r.CommandPending(t.wish.Command, step.Size)
	gated := step.SoakSeconds > 0 || step.Approval || len(r.Settings.Metrics) > 0
	if gated {
		if r.Gate == nil {
			r.Gate, r.Analysis = &Gate{}, nil
		}
		if r.Gate.Since.IsZero() && !promoted {
			r.Gate.Since, r.Clock = t.now, nil
		}
	}
	if !promoted {
		if t.measure(); r.Failure != nil {
			return false
		}
	}
	switch {
	case t.frozen():
		if r.Gate != nil {
			r.Gate.Approval = time.Time{}
		}
		return false
	case promoted:
		if gated {
			t.executed()
		}
		return true
	case step.SoakSeconds > 0 && !t.over(r.Gate.Since, step.SoakSeconds):
		return false
	case !r.analysed(step):
		r.Gate.Approval = time.Time{}
		return false
	case step.Approval:
		t.awaitApproval(step)
		return false
	}
	return true
}

// gaveWay tells whether the stable revision is no larger than it should be beside
// the batch.
func (t *transition) gaveWay(step Step) bool {
	r := t.r
	goal := max(t.replicas-step.Size, r.needed(r.Stable.Number, t.floor(), t.facts))
	return r.Settings.KeepStable || t.facts.of(r.Stable.Number).asked() <= goal
}

// awaitApproval fails the release when the approval takes too long.
func (t *transition) awaitApproval(step Step) {
	if step.ApprovalTimeoutSeconds == 0 {
		return
	}
	if t.r.Gate.Approval.IsZero() {
		t.r.Gate.Approval = t.now
	}
	if t.over(t.r.Gate.Approval, step.ApprovalTimeoutSeconds) {
		t.fail(ReasonApprovalTimeout, fmt.Sprintf("no approval came within %d s", step.ApprovalTimeoutSeconds))
	}
}

// spent tells whether the command annotation was looked at before: a gate of the
// same size can open again after scaling, and must ask again.
func (t *transition) spent() bool {
	return t.r.Command != nil && t.r.Command.Text == kept(t.wish.Command)
}

// quiet tells whether the wave should take what it has: some of its pods are
// available, no further one became so for quietSeconds, and it would help.
func (t *transition) quiet() bool {
	r := t.r
	if r.Clock == nil || r.Wave.Closed || r.backward() {
		return false
	}
	if t.facts.of(r.Target.Number).available() > r.Clock.Best {
		return false
	}
	open := *r
	open.Wave = r.Wave.clone()
	open.Wave.Closed = true
	now := r.asks(t.facts)
	helps := false
	for revision, n := range open.asks(t.facts) {
		helps = helps || n < now[revision]
	}
	return helps && t.over(r.Clock.Since, quietSeconds)
}

// restartClock arms the deadline for a wave that asks for more of the target.
func (t *transition) restartClock(was, ask int64) {
	r := t.r
	if r.Stage != Rolling && r.Stage != Promoting || t.paused() {
		r.Clock = nil
		return
	}
	have := t.facts.of(r.Target.Number).available()
	switch {
	case ask > was && have < ask:
		r.Clock = &Clock{Since: t.now, Best: have}
	case have >= ask:
		r.Clock = nil
	case r.Clock != nil:
		r.Clock.Best = min(r.Clock.Best, ask)
	default:
		r.Clock = &Clock{Since: t.now, Best: have}
	}
	if r.Clock != nil {
		t.over(r.Clock.Since, r.Settings.ProgressDeadlineSeconds+r.Settings.slack())
	}
}

// rememberStable puts the stable revision at the end of Past: it was the target
// once and was in force until now.
func (r *Record) rememberStable() {
	attempt := r.attempts(r.Stable.Number)
	past := make([]Past, 0, len(r.Past)+1)
	for _, p := range r.Past {
		if p.Revision != r.Stable.Number {
			past = append(past, p)
		}
	}
	r.Past = append(past, Past{Revision: r.Stable.Number, Attempt: attempt})
	r.Past = r.Past[max(0, len(r.Past)-maxPast):]
}

func leftMessage(pinned int64) string {
	return fmt.Sprintf("rollbackTo went from it to revision %d", pinned)
}

func revisions(m map[int64]int64) []int64 {
	out := make([]int64, 0, len(m))
	for revision := range m {
		out = append(out, revision)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}
