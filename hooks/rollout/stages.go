package rollout

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
	if t.crashed() {
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
	if t.crashed() {
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
