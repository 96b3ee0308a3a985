package rollout

import "time"

// Deployment is what was observed of one revision's Deployment.
type Deployment struct {
	Revision int64
	// Deleting: it is on its way out; its pods are no capacity.
	Deleting bool
	// Asked is spec.replicas.
	Asked int64
	// Current: the status belongs to the latest spec.
	Current bool
	// Total, Ready and Available are counts of the status.
	Total, Ready, Available int64
	// Failure is the message of condition ReplicaFailure, if it is true.
	Failure string
	// Counter, Decided and Attempt are the decision annotation: the record's
	// counter, the instant and the target's attempt when replicas were last set.
	Counter int64
	Decided time.Time
	Attempt int64
	// Stable: its label says that it runs the stable revision.
	Stable bool
	// Failed is the failure its annotation carries, with the attempt.
	Failed        *Failure
	FailedAttempt int64
	// Identity is the revision it runs.
	Identity Revision
	// Crash is the crash loop with the most restarts among its pods that were made in
	// this attempt; nil for none, or where pods are not looked at.
	Crash *Crash
	// Trouble says what keeps a pod of it from becoming available, for the message of
	// a failure; "" when nothing is known.
	Trouble string
}

// available counts pods that can be relied on: never more than are asked for,
// since a status that has not caught up with a take-down overstates them.
func (d *Deployment) available() int64 {
	if d == nil || d.Deleting {
		return 0
	}
	return min(d.Available, d.Asked)
}

// asked is spec.replicas, 0 when there is nothing.
func (d *Deployment) asked() int64 {
	if d == nil || d.Deleting {
		return 0
	}
	return d.Asked
}

// settled tells whether the status has caught up with exactly want pods.
func (d *Deployment) settled(want int64) bool {
	return d != nil && !d.Deleting && d.Current && d.Asked == want && d.Total == want
}

// Facts is what was observed.
type Facts struct {
	// Deployments by revision number, ascending, each revision once.
	Deployments []Deployment
	// Deployable: the target's snapshot was observed and its Deployment can be made.
	Deployable bool
	// Locked: a write to a Deployment that has changed since is refused, as in
	// dynamic apply. Without, what is asked for may undo what a cache hides.
	Locked bool
	// Traffic is what was observed of the routes; nil without a router.
	Traffic *Traffic
	// Measurable: there is something to measure with.
	Measurable bool
	// Measurements are those that were made.
	Measurements []Measurement
	// Restorable: the stable revision runs, or its Deployment can be made again.
	Restorable bool
}

func (f *Facts) of(revision int64) *Deployment {
	for i := range f.Deployments {
		if f.Deployments[i].Revision == revision {
			return &f.Deployments[i]
		}
	}
	return nil
}

// available is the number of available pods of all versions.
func (f *Facts) available() int64 {
	var n int64
	for i := range f.Deployments {
		n += f.Deployments[i].available()
	}
	return n
}

// Wish is what the parent asks for.
type Wish struct {
	// Valid: the spec is. If not, only Replicas counts, and the abort command.
	Valid bool
	// Generation is metadata.generation.
	Generation int64
	// Replicas is spec.replicas; negative when it is missing or invalid: what is
	// observed is kept.
	Replicas int64
	// Settings are the spec's.
	Settings Settings
	// Content is the revision of the spec's template and version.
	Content Revision
	// Pin is the revision that rollbackTo names; number 0 for none.
	Pin Revision
	// Command is the text of the command annotation.
	Command string
}

// want is the revision that the spec asks for.
func (w *Wish) want() Revision {
	if w.Pin.Number != 0 {
		return w.Pin
	}
	return w.Content
}
