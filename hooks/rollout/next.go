package rollout

import (
	"math"
	"reflect"
	"time"
)

// quietSeconds is how long nothing may become available before a wave takes
// what it has: room for only 2 of 3 surge pods must not stop a release.
const quietSeconds = 10

// maxShortfalls is how often a soak may be broken before the version counts as
// unstable.
const maxShortfalls = 10

// Next computes the record that comes after the observed one, and the instant at
// which to look again although nothing happens; zero when there is none. The
// observed record is not modified. A nil record with nothing running starts a
// first install; with something running use [Rebuild].
//
// The result is the observed record itself when nothing changes.
func Next(observed *Record, w *Wish, f *Facts, now time.Time) (*Record, time.Time) {
	t := &transition{wish: w, facts: f, now: now, observed: observed, told: orders(observed, w, f)}
	if observed == nil {
		if !w.Valid || w.want().Number == 0 {
			return nil, time.Time{}
		}
		t.r = t.first()
	} else {
		t.r = observed.clone()
		t.distrustStamps()
	}
	t.replicas = t.size()
	t.adopt()
	if t.r.Route == nil && t.r.Settings.Router != RouterNone {
		t.r.Route = observedRoute(t.facts, t.now)
	}
	t.step, _ = t.plan().Current(t.r.Reached)
	t.obey()
	t.advance()
	t.move()
	t.steer()
	t.look()
	if observed != nil && reflect.DeepEqual(t.r, observed.clone()) {
		return observed, t.wake
	}
	t.r.Counter++
	t.r.Changed, t.r.Generation = now, w.Generation
	return t.r, t.wake
}

// transition is one call of [Next] under way.
type transition struct {
	observed *Record
	told     map[int64]int64 // what the answer asks for, under the observed record
	r        *Record         // the record being written
	wish     *Wish
	facts    *Facts
	now      time.Time
	replicas int64
	step     Step
	wake     time.Time
	replan   bool // the wave of before is of no use
}

// first is the record of a first install: no stable revision, no batches.
func (t *transition) first() *Record {
	target := t.wish.want()
	return &Record{
		Format: Format, Highest: target.Number, Target: target, Attempt: 1,
		Started: t.now, Stage: Promoting, Settings: t.wish.Settings, Pin: t.wish.Pin.Number,
	}
}

// size is spec.replicas, or while that is missing the size that is observed.
func (t *transition) size() int64 {
	if t.wish.Replicas >= 0 {
		return t.wish.Replicas
	}
	if t.r.Wave != nil {
		return t.r.Wave.Replicas
	}
	return max(t.r.steady(t.wish, t.facts), runningPods(t.facts))
}

// distrustStamps takes stamps that lie ahead as of now, so that a clock that was
// wrong can't stop a release for as long as it was wrong. The minute keeps two
// instances with slightly different clocks from correcting each other.
func (t *transition) distrustStamps() {
	for _, stamp := range []*time.Time{t.sinceOf(t.r.Clock), t.gateSince(), t.gateApproval()} {
		if stamp != nil && stamp.After(t.now.Add(time.Minute)) {
			*stamp = t.now
		}
	}
}

func (t *transition) sinceOf(c *Clock) *time.Time {
	if c == nil {
		return nil
	}
	return &c.Since
}

func (t *transition) gateSince() *time.Time {
	if t.r.Gate == nil {
		return nil
	}
	return &t.r.Gate.Since
}

func (t *transition) gateApproval() *time.Time {
	if t.r.Gate == nil {
		return nil
	}
	return &t.r.Gate.Approval
}

func (t *transition) plan() Plan { return NewPlan(t.r.Settings, t.replicas) }

// paused is spec.paused as far as it counts: a rollback is never paused.
func (t *transition) paused() bool { return t.r.Settings.Paused && t.r.Pin == 0 }

// frozen tells whether nothing may advance: paused, or the spec is invalid.
func (t *transition) frozen() bool { return t.paused() || !t.wish.Valid }

// adopt takes over what the spec asks for.
func (t *transition) adopt() {
	if !t.wish.Valid {
		return
	}
	r, w := t.r, t.wish
	metrics := r.Settings.Metrics
	r.Settings = w.Settings
	if len(r.Settings.Batches) == 0 {
		r.Settings.Batches = nil
	}
	t.adoptMetrics(metrics)
	// Not the content's while a pin stands before it: it has no snapshot yet, and
	// would get the next number on each sync.
	r.Highest = max(r.Highest, w.want().Number)
	switch {
	case w.Pin.Number != r.Pin:
		t.pin()
	case w.want().Number != r.Target.Number:
		t.setTarget(w.want())
	}
	if r.Pin == 0 && w.Content.Number != r.Left {
		r.Left = 0
	}
}

// pin enters, changes or leaves rollbackTo.
func (t *transition) pin() {
	r, w := t.r, t.wish
	left := r.Left
	if r.Pin == 0 {
		left = 0
		if w.Content.Number == r.Target.Number && w.Content.Number != w.Pin.Number {
			left = w.Content.Number
		}
	}
	r.Pin = w.Pin.Number
	switch {
	case r.Pin != 0 && (r.Target.Number != r.Pin || r.Failure != nil):
		t.setTarget(w.Pin)
	case r.Pin != 0:
		if r.Stage == Rolling {
			t.promote()
		}
	case w.Content.Number == r.Target.Number:
		// The pin named what the spec says: nothing changes.
	case w.Content.Number == left && w.Content.Number != r.Stable.Number && r.Stable.Number != 0:
		t.leave(w.Content)
	default:
		t.setTarget(w.Content)
	}
	r.Left = left
}

// leave makes the revision that rollbackTo left the target again, as a failed
// one: it is released only by a retry command or a change of the spec.
func (t *transition) leave(content Revision) {
	attempt := max(1, t.r.attempts(content.Number))
	pinned := t.r.Target.Number
	t.endAttempt(ResultSuperseded, "rollbackTo was removed before it was complete")
	t.r.remember()
	t.begin(content, attempt)
	t.r.Stage = RollingBack
	t.r.Failure = &Failure{Reason: ReasonPinned, Message: leftMessage(pinned), At: t.now}
}

// setTarget starts an attempt of another revision.
func (t *transition) setTarget(to Revision) {
	r := t.r
	back := r.Stage == Complete && t.kept(to.Number)
	if to.Number == r.Stable.Number {
		t.endAttempt(ResultReverted, "the stable revision became the target again")
	} else {
		t.endAttempt(ResultSuperseded, "another revision became the target")
	}
	r.remember()
	t.begin(to, r.attempts(to.Number)+1)
	if to.Number == r.Stable.Number {
		r.Stage = Restoring
		return
	}
	r.Stage = t.entry()
	if back {
		// The version that served until a moment ago, all of it still there: its gates
		// are behind it.
		r.Stage = Promoting
	}
}

// kept tells whether a revision is still there whole after a promotion.
func (t *transition) kept(revision int64) bool {
	s := t.r.Route.Of(revision)
	return t.r.Route.Has(revision) && !s.Free && t.facts.serving(revision) >= t.replicas
}

// begin resets all that belongs to one attempt.
func (t *transition) begin(target Revision, attempt int64) {
	r := t.r
	r.Target, r.Attempt, r.Started = target, attempt, t.now
	r.Reached, r.Clock, r.Gate, r.Analysis, r.Failure = nil, nil, nil, nil, nil
	t.replan = true
}

// entry is the stage in which an attempt starts: without batches when there is
// no stable revision to protect, when rollbackTo asks for it, or when nothing of
// the stable revision runs.
func (t *transition) entry() Stage {
	r := t.r
	if r.Stable.Number == 0 || r.Pin != 0 {
		return Promoting
	}
	if t.replicas == 0 && t.facts.of(r.Stable.Number).asked() == 0 {
		return Promoting
	}
	return Rolling
}

// endAttempt writes the history of an attempt that is being replaced.
func (t *transition) endAttempt(result Result, reason string) {
	switch t.r.Stage {
	case Rolling, Promoting:
		t.logAttempt(result, reason)
	case RollingBack:
		t.logAttempt(ResultFailed, t.r.Failure.Message)
	case Complete, Restoring, RolledBack, Held:
		// Its end is in the history already, or it never was an attempt.
	}
}

func (t *transition) logAttempt(result Result, reason string) {
	r := t.r
	e := Entry{
		Revision: r.Target.Number, Attempt: r.Attempt, Version: r.Target.Version,
		Result: result, Reason: reason, StartedAt: r.Started, FinishedAt: t.now,
	}
	if n := len(r.History); n > 0 {
		last := r.History[n-1]
		if last.Revision == e.Revision && last.Attempt == e.Attempt && last.Result == e.Result {
			return
		}
	}
	r.log(e)
}

// retry starts another attempt of a target that failed.
func (t *transition) retry() {
	r := t.r
	if r.Left == r.Target.Number {
		r.Left = 0
	}
	t.endAttempt(ResultFailed, "")
	t.begin(r.Target, r.Attempt+1)
	r.Stage = t.entry()
}

// promote passes all gates.
func (t *transition) promote() {
	t.r.Stage, t.r.Gate = Promoting, nil
	t.r.Reached = &Position{Pods: t.replicas, Replicas: t.replicas, Percent: 100, Written: math.MaxInt32}
}

// fail ends the attempt: back to the stable revision where there is one and the
// user lets us, otherwise hold. A pinned revision was the way back already.
func (t *transition) fail(reason Reason, message string) {
	r := t.r
	r.Failure = &Failure{Reason: reason, Message: message, At: t.now}
	r.Clock, r.Gate = nil, nil
	t.replan = true
	back := r.Stable.Number != 0 && r.Stable.Number != r.Target.Number && t.facts.Restorable
	if back && (reason == ReasonAborted || r.Settings.AutoRollback && r.Pin == 0) {
		r.Stage, r.Reached = RollingBack, nil
		return
	}
	r.Stage = Held
	t.logAttempt(ResultFailed, message)
}
