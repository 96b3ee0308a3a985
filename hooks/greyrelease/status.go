package greyrelease

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"greyrelease.example.com/hooks/rollout"
)

// makeStatus reports what was observed under the observed record. It is the
// same, byte for byte, for as long as nothing that a user sees changes.
func (a *answer) makeStatus() *GreyReleaseStatus {
	s := &GreyReleaseStatus{Selector: podSelector(a.name)}
	a.count(s)
	view := a.view()
	a.identify(s, view)
	s.Phase = a.phase(view)
	s.Message = a.message(s, view)
	s.Conditions = a.conditions(s, view)
	a.holdCounts(s)
	return s
}

// movingSeconds is how long after a change of the record counts of pods may be
// held back. Right after one they change several times within a second, and each
// time would be a write; what is shown later than that is what is there.
const movingSeconds = 2

// countSeconds is how long after a write of the status its counts of pods are held
// back: pods of one batch come one by one, and each would be a write. It does not
// help where they come further apart, as when hundreds of releases move at once.
const countSeconds = 5

// holdCounts keeps the counts of the last status if they are all that is new and
// were written, or the record was, a moment ago. There is another look when that is
// over.
func (a *answer) holdCounts(s *GreyReleaseStatus) {
	if a.record == nil || !a.status.read || a.status.podCounts == counts(s) {
		return
	}
	left := movingSeconds*time.Second - a.sinceChange()
	if age := a.now.Sub(statusWrite(a.parent.Metadata.ManagedFields)); age >= 0 {
		left = max(left, countSeconds*time.Second-age)
	}
	if left <= 0 {
		return
	}
	held := *s
	setCounts(&held, a.status.podCounts)
	if !a.status.shows(&held) {
		return
	}
	*s = held
	a.countsHeld = int64((left + time.Second - 1) / time.Second)
}

// podCounts are the numbers of a status that follow the pods.
type podCounts struct {
	Replicas          int64 `json:"replicas"`
	UpdatedReplicas   int64 `json:"updatedReplicas"`
	ReadyReplicas     int64 `json:"readyReplicas"`
	AvailableReplicas int64 `json:"availableReplicas"`
	CanaryWeight      int64 `json:"canaryWeight"`
}

func counts(s *GreyReleaseStatus) podCounts {
	return podCounts{s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.CanaryWeight}
}

func setCounts(s *GreyReleaseStatus, c podCounts) {
	s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.CanaryWeight =
		c.Replicas, c.UpdatedReplicas, c.ReadyReplicas, c.AvailableReplicas, c.CanaryWeight
}

// view describes the record that is observed, or for lack of one the next.
func (a *answer) view() rollout.View {
	r := a.shown()
	if r == nil {
		return rollout.View{}
	}
	return rollout.Describe(r, a.size(), a.facts, a.now)
}

// shown is the record that status reports.
func (a *answer) shown() *rollout.Record {
	if a.record != nil {
		return a.record
	}
	return a.next
}

// size is the number of replicas in force.
func (a *answer) size() int64 { return rollout.Size(a.shown(), &a.wish, a.facts) }

// count adds up what the Deployments report.
func (a *answer) count(s *GreyReleaseStatus) {
	target := int64(0)
	if r := a.shown(); r != nil {
		target = r.Target.Number
	}
	var all, new int64
	for i := range a.facts.Deployments {
		d := &a.facts.Deployments[i]
		s.Replicas += d.Total
		s.ReadyReplicas += d.Ready
		s.AvailableReplicas += d.Available
		all += d.Available
		if d.Revision == target {
			s.UpdatedReplicas = d.Total
			new = d.Available
		}
	}
	switch {
	case a.facts.Traffic != nil:
		s.CanaryWeight = min(100, a.facts.Traffic.Weights[target])
	case all > 0:
		s.CanaryWeight = 100 * new / all
	}
}

// identify says which revisions and which batch the status is about.
func (a *answer) identify(s *GreyReleaseStatus, v rollout.View) {
	r := a.shown()
	if r == nil {
		return
	}
	s.TargetVersion, s.TargetRevision = r.Target.Version, r.Target.Number
	s.StableVersion, s.StableRevision = r.Stable.Version, r.Stable.Number
	s.TotalBatches = v.Total
	done := v.Total
	switch r.Stage {
	case rollout.Rolling:
		s.CurrentBatch = v.Step.Index
		done = v.Step.Index
	case rollout.Promoting:
		s.CurrentBatch = v.Total
	case rollout.Held:
		s.CurrentBatch = v.Step.Index
		if v.Step.Index == 0 {
			s.CurrentBatch = v.Total // held while it was being promoted
		}
		done = s.CurrentBatch
	case rollout.RollingBack, rollout.RolledBack:
		done = 0
	case rollout.Complete, rollout.Restoring:
	}
	if s.TotalBatches > 0 {
		s.Progress = fmt.Sprintf("%d/%d", done, s.TotalBatches)
	}
	for _, e := range r.History {
		s.History = append(s.History, HistoryEntry{
			Revision: e.Revision, Version: e.Version, Result: string(e.Result), Reason: e.Reason,
			StartedAt: stamp(e.StartedAt), FinishedAt: stamp(e.FinishedAt),
		})
	}
	s.Analysis = a.analysis()
	if c := r.Command; c != nil {
		s.LastCommand = &LastCommand{Text: c.Text, Result: c.Result, Time: stamp(c.Time)}
	}
}

func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// changing tells whether the spec asks for something that the observed record
// does not do yet: it begins with the next sync, and this answer must not say
// that all is done.
func (a *answer) changing() bool {
	r := a.record
	if !a.wish.Valid || r == nil {
		return false
	}
	want := a.wish.Content.Number
	if a.wish.Pin.Number != 0 {
		want = a.wish.Pin.Number
	}
	// A pin of the target itself starts it anew if it failed, and ends its batches.
	pinned := a.wish.Pin.Number != 0 && a.wish.Pin.Number != r.Pin && (r.Failure != nil || r.Stage == rollout.Rolling)
	return want != r.Target.Number || pinned
}

func (a *answer) phase(v rollout.View) Phase {
	r := a.shown()
	switch {
	case !a.wish.Valid:
		return PhaseInvalid
	case r == nil || a.record == nil && !a.recordIsLost():
		return PhasePending
	case a.changing():
		return PhaseProgressing
	}
	switch r.Stage {
	case rollout.Complete:
		return PhaseHealthy
	case rollout.Rolling:
		if v.Wait != rollout.WaitNone {
			return PhasePaused
		}
		return PhaseProgressing
	case rollout.Promoting:
		switch {
		case v.Wait != rollout.WaitNone:
			return PhasePaused
		case a.outAtZero():
			return PhaseHealthy
		case r.Stable.Number == 0:
			return PhasePending
		}
		return PhasePromoting
	case rollout.Restoring, rollout.RollingBack:
		return PhaseRollingBack
	case rollout.RolledBack:
		return PhaseRolledBack
	case rollout.Held:
		return PhaseDegraded
	}
	return ""
}

// outAtZero tells whether a release has gone as far as it can without replicas.
func (a *answer) outAtZero() bool {
	r := a.record
	return r != nil && r.Stage == rollout.Promoting && a.size() == 0 && a.facts.Drained(0, nil)
}

// ready tells whether the target is fully out and available.
func (a *answer) ready() bool {
	r := a.record
	if r == nil || !a.wish.Valid || a.changing() {
		return false
	}
	size := a.size()
	if a.outAtZero() {
		return a.facts.Find(r.Target.Number) != nil
	}
	return r.Stage == rollout.Complete && a.facts.Drained(r.Target.Number, r.Route) &&
		a.facts.Settled(r.Target.Number, size) && a.facts.Available(r.Target.Number) >= size
}
