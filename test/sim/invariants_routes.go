package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// routes are the kinds by which requests are led.
func routes(k *Kind) bool { return k == HTTPRoutes || k == Ingresses || k == Services }

// checkSums: the weights of each rule of a route that is asked for sum to 100, and
// a canary Ingress has a weight that is a percentage.
func checkSums(c *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	edited := map[Ref]bool{}
	for _, o := range s.Children {
		edited[o.Ref] = c.edited[o.UID]
	}
	for _, w := range s.Answer.Children {
		if edited[w.Ref] {
			continue // kept as somebody made it, where the record is gone
		}
		if w.Kind == Ingresses && apply.Text(w.tree, "metadata", "annotations", nginxCanary) != "" {
			text := apply.Text(w.tree, "metadata", "annotations", nginxWeight)
			if n, err := strconv.Atoi(text); err != nil || n < 0 || n > 100 {
				return fmt.Errorf("%s has canary weight %q", w.Ref, text)
			}
		}
		if w.Kind != HTTPRoutes {
			continue
		}
		rules := apply.List(w.tree, "spec", "rules")
		if len(rules) == 0 {
			return fmt.Errorf("%s has no rules", w.Ref)
		}
		for _, rule := range rules {
			var sum int64
			for _, ref := range apply.List(rule, "backendRefs") {
				sum += number(ref, "weight")
			}
			if sum != 100 {
				return fmt.Errorf("the weights of %s sum to %d", w.Ref, sum)
			}
		}
	}
	return nil
}

// checkServices: a Service that an observed route names is not left out.
func checkServices(_ *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	listed := map[Ref]bool{}
	for _, w := range s.Answer.Children {
		listed[w.Ref] = true
	}
	for _, o := range s.Children {
		if o.Deleting() || !listed[o.Ref] {
			continue
		}
		var names []string
		switch o.Kind {
		case HTTPRoutes:
			names = backends(o)
		case Ingresses:
			names = []string{ingressBackend(o)}
		}
		for _, name := range names {
			ref := Ref{Services, o.Namespace, name}
			for _, child := range s.Children {
				if child.Ref == ref && !child.Deleting() && !listed[ref] {
					return fmt.Errorf("%s is left out while %s names it", ref, o.Ref)
				}
			}
		}
	}
	return nil
}

// checkNeverRepointed: the Service of a revision leads to that revision for ever.
func checkNeverRepointed(c *Cluster, _ *Sync, w Write) error {
	if w.Ref.Kind != Services || w.Old == nil || w.New == nil || w.Old.UID != w.New.UID || c.edited[w.New.UID] || w.New.Label(revisionLabel) == "" {
		return nil
	}
	if was, is := w.Old.Tree["spec"], w.New.Tree["spec"]; !apply.Equal(apply.Field(was, "selector"), apply.Field(is, "selector")) {
		return fmt.Errorf("%s of %s changes its selector", w.Verb, w.Ref)
	}
	return nil
}

// checkRemoval: pods and the Service of a revision that requests are led to stay,
// and for a while longer.
func (r *roads) checkRemoval(c *Cluster, s *Sync, w Write) error {
	if w.New == w.Old || w.Old == nil || !w.Old.OwnedBy(s.Parent.UID) || w.Ref.Kind != Deployments && w.Ref.Kind != Services {
		return nil
	}
	hash := w.Old.Label(revisionLabel)
	emptied := w.Ref.Kind == Deployments && w.Old.Int("spec", "replicas") > 0 && w.New != nil && w.New.Int("spec", "replicas") == 0
	if gone := w.New == nil; hash == "" || !emptied && !gone || r.bounds.blind(c, s) || !c.lastHand.Before(c.seen(s)) {
		return nil
	}
	if w.Ref.Kind == Deployments && (c.availableAt(w.Old, c.clock.now) == 0 || seenUnready(s, w.Old)) {
		return nil
	}
	delay := time.Duration(-1)
	for _, version := range r.bounds.versions(c, s, true) {
		routing := routingOf(c.lastValid(version))
		if version.Int("spec", "replicas") == 0 || !routing.splits() {
			return nil
		}
		kept := routing.delay
		if before := r.stables[s.Parent.UID][1]; apply.Text(s.Answer.Status, "phase") != "Healthy" || w.Old.Label(numberLabel) != fmt.Sprint(before) {
			kept = min(kept, drain)
		}
		if delay < 0 || kept < delay {
			delay = kept
		}
	}
	live := c.Server.Get(s.Parent.Ref)
	if live == nil || live.UID != s.Parent.UID || live.Deleting() {
		return nil
	}
	if entrance := c.ledTo(live, c.Flows(live.Ref))[hash]; entrance != "" && !c.mute() {
		return fmt.Errorf("%s of %s while proxies lead requests to it (%s)", w.Verb, w.Ref, entrance)
	}
	if entrance := c.ledTo(live, c.stored(live))[hash]; entrance != "" {
		return fmt.Errorf("%s of %s while requests are to be led to it (%s)", w.Verb, w.Ref, entrance)
	}
	// A longer delay that somebody sets later brings no pods back.
	by, _ := c.availableBy(live)
	if left, ok := r.until[s.Parent.UID+hash]; ok && by[hash] > 0 && c.Since(left) < delay {
		return fmt.Errorf("%s of %s %v after its last request, not %v", w.Verb, w.Ref, c.Since(left), delay)
	}
	return nil
}

// seenUnready tells whether an answer was to a request in which no pod of a
// Deployment was asked for or ready: one may have become so since.
func seenUnready(s *Sync, d *Object) bool {
	return slices.ContainsFunc(s.Children, func(o *Object) bool {
		return o.UID == d.UID && (o.Int("spec", "replicas") == 0 || o.Int("status", "readyReplicas") == 0 && o.Int("status", "observedGeneration") >= o.Generation())
	})
}

// note takes down which revisions are and were stable.
func (r *roads) note(_ *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	stable := number(s.Answer.Status, "stableRevision")
	if known := r.stables[s.Parent.UID]; known[0] != stable {
		r.stables[s.Parent.UID] = [2]int64{stable, known[0]}
	}
	return nil
}

// checkWeights: a weight that we write is within the batch's, has the pods for it,
// and on the way back it does not rise.
func (r *roads) checkWeights(c *Cluster, s *Sync, w Write) error {
	if !routes(w.Ref.Kind) || w.New == w.Old {
		return nil
	}
	uid := s.Parent.UID
	before, now := r.written[uid], c.weights(s.Parent)
	r.written[uid] = now
	if before == nil || s.Answer == nil || r.bounds.blind(c, s) || c.troubled(c.clock.now) {
		return nil
	}
	if w.Old == nil && outdated(c, s) {
		return nil // A cache may go back behind the removal of an Ingress, and nothing locks one that is not there.
	}
	var target *Object
	for _, d := range c.deployments(uid) {
		if d.Label(numberLabel) == strconv.FormatInt(number(s.Answer.Status, "targetRevision"), 10) {
			target = d
		}
	}
	if target == nil {
		return nil
	}
	hash := target.Label(revisionLabel)
	if now[hash] <= before[hash] {
		return nil
	}
	back := number(s.Answer.Status, "stableRevision") == number(s.Answer.Status, "targetRevision")
	if phase := apply.Text(s.Answer.Status, "phase"); !back && (phase == "RollingBack" || phase == "RolledBack") {
		return fmt.Errorf("%s raises the weight of revision %s, which failed, from %g to %g", w.Ref, target.Label(numberLabel), before[hash], now[hash])
	}
	g := r.gates.releases[uid]
	if g == nil || number(s.Answer.Status, "stableRevision") == 0 || number(s.Answer.Status, "stableRevision") == g.target {
		return nil
	}
	if !othersServe(s, target) {
		return nil // It gets what nobody else could answer.
	}
	versions := r.bounds.versions(c, s, true)
	allowed, needed := int64(0), int64(-1)
	keeps := true
	for _, version := range versions {
		version = c.lastValid(version)
		allowed = max(allowed, g.weight(version))
		n := sizeFor(version, now[hash])
		if needed < 0 || n < needed {
			needed = n
		}
		keeps = keeps && routingOf(version).keeps
	}
	if now[hash] > float64(allowed) {
		return fmt.Errorf("%s gives revision %s weight %g, its batch has %d", w.Ref, target.Label(numberLabel), now[hash], allowed)
	}
	if have := c.availableAt(target, c.clock.now); keeps && have < needed {
		return fmt.Errorf("%s gives revision %s weight %g with %d pods available, its batch has %d", w.Ref, target.Label(numberLabel), now[hash], have, needed)
	}
	return nil
}

// othersServe tells whether an answer knew of available pods of other versions.
func othersServe(s *Sync, target *Object) bool {
	return slices.ContainsFunc(s.Children, func(o *Object) bool {
		return o.Kind == Deployments && o.Name != target.Name && o.Int("status", "availableReplicas") > 0
	})
}

// weight is the most that a spec gives the target where the release is: the
// weight of the first batch whose gate was not seen open, or of one before it.
func (r *gated) weight(parent *Object) int64 {
	if r.free {
		return 100
	}
	replicas := parent.Int("spec", "replicas")
	var most int64
	for _, b := range planOf(parent) {
		most = max(most, b.weight)
		if r.pods < b.size && r.share < b.share && (replicas == 0 || r.share < float64(b.size)/float64(replicas)) {
			return most
		}
	}
	return 100
}

// sizeFor is the size of the first batch that has so much weight.
func sizeFor(parent *Object, weight float64) int64 {
	for _, b := range planOf(parent) {
		if float64(b.weight) >= weight {
			return b.size
		}
	}
	return parent.Int("spec", "replicas")
}
