package rollout

import (
	"maps"
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
	r.Settings = w.Settings
	if len(r.Settings.Batches) == 0 {
		r.Settings.Batches = nil
	}
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
	r.Reached, r.Clock, r.Gate, r.Failure = nil, nil, nil, nil
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

// advance takes the steps that the facts allow. Several can follow at once, as
// when the last gate is passed and the promotion has nothing left to do.
func (t *transition) advance() {
	for range 4 {
		before := t.r.Stage
		switch before {
		case Complete:
			t.complete()
		case Rolling:
			t.rolling()
		case Promoting:
			t.promoting()
		case Restoring:
			t.restoring()
		case RollingBack:
			t.rollingBack()
		case RolledBack:
			t.rolledBack()
		case Held:
		}
		if t.r.Stage == before {
			return
		}
	}
}

// complete watches for pods of other versions, as after a lost record.
func (t *transition) complete() {
	if t.othersRun(t.r.Route) {
		t.r.Stage, t.replan = Restoring, true
	}
}

func (t *transition) restoring() {
	if !t.othersRun(nil) && t.facts.of(t.r.Stable.Number) != nil {
		t.r.Stage = Complete
	}
}

func (t *transition) rolledBack() {
	if t.runs(t.r.Target.Number) || t.othersRun(nil) {
		t.r.Stage, t.replan = RollingBack, true
	}
}

func (t *transition) rollingBack() {
	stable := t.facts.of(t.r.Stable.Number)
	if t.runs(t.r.Target.Number) || t.othersRun(nil) || stable == nil || stable.asked() < t.replicas {
		return
	}
	t.r.Stage = RolledBack
	t.logAttempt(ResultRolledBack, t.r.Failure.Message)
}

// runs tells whether pods of a revision are asked for, or will be by this answer.
func (t *transition) runs(revision int64) bool {
	return t.facts.of(revision).asked() > 0 || t.told[revision] > 0
}

// othersRun tells whether pods of neither stable nor target are asked for. Those
// of a version in the route are known: they go when it lets them.
func (t *transition) othersRun(route *Route) bool {
	for i := range t.facts.Deployments {
		if n := t.facts.Deployments[i].Revision; !t.r.kept(n) && t.runs(n) && !route.Has(n) {
			return true
		}
	}
	for n := range t.hidden() {
		if !t.r.kept(n) {
			return true
		}
	}
	for n := range t.told {
		if !t.r.kept(n) && t.runs(n) && !route.Has(n) {
			return true
		}
	}
	return false
}

func (t *transition) promoting() {
	if r := t.r; r.inBatches() && r.Reached == nil && !t.runs(r.Target.Number) && t.runs(r.Stable.Number) {
		// It began without batches, because nothing of the stable revision ran; now
		// that does, scaled out while the release was paused.
		r.Stage, t.replan = Rolling, true
		return
	}
	if t.replicas == 0 {
		t.r.Clock = nil
		return
	}
	if t.watch(); t.r.Stage != Promoting || t.refused() {
		return
	}
	d := t.facts.of(t.r.Target.Number)
	if d == nil || d.Deleting || !d.Current || d.Asked < t.replicas || d.available() < t.replicas {
		return
	}
	if !t.drained() {
		return
	}
	t.logAttempt(ResultCompleted, "")
	if t.r.Stable.Number != 0 {
		t.r.rememberStable()
	}
	t.r.Stable, t.r.Stage = t.r.Target, Complete
	t.r.Clock, t.r.Gate, t.r.Reached = nil, nil, nil
}

// drained tells whether nothing but the target runs, or with a router, whether
// all requests go to it: what else runs is kept for a while to switch back to.
func (t *transition) drained() bool {
	r := t.r
	if r.Settings.Router != RouterNone {
		return t.steered() && r.Route.Of(r.Target.Number).Weight == 100
	}
	return !t.othersRun(nil) && (r.Stable.Number == r.Target.Number || !t.runs(r.Stable.Number))
}

// refused fails a release whose route no parent accepts. Without a version to go
// back to there is nothing to be gained.
func (t *transition) refused() bool {
	tr := t.facts.Traffic
	if tr == nil || tr.Refused == "" || t.frozen() || t.r.Stable.Number == 0 {
		return false
	}
	t.fail(ReasonRouteRefused, "the route is not accepted: "+tr.Refused)
	return true
}

// rolling judges the batch the release is in.
func (t *transition) rolling() {
	if t.replicas == 0 {
		// Scaled to 0: the position is held, nothing is judged.
		t.r.Clock, t.r.Gate = nil, nil
		return
	}
	for {
		step, ok := t.plan().Current(t.r.Reached)
		t.step = step
		if !ok {
			if !t.frozen() {
				t.promote()
			}
			return
		}
		if t.watch(); t.r.Stage != Rolling || t.refused() || !t.passes(step) {
			return
		}
		t.r.Reached = step.reached(t.replicas)
		t.r.Gate, t.r.Clock = nil, nil
	}
}

// lookSeconds is how often a release is looked at that waits for pods without a
// deadline, as for stable pods that must be back before the failed ones go.
const lookSeconds = 30

// look makes sure that a release on its way is looked at again. One that waits
// for a person is not: the person's edit wakes it.
func (t *transition) look() {
	switch r := t.r; r.Stage {
	case Rolling, Promoting:
		if t.frozen() || t.replicas == 0 || r.Gate != nil && !r.Gate.Since.IsZero() || !t.wake.IsZero() {
			return
		}
	case Restoring, RollingBack:
	case Complete, RolledBack, Held:
		return
	}
	t.over(t.now, lookSeconds-1)
}

// move keeps the wave of a stage that moves pods up to date.
func (t *transition) move() {
	r := t.r
	if r.Stage == Complete || r.Stage == RolledBack {
		r.Wave = nil
		return
	}
	next := t.nextWave()
	switch was := r.Wave.of(r.Target.Number).Ask; {
	case r.Wave == nil || t.replan || !next.sameWay(r.Wave) || t.left(next) || t.raises(next):
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
			if !a.shrinks() {
				// It may have been asked for by an answer to an older request.
				cur[a.Revision] = max(cur[a.Revision], a.Ask)
			}
		}
	}
	w := newWave(t.r.parts(), t.goals(t.told), t.told, cur, t.facts, t.replicas, t.r.Settings)
	if t.inDoubt(cur) {
		w.Confirm = t.r.Counter + 1 // of the record that is being written
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
func (t *transition) goals(told map[int64]int64) goals {
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
		return t.freeze(g, told)
	}
	g.stable = t.replicas - g.target
	if r.Settings.KeepStable {
		g.stable = t.replicas
	}
	if t.crowded() {
		// The stable revision takes the requests of the superseded one first.
		return goals{stable: t.replicas, stableFirst: true}
	}
	g.stableFirst = t.mendsFloor(told[r.Stable.Number], g.stable)
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
func (t *transition) freeze(g goals, told map[int64]int64) goals {
	r := t.r
	surge, _ := r.Settings.budget(t.replicas)
	g.target = min(g.target, told[r.Target.Number])
	rest := t.replicas - g.target
	total := g.target
	g.keep = map[int64]int64{}
	for _, revision := range revisions(told) {
		if r.kept(revision) {
			continue
		}
		g.keep[revision] = min(told[revision], rest)
		rest -= g.keep[revision]
		total += g.keep[revision]
	}
	if r.Stable.Number == 0 {
		if told[r.Target.Number] > 0 || r.Stage == Held {
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
	if at := told[r.Stable.Number]; total+at <= t.replicas+surge {
		g.stable = max(rest, at)
	}
	return g
}
