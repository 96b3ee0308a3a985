package rollout

// Quantity is a number of pods, absolute or as a percentage of the replicas.
type Quantity struct {
	Value   int64 `json:"value"`
	Percent bool  `json:"percent,omitempty"`
}

// Up resolves q for replicas, rounded up: 25% of 10 is 3.
func (q Quantity) Up(replicas int64) int64 {
	if q.Percent {
		return ceilPercent(replicas, q.Value)
	}
	return q.Value
}

// Down resolves q for replicas, rounded down: 25% of 10 is 2.
func (q Quantity) Down(replicas int64) int64 {
	if q.Percent {
		return replicas * q.Value / 100
	}
	return q.Value
}

// Budget resolves maxSurge (up) and maxUnavailable (down) for replicas. When
// both come out as 0, nothing could ever move, so unavailable is 1, as in a
// Kubernetes Deployment: surge 0 and 25% of 3 gives 0 and 1.
func Budget(replicas int64, surge, unavailable Quantity) (up, down int64) {
	up, down = surge.Up(replicas), unavailable.Down(replicas)
	if up == 0 && down == 0 {
		down = 1
	}
	return up, min(down, replicas)
}

// budget resolves the surge and unavailable of s. With a router at least one pod
// stays for the requests: where that leaves nothing to move, one comes first.
func (s *Settings) budget(replicas int64) (up, down int64) {
	up, down = Budget(replicas, s.MaxSurge, s.MaxUnavailable)
	if s.Router != RouterNone && down >= replicas && replicas > 0 {
		down = replicas - 1
		up = max(up, 1-down)
	}
	return up, down
}

// Batch is one step of an explicit plan: how far it goes, and its gate.
type Batch struct {
	// Pods is the cumulative size in pods; 0 when Percent is set.
	Pods int64 `json:"pods,omitempty"`
	// Percent is the cumulative size as a share of the replicas, 1 to 100.
	Percent int64 `json:"percent,omitempty"`
	// Weight is the share of the traffic, 0 to 100; nil means the share of the pods.
	Weight *int64 `json:"weight,omitempty"`
	// SoakSeconds is the unbroken health asked for before the next batch.
	SoakSeconds int64 `json:"soakSeconds,omitempty"`
	// Approval asks for a promote command before the next batch.
	Approval bool `json:"approval,omitempty"`
	// ApprovalTimeoutSeconds fails the release when no approval came in time; 0 waits for ever.
	ApprovalTimeoutSeconds int64 `json:"approvalTimeoutSeconds,omitempty"`
}

// size is the batch in pods of replicas: a share is rounded up, so more than
// 0% is at least one pod, and an integer above replicas is all of them.
func (b Batch) size(replicas int64) int64 {
	if b.Percent > 0 {
		return ceilPercent(replicas, b.Percent)
	}
	return min(b.Pods, replicas)
}

// Position is how far a release has come: the size of the last batch whose gate
// was passed. It is a size and not an index, so that scaling and edits of the
// plan neither skip a gate nor repeat one.
type Position struct {
	// Pods is the size that was reached.
	Pods int64 `json:"pods"`
	// Replicas is what spec.replicas was then.
	Replicas int64 `json:"replicas"`
	// Percent is the size as a share, if the batch gave one.
	Percent int64 `json:"percent,omitempty"`
	// Written is the size in pods as the plan gave it: it may be more than the
	// replicas were.
	Written int64 `json:"written,omitempty"`
}

// pods is the reached size in today's replicas, for comparing with a size in
// pods: never more than was reached, and no larger a share than was reached.
// 40 of 100, scaled to 20: min(40, ceil(40%*20)) = 8.
func (p *Position) pods(replicas int64) int64 {
	if p == nil {
		return 0
	}
	if p.Percent > 0 {
		return min(p.Pods, ceilPercent(replicas, p.Percent))
	}
	if p.Replicas == 0 {
		return p.Pods
	}
	return min(p.Pods, (p.Pods*replicas+p.Replicas-1)/p.Replicas)
}

// covers tells whether the reached share is at least percent.
func (p *Position) covers(percent int64) bool {
	switch {
	case p == nil:
		return false
	case p.Percent > 0:
		return p.Percent >= percent
	default:
		return 100*p.Pods >= percent*p.Replicas
	}
}

// Step is the batch a release is in: where it goes and what its gate asks.
type Step struct {
	// Index is the batch's number in the plan, from 1, of Total.
	Index, Total int64
	// Size is the number of pods of the new version.
	Size int64
	// Percent and Written are the size as the plan gave it: for [Position].
	Percent, Written int64
	// Weight is the share of traffic asked for, 0 to 100.
	Weight int64
	// SoakSeconds, Approval and ApprovalTimeoutSeconds are the gate.
	SoakSeconds            int64
	Approval               bool
	ApprovalTimeoutSeconds int64
}

// Plan is the way from 0 to all pods for one number of replicas.
type Plan struct {
	replicas int64
	// explicit batches; empty for a derived plan.
	batches []Batch
	// derived: the canary's size and share, then steps of batch pods.
	canary, canaryPercent, batch int64
	soak                         int64
	// routed: weights are asked for as they are written, not by pods.
	routed bool
}

// NewPlan lays out the batches of s for replicas.
//
// Derived: a canary of max(1, ceil(replicas*canaryWeight/100)) pods if a weight
// is given, then batchSize more each time. Replicas 10, canaryWeight 10,
// batchSize 3: 1, 4, 7, 10. The default batchSize is 25% of the replicas,
// rounded up.
func NewPlan(s Settings, replicas int64) Plan {
	p := Plan{replicas: replicas, batches: s.Batches, soak: s.SoakSeconds, routed: s.Router != RouterNone}
	if len(s.Batches) > 0 {
		return p
	}
	p.batch = s.BatchSize
	if p.batch <= 0 {
		p.batch = max(1, ceilPercent(replicas, 25))
	}
	if s.CanaryWeight > 0 {
		p.canaryPercent = s.CanaryWeight
		p.canary = ceilPercent(replicas, s.CanaryWeight)
	}
	return p
}

// reached is the position once the gate of s is passed.
func (s Step) reached(replicas int64) *Position {
	if ceilPercent(replicas, s.Percent) < s.Size {
		// A share within a batch that another one made larger says too little.
		s.Percent = 0
	}
	return &Position{Pods: s.Size, Replicas: replicas, Percent: s.Percent, Written: s.Written}
}

// Current is the first batch that is larger than what was reached; ok is false
// when there is none, and promotion comes next.
func (p Plan) Current(reached *Position) (step Step, ok bool) {
	if p.replicas == 0 {
		return Step{}, false
	}
	if len(p.batches) > 0 {
		return p.currentExplicit(reached)
	}
	return p.currentDerived(reached)
}

// Total is the number of batches, those of equal size counted once.
func (p Plan) Total() int64 {
	if p.replicas == 0 {
		return 0
	}
	if len(p.batches) == 0 {
		return p.derivedIndex(p.replicas)
	}
	var total, last int64
	for _, b := range p.batches {
		if size := b.size(p.replicas); size > last {
			total, last = total+1, size
		}
	}
	return total
}

func (p Plan) currentDerived(reached *Position) (Step, bool) {
	if p.canary > 0 && !reached.covers(p.canaryPercent) {
		return p.derivedStep(p.canary, p.canaryPercent), true
	}
	at := max(reached.pods(p.replicas), p.canary)
	if at >= p.replicas {
		if reached.covers(100) {
			return Step{}, false
		}
		// 1 of 10 was reached, and only 1 replica is left: the last gate still asks.
		return p.derivedStep(p.replicas, 0), true
	}
	steps := (at-p.canary)/p.batch + 1
	return p.derivedStep(min(p.replicas, p.canary+steps*p.batch), 0), true
}

func (p Plan) derivedStep(size, percent int64) Step {
	weight := share(size, p.replicas)
	if p.routed && percent > 0 {
		weight = percent
	}
	if size == p.replicas {
		percent = 100 // the canary of one replica is all there is
	}
	return Step{
		Index: p.derivedIndex(size), Total: p.derivedIndex(p.replicas),
		Size: size, Percent: percent, Weight: weight, SoakSeconds: p.soak,
	}
}

// derivedIndex is the number of the batch of this size, from 1.
func (p Plan) derivedIndex(size int64) int64 {
	steps := (size - p.canary + p.batch - 1) / p.batch
	if p.canary > 0 {
		steps++
	}
	return steps
}

// currentExplicit finds the first batch beyond what was reached. Batches of one
// size are one batch with all their gates: 1 replica and [1, 10%] ask for both
// approvals at once. A size is never below an earlier one's.
func (p Plan) currentExplicit(reached *Position) (Step, bool) {
	var step Step
	var index, last int64
	for _, b := range p.batches {
		size := max(b.size(p.replicas), last)
		if size > last {
			if step.Size > 0 {
				break
			}
			index, last = index+1, size
		}
		if b.reachedBy(reached, p.replicas) {
			continue
		}
		step.Index, step.Size = index, size
		step.Percent, step.Written = max(step.Percent, b.Percent), max(step.Written, b.Pods)
		step.SoakSeconds = max(step.SoakSeconds, b.SoakSeconds)
		step.Approval = step.Approval || b.Approval
		step.ApprovalTimeoutSeconds = tighter(step.ApprovalTimeoutSeconds, b.ApprovalTimeoutSeconds)
		step.Weight = share(size, p.replicas)
		if b.Weight != nil {
			step.Weight = *b.Weight
		}
	}
	step.Total = p.Total()
	return step, step.Size > 0
}

// reachedBy tells whether b was passed: shares are compared with shares and
// pods with pods, so that an autoscaler can't turn a small step into a passed
// one. 1 of 10 was reached, scaled to 1: a batch of 5 is one pod now, and still
// has not been passed.
func (b Batch) reachedBy(reached *Position, replicas int64) bool {
	if b.Percent > 0 {
		return reached.covers(b.Percent)
	}
	return reached != nil && b.Pods <= max(reached.Pods, reached.Written) && min(b.Pods, replicas) <= reached.pods(replicas)
}

// tighter is the shorter of two timeouts, where 0 means none.
func tighter(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// share is size as a whole percentage of replicas, rounded to the nearest: 1 of 3 is 33.
func share(size, replicas int64) int64 {
	if replicas == 0 {
		return 0
	}
	return (200*size + replicas) / (2 * replicas)
}

// ceilPercent is percent of n, rounded up: 10% of 11 is 2.
func ceilPercent(n, percent int64) int64 {
	return (n*percent + 99) / 100
}
