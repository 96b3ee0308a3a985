package greyrelease

import (
	"fmt"
	"time"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
)

// Sync answers one call of the sync hook: the children and the status that
// should exist, the queries to be made, and when to call again. have are the queries
// that were made. now is cut to whole seconds and UTC.
//
// A user's mistake is no error: the answer keeps what runs and its status says
// what is wrong. An error is a [composite.RetryError], for a request that shows
// an older state than one that was acted on already, or a bug of ours; either
// way nothing is written.
func Sync(req *Request, have Measurements, now time.Time) (*Response, error) {
	if req.Finalizing {
		return &Response{SyncResponse: composite.SyncResponse{Finalized: true}}, nil
	}
	o, err := observe(req)
	if err != nil {
		return nil, err
	}
	a := &answer{observation: o, now: now.UTC().Truncate(time.Second)}
	a.facts = o.facts()
	if err := o.checkStale(a.now); err != nil {
		return nil, err
	}
	a.record = o.record
	a.diagnose()
	a.desire = o.want()
	a.judgeRevisions()
	a.facts.Traffic = a.traffic()
	a.measure(have)
	if err := a.decide(); err != nil {
		return nil, err
	}
	if err := a.render(); err != nil {
		return nil, err
	}
	return a.response(), nil
}

// judgeRevisions finds out whether the Deployments of target and stable could
// be made if they were not there.
func (a *answer) judgeRevisions() {
	r := a.record
	if r == nil {
		// Nothing is made under a record that was not observed.
		return
	}
	a.facts.Deployable = a.makeable(r.Target)
	a.facts.Locked = a.modeKnown && a.mode == history.Dynamic
	a.facts.Restorable = r.Stable.Number == 0 || a.makeable(r.Stable)
}

func (a *answer) makeable(r rollout.Revision) bool {
	if a.deployments[r.Number] != nil {
		return true
	}
	s, ok := a.snapshot(r)
	if !ok {
		return false
	}
	template, err := s.Template()
	if err != nil {
		a.note("%v", err)
		return false
	}
	if problem := a.undeployable(r, template); problem != nil {
		if r.Number != a.wish.Content.Number {
			// The spec's own content is refused as invalid.
			a.note("revision %d cannot run: %v", r.Number, problem)
		}
		return false
	}
	return true
}

// decide runs the core and checks what it says.
func (a *answer) decide() error {
	a.orders = rollout.Act(a.record, &a.wish, a.facts)
	if a.record == nil && a.recordIsLost() {
		a.next = rollout.Rebuild(&a.wish, a.facts, a.hints(), a.now)
	} else {
		a.next, a.wake = rollout.Next(a.record, &a.wish, a.facts, a.now)
	}
	if err := rollout.Check(a.record, a.next, &a.wish, a.facts, a.orders); err != nil {
		return &InvariantError{Breach: err}
	}
	return nil
}

// InvariantError says that an answer would have broken an invariant of package
// rollout. It is a bug of ours; nothing is written.
type InvariantError struct{ Breach error }

func (e *InvariantError) Error() string {
	return fmt.Sprintf("bug: the answer would break an invariant: %v", e.Breach)
}

func (e *InvariantError) Unwrap() error { return e.Breach }

// recordIsLost tells a lost record from a first install, of which a snapshot can
// be there before the record is.
func (a *answer) recordIsLost() bool {
	return a.recordMap != nil || len(a.numbers) > 0 || len(a.snapshots) > 0 && a.status.StableRevision > 0
}

func (a *answer) render() error {
	if err := a.renderHistory(); err != nil {
		return err
	}
	if err := a.renderRecord(); err != nil {
		return err
	}
	if err := a.renderDeployments(); err != nil {
		return err
	}
	a.renderServices()
	a.renderHTTPRoute()
	a.renderIngresses()
	a.renderForeign()
	return nil
}

func (a *answer) response() *Response {
	status := a.makeStatus()
	out := &Response{SyncResponse: composite.SyncResponse{
		Status: status, Children: a.children, ResyncAfterSeconds: a.resyncAfter(),
	}, Queries: a.queries}
	if from := a.status.Phase; from != status.Phase || a.status.Progress != status.Progress {
		t := Transition{
			Namespace: a.namespace, Name: a.name, Revision: status.TargetRevision, Version: status.TargetVersion,
			From: from, To: status.Phase, Stable: status.StableVersion, Batch: status.Progress,
			Updated: status.UpdatedReplicas, Replicas: status.Replicas,
		}
		if a.record != nil && a.record.Failure != nil {
			t.Reason = string(a.record.Failure.Reason)
		}
		out.Transitions = []Transition{t}
	}
	return out
}

// Waits of an answer, in seconds.
const (
	// maxMissing: a child that was asked for and is not there is looked for every
	// second at first and every maxMissing seconds in the end. Nobody else would
	// wake us: Metacontroller swallows "already exists", and the end of an old
	// owner's child calls nobody.
	maxMissing = 10
	// settleSeconds: a write can get lost without a trace, so after every answer
	// that writes there is one more look.
	settleSeconds = 10
)

// resyncAfter is the time to the next look, in whole seconds, 0 for none.
func (a *answer) resyncAfter() float64 {
	var seconds int64
	sooner := func(s int64) {
		if s = max(1, s); seconds == 0 || s < seconds {
			seconds = s
		}
	}
	if !a.wake.IsZero() {
		sooner(int64(a.wake.Sub(a.now) / time.Second))
	}
	if len(a.missing) > 0 {
		sooner(min(maxMissing, int64(a.sinceChange()/(2*time.Second))))
	}
	if a.routeWake > 0 {
		sooner(a.routeWake)
	}
	if a.moveWake > 0 {
		sooner(a.moveWake)
	}
	if a.countsHeld > 0 {
		sooner(a.countsHeld)
	}
	if a.writes {
		sooner(settleSeconds)
	}
	return float64(seconds)
}

// sinceChange is how long the record has stood as it is; before there is one,
// how long the release has.
func (a *answer) sinceChange() time.Duration {
	since := instant(a.parent.Metadata.CreationTimestamp)
	if a.record != nil {
		since = a.record.Changed
	}
	if since.IsZero() {
		return 0
	}
	if age := a.now.Sub(since); age >= -staleness {
		return max(0, age)
	}
	return staleness // stamped by a clock that was wrong: long enough ago for all that asks
}
