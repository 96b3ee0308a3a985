package sim

import (
	"fmt"
	"regexp"

	"greyrelease.example.com/test/sim/apply"
)

// checkReply: the service answers with 200 or asks for patience with 429.
func checkReply(c *Cluster, s *Sync) error {
	if s.Answer != nil {
		c.judge(s)
	}
	if s.Reply.Status == 429 && s.Reply.RetryAfter <= 0 {
		return fmt.Errorf("429 without Retry-After")
	}
	return nil
}

// checkError: no sync fails but by faults that were planned: every other error
// is a bug of the hook or a child that the API server refuses.
func checkError(c *Cluster, s *Sync) error {
	if s.Err == nil || c.Metacontroller.Down || c.Server.Refuse != nil {
		return nil
	}
	if s.Answer == nil && len(s.Writes) == 0 {
		return s.Err
	}
	seen := map[string]bool{s.Parent.UID: true}
	for _, o := range s.Children {
		seen[o.UID] = true
	}
	for _, w := range s.Writes {
		// Something is in the way that the hook can't know of: a child that the
		// cache does not show yet, or one of a deleted parent.
		hidden := w.Old != nil && !seen[w.Old.UID]
		if w.Err != nil && !w.Planned && !hidden && !expected(w.Err) {
			return s.Err
		}
	}
	return nil
}

// checkFloor is I1 on the observed state: take-downs leave the floor or what was
// available before, if that was less. Observed available pods count up to what is
// asked for, because a status can be older than the last take-down.
func (b *bounds) checkFloor(c *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	want := asked(s)
	var before, after int64
	for _, o := range s.Children {
		if o.Kind != Deployments || o.Deleting() {
			continue
		}
		have := min(o.Int("status", "availableReplicas"), o.Int("spec", "replicas"))
		before += have
		if w := want[o.Ref]; w != nil {
			after += min(have, w.replicas())
		}
	}
	if floor := b.inForce(c, s, false).floor; after < min(floor, before) {
		return fmt.Errorf("the answer takes available pods from %d to %d, the floor is %d", before, after, floor)
	}
	return nil
}

// checkCeiling is I2 on the observed state. The order of writes is random and any
// of them can be lost, so raises count before take-downs.
func (b *bounds) checkCeiling(c *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	want := asked(s)
	var before, after int64
	raised := false
	for _, o := range s.Children {
		if o.Kind != Deployments || o.Deleting() {
			continue
		}
		n := o.Int("spec", "replicas")
		before += n
		most := n
		if w := want[o.Ref]; w != nil && s.rests(o.Label(numberLabel)) {
			delete(want, o.Ref)
		} else if w != nil {
			most = max(n, w.replicas())
			raised = raised || w.replicas() > n
			delete(want, o.Ref)
		}
		after += most
	}
	ceiling := b.inForce(c, s, false).ceiling
	for _, w := range want {
		if s.rests(apply.Text(w.tree, "metadata", "labels", numberLabel)) {
			continue // Somebody deleted it.
		}
		after += w.replicas()
		raised = raised || w.replicas() > 0
	}
	if raised && after > max(ceiling, before) {
		return fmt.Errorf("the answer raises the pods asked for from %d to as many as %d, the ceiling is %d", before, after, ceiling)
	}
	return nil
}

// rests tells whether a revision is the stable one of a release of which nothing is
// going out. It gets the pods that the spec asks for, whatever is kept of the one
// before for a while.
func (s *Sync) rests(revision string) bool {
	return apply.Text(s.Answer.Status, "phase") == "Healthy" && revision == fmt.Sprint(number(s.Answer.Status, "stableRevision"))
}

// recorded is a revision as a record has it.
var recorded = regexp.MustCompile(`"number":([1-9][0-9]*),"hash":"([0-9a-f]+)"`)

// checkDrops is I3: what runs, what is stable or the target, and the snapshots of
// all these are never left out, and neither is the record.
func checkDrops(_ *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	listed := map[Ref]bool{}
	for _, w := range s.Answer.Children {
		listed[w.Ref] = true
	}
	pin := s.Parent.Int("spec", "rollbackTo")
	kept := map[string]bool{}
	for _, name := range []string{"stableRevision", "targetRevision"} {
		if n := number(s.Answer.Status, name); n > 0 {
			kept[fmt.Sprint(n)] = true
		}
	}
	for _, o := range s.Children {
		if o.Kind == Deployments && o.Int("spec", "replicas") > 0 {
			kept[o.Label(numberLabel)] = true
		}
	}
	hashes := map[string]string{}
	// Numbers that an older parent's children have as well, or that old caches gave
	// to two contents.
	twice := map[string]bool{}
	numbered := func(n, hash string) {
		twice[n] = twice[n] || hashes[n] != "" && hashes[n] != hash
		hashes[n] = hash
	}
	for _, o := range s.Children {
		numbered(o.Label(numberLabel), o.Label(revisionLabel))
		if o.Kind == ConfigMaps && o.Name == s.Parent.Name+"-rollout" {
			for _, m := range recorded.FindAllStringSubmatch(apply.Text(o.Tree, "data", "record.json"), -1) {
				numbered(m[1], m[2])
			}
		}
	}
	content := map[string]bool{}
	for _, w := range s.Answer.Children {
		if keeps(w.Kind) {
			content[apply.Text(w.tree, "metadata", "labels", revisionLabel)] = true
		}
		numbered(apply.Text(w.tree, "metadata", "labels", numberLabel), apply.Text(w.tree, "metadata", "labels", revisionLabel))
	}
	for _, o := range s.Children {
		switch {
		case listed[o.Ref] || o.Deleting() || twice[o.Label(numberLabel)] && o.Int("spec", "replicas") == 0:
		case o.Kind == Deployments && o.Int("spec", "replicas") > 0:
			return fmt.Errorf("%s with %d pods asked for is left out", o.Ref, o.Int("spec", "replicas"))
		case routes(o.Kind): // see checkServices
		case keeps(o.Kind) && o.Label(revisionLabel) != "" && content[o.Label(revisionLabel)]: // kept under another number, or moving: see checkMoves
		case o.Label(numberLabel) != "" && kept[o.Label(numberLabel)]:
			return fmt.Errorf("%s of a revision that is live is left out", o.Ref)
		case keeps(o.Kind) && pin > 0 && o.Label(numberLabel) == fmt.Sprint(pin):
			return fmt.Errorf("the snapshot of the pinned revision %d is left out", pin)
		case o.Kind == ConfigMaps && o.Name == s.Parent.Name+"-rollout":
			return fmt.Errorf("the record is left out")
		}
	}
	return nil
}

// checkSnapshotFirst is I7: a new Deployment only once its snapshot was observed.
func checkSnapshotFirst(_ *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	observed := map[Ref]bool{}
	snapshots := map[string]bool{}
	for _, o := range s.Children {
		observed[o.Ref] = true
		if keeps(o.Kind) {
			snapshots[o.Label(revisionLabel)] = true
		}
	}
	for ref, w := range asked(s) {
		number := apply.Text(w.tree, "metadata", "labels", numberLabel)
		hash := apply.Text(w.tree, "metadata", "labels", revisionLabel)
		if !observed[ref] && !snapshots[hash] {
			return fmt.Errorf("%s is asked for and the snapshot of revision %s was not observed", ref, number)
		}
	}
	return nil
}

// checkDecision: while a Deployment keeps its size, its decision changes only to
// that of a later record, or each answer would be a write.
func checkDecision(_ *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	want := asked(s)
	for _, o := range s.Children {
		w := want[o.Ref]
		if o.Kind != Deployments || w == nil || o.Deleting() || w.replicas() != o.Int("spec", "replicas") {
			continue
		}
		was, is := o.Annotation(decision), apply.Text(w.tree, "metadata", "annotations", decision)
		if was != "" && was != is && counter(is) <= counter(was) {
			return fmt.Errorf("%s keeps %d pods and its decision goes from %s to %s", o.Ref, w.replicas(), was, is)
		}
	}
	return nil
}

// counter is the number of the record in a decision.
func counter(decision string) int64 {
	tree, err := apply.Decode([]byte(decision))
	if err != nil {
		return 0
	}
	return number(tree, "counter")
}
