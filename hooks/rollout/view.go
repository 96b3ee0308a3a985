package rollout

import "time"

// Wait is what a release waits for besides pods.
type Wait int

const (
	// WaitNone: nothing but pods.
	WaitNone Wait = iota
	// WaitPaused: spec.paused.
	WaitPaused
	// WaitZero: the replicas are 0.
	WaitZero
	// WaitSoak: the batch is full and must stay so until View.Until.
	WaitSoak
	// WaitAnalysis: the soak is over and a metric has not passed yet.
	WaitAnalysis
	// WaitApproval: a promote command; View.Until is when it comes too late, if ever.
	WaitApproval
)

// View is what a person wants to know of a record.
type View struct {
	// Step is the batch under way; zero when there is none.
	Step Step
	// Total is the number of batches of the plan.
	Total int64
	Wait  Wait
	Until time.Time
}

// Describe says where the record r stands for this many replicas.
func Describe(r *Record, replicas int64, f *Facts, now time.Time) View {
	p := NewPlan(r.Settings, replicas)
	if replicas == 0 && r.Stage == Rolling && r.Reached != nil {
		// Scaled to 0: the position is held, and shown as it was.
		p = NewPlan(r.Settings, r.Reached.Replicas)
	}
	v := View{Total: p.Total()}
	if r.Stage == Rolling || r.Stage == Held && r.inBatches() {
		v.Step, _ = p.Current(r.Reached)
	}
	if (r.Stage == Promoting || r.Stage == Held) && !r.inBatches() {
		v.Total = 0
	}
	moving := r.Stage == Rolling || r.Stage == Promoting
	switch {
	case moving && r.Settings.Paused && r.Pin == 0:
		v.Wait = WaitPaused
	case r.Stage == Rolling && replicas == 0:
		v.Wait = WaitZero
	case r.Stage == Rolling && r.Gate != nil && !r.Gate.Since.IsZero() && f.of(r.Target.Number).available() >= v.Step.Size:
		v.Wait, v.Until = waitAtGate(r, v.Step, now)
	}
	return v
}

func waitAtGate(r *Record, s Step, now time.Time) (Wait, time.Time) {
	if soaked := due(r.Gate.Since, s.SoakSeconds); s.SoakSeconds > 0 && now.Before(soaked) {
		return WaitSoak, soaked
	}
	if !r.analysed(s) {
		return WaitAnalysis, time.Time{}
	}
	if !s.Approval {
		return WaitNone, time.Time{}
	}
	if s.ApprovalTimeoutSeconds > 0 && !r.Gate.Approval.IsZero() {
		return WaitApproval, due(r.Gate.Approval, s.ApprovalTimeoutSeconds)
	}
	return WaitApproval, time.Time{}
}

// Size is the number of replicas that a wish means under a record: spec.replicas,
// or what is observed while that is missing.
func Size(r *Record, w *Wish, f *Facts) int64 {
	if w.Replicas >= 0 || r == nil {
		return max(0, w.Replicas)
	}
	t := &transition{r: r, wish: w, facts: f}
	return t.size()
}

// Available is the number of a revision's pods that can be relied on.
func (f *Facts) Available(revision int64) int64 { return f.of(revision).available() }

// Find is a revision's Deployment, nil when there is none.
func (f *Facts) Find(revision int64) *Deployment { return f.of(revision) }

// Settled tells whether a revision's Deployment has exactly want pods and its
// status has caught up.
func (f *Facts) Settled(revision, want int64) bool { return f.of(revision).settled(want) }

// Drained tells whether nothing but the given revision has pods asked for, and those
// that the route keeps without requests.
func (f *Facts) Drained(but int64, route *Route) bool {
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if idle := route.Has(d.Revision) && route.Of(d.Revision).Weight == 0; d.Revision != but && d.asked() > 0 && !idle {
			return false
		}
	}
	return true
}
