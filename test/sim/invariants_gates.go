package sim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// goes is how a message names the target that comes next.
var goes = regexp.MustCompile(`going from .* to .* \(revision (\d+)\)`)

// gates follows releases from outside and holds them to their gates: a second,
// dumb implementation of the rules in the API reference. It is lenient where the
// rules leave room and never strict where they do not.
type gates struct {
	bounds   *bounds
	releases map[string]*gated
}

// gated is what is known of one release.
type gated struct {
	target  int64 // the revision that is going out
	attempt int64 // 0 before a message has named it
	pinned  int64 // the revision that rollbackTo named last

	going   int64     // the revision that an answer was about to take for its target
	goingAt time.Time // since when

	full     []time.Time    // full[n]: since when n pods of the target have been available, zero if not
	short    []time.Time    // short[n]: since when they are fewer, zero if not
	unnoted  time.Time      // when a record was last not written, or written over with an older one
	pods     int64          // the largest batch whose gate was seen open, in pods
	share    float64        // and as a share of the replicas then
	promoted map[int64]bool // gates that a command opened, by size
	free     bool           // no gates: first install, rollbackTo, promote @all, promotion
	plan     string         // the batches, by the last answer that knew the record

	as       string // its attempt
	since    int64  // the parent's version when that was first seen
	failed   int64  // the revision that was rolled back and may not be tried again, 0 if none
	content  string // the spec's content then
	pin      int64  // rollbackTo then
	forgiven string // the attempt whose failure the user has answered to
}

// breaks is how long pods must be missing to break a soak for certain. A break
// that could not be written down while it lasted leaves no trace.
const breaks = 2 * time.Second

// attempts are how a message names the attempt that is running.
var attempts = regexp.MustCompile(`command='(?:promote|abort|retry) (\d+)\.(\d+)`)

func (g *gates) check(c *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	r := g.releases[s.Parent.UID]
	if r == nil {
		r = &gated{free: true}
		g.releases[s.Parent.UID] = r
	}
	r.follow(s)
	target := r.deployment(s)
	r.observe(c.options.Prometheus, s, target)
	if err := r.checkRetry(c, s, target); err != nil {
		return err
	}
	versions := g.bounds.versions(c, s, false)
	if err := r.checkRaise(s, target, versions); err != nil {
		return err
	}
	return r.checkPromotion(s, versions)
}

// note takes down what became of records.
func (g *gates) note(c *Cluster, s *Sync, w Write) error {
	r := g.releases[s.Parent.UID]
	if r != nil && w.Ref.Name == s.Parent.Name+"-rollout" && (w.Err != nil || g.bounds.blind(c, s)) {
		r.unnoted = c.clock.now
	}
	return nil
}

// follow finds out which attempt is running and what the user said about it.
func (r *gated) follow(s *Sync) {
	status := s.Answer.Status
	target := number(status, "targetRevision")
	attempt := int64(0)
	if target == r.target {
		attempt = r.attempt
	}
	message := apply.Text(status, "message")
	if m := attempts.FindStringSubmatch(message); m != nil && m[1] == strconv.FormatInt(target, 10) {
		attempt, _ = strconv.ParseInt(m[2], 10, 64)
	}
	if target != r.target || attempt != r.attempt && r.attempt != 0 {
		*r = gated{
			target: target, plan: r.plan, pinned: r.pinned, going: r.going, goingAt: r.goingAt, unnoted: r.unnoted,
			failed: r.failed, since: r.since, as: r.as, content: r.content, pin: r.pin, forgiven: r.forgiven,
		}
		// An answer can still be one to a pin that is gone by now.
		r.free = number(status, "stableRevision") == 0 || !r.othersRun(s) || target == r.pinned
		// The version before, all of it still there: requests only go back to it.
		d := r.deployment(s)
		r.free = r.free || d != nil && routingOf(s.Parent).splits() && d.Int("status", "availableReplicas") >= s.Parent.Int("spec", "replicas")
	}
	r.attempt = attempt
	if m := goes.FindStringSubmatch(message); m != nil {
		if n, _ := strconv.ParseInt(m[1], 10, 64); n != r.going {
			r.going, r.goingAt = n, s.At
		}
	} else if target != r.going {
		r.going = 0
	}
	if plan := fmt.Sprint(planOf(s.Parent)); !strings.Contains(message, "is made again from what runs") {
		r.plan = plan
	} else if plan != r.plan {
		// The record is lost and the plan edited at once: how far the pods are says
		// nothing about the gates of a plan that they did not go by.
		r.free = true
	}
	pin := s.Parent.Int("spec", "rollbackTo")
	if pin != 0 {
		r.pinned = pin
	}
	// A pin to a number that was given twice leads to the one of that content.
	pinned := pin != 0 && (pin == target || strings.Contains(message, "pinned to revision"))
	if stable := number(status, "stableRevision"); pinned || stable == target || stable == 0 {
		r.free = true
	}
	if r.promoted == nil {
		r.promoted = map[int64]bool{}
	}
	id := fmt.Sprintf("%d.%d", target, attempt)
	var gate string
	if _, err := fmt.Sscanf(s.Parent.Annotation(command), "promote "+id+"@%s", &gate); err == nil {
		if gate == "all" {
			r.free = true
		}
		if n, err := strconv.ParseInt(gate, 10, 64); err == nil {
			r.promoted[n] = true
		}
	}
}

// othersRun tells whether pods of another revision are asked for. Where there are
// none, the target starts without batches.
func (r *gated) othersRun(s *Sync) bool {
	for _, o := range s.Children {
		if o.Kind == Deployments && o.Label(numberLabel) != strconv.FormatInt(r.target, 10) && o.Int("spec", "replicas") > 0 {
			return true
		}
	}
	return false
}

// deployment returns the target's Deployment, or nil.
func (r *gated) deployment(s *Sync) *Object {
	for _, o := range s.Children {
		if o.Kind == Deployments && o.Label(numberLabel) == strconv.FormatInt(r.target, 10) && !o.Deleting() {
			return o
		}
	}
	return nil
}

// observe notes which gates are open.
func (r *gated) observe(p *Prometheus, s *Sync, target *Object) {
	available := int64(0)
	if target != nil {
		available = min(target.Int("status", "availableReplicas"), target.Int("spec", "replicas"))
	}
	fresh := len(r.full) == 0
	for int64(len(r.full)) <= available {
		r.full, r.short = append(r.full, time.Time{}), append(r.short, time.Time{})
	}
	for n := range r.full {
		broken := !r.short[n].IsZero() && s.At.Sub(r.short[n]) >= breaks && r.unnoted.Before(r.short[n])
		switch {
		case int64(n) > available && r.short[n].IsZero():
			r.short[n] = s.At
		case int64(n) > available && broken:
			r.full[n] = time.Time{}
		case int64(n) <= available:
			if fresh && r.going == r.target {
				// Its pods ran before it was the target, and were judged from then on.
				r.full[n] = r.goingAt
			} else if broken || r.full[n].IsZero() {
				r.full[n] = s.At
			}
			r.short[n] = time.Time{}
		}
	}
	if apply.Text(s.Answer.Status, "phase") == "Invalid" {
		return
	}
	replicas := s.Parent.Int("spec", "replicas")
	for _, b := range planOf(s.Parent) {
		if b.size > available || replicas == 0 {
			continue
		}
		soaked := s.At.Sub(r.full[b.size]) >= b.soak
		if soaked && len(metricsOf(s.Parent)) > 0 {
			soaked = p != nil && p.passed(s.Parent, apply.Text(s.Answer.Status, "targetVersion"), r.full[b.size], s.At)
		}
		if r.promoted[b.size] || soaked && !b.approval {
			r.pods = max(r.pods, b.size)
			r.share = max(r.share, max(b.share, float64(b.size)/float64(replicas)))
		}
	}
}

// checkRaise: more pods of the target are asked for only past open gates.
func (r *gated) checkRaise(s *Sync, target *Object, versions []*Object) error {
	if r.free || target == nil || apply.Text(s.Answer.Status, "phase") == "Invalid" {
		return nil
	}
	w := asked(s)[target.Ref]
	if w == nil || w.replicas() <= target.Int("spec", "replicas") {
		return nil
	}
	if shut := r.shut(versions, w.replicas()); shut > 0 {
		return fmt.Errorf("revision %d goes from %d to %d pods and the gate at %d was never open (largest open %d)",
			r.target, target.Int("spec", "replicas"), w.replicas(), shut, r.pods)
	}
	return nil
}

// shut returns the size of the first batch below size whose gate was never open
// by any of the specs that may be acted on, or 0.
func (r *gated) shut(versions []*Object, size int64) int64 {
	var shut int64
	for _, parent := range versions {
		if shut = r.shutBy(parent, size); shut == 0 {
			return 0
		}
	}
	return shut
}

func (r *gated) shutBy(parent *Object, size int64) int64 {
	replicas := parent.Int("spec", "replicas")
	for _, b := range planOf(parent) {
		if b.size < size && replicas > 0 && r.pods < b.size && r.share < b.share && r.share < float64(b.size)/float64(replicas) {
			return b.size
		}
	}
	return 0
}

// checkPromotion: promotion begins past all gates, and is not left again whatever
// becomes of the plan.
func (r *gated) checkPromotion(s *Sync, versions []*Object) error {
	if phase := apply.Text(s.Answer.Status, "phase"); r.free || phase != "Promoting" && phase != "Healthy" {
		return nil
	}
	if shut := r.shut(versions, s.Parent.Int("spec", "replicas")+1); shut > 0 {
		return fmt.Errorf("revision %d is promoted and the gate at %d was never open (largest open %d)", r.target, shut, r.pods)
	}
	r.free = true
	return nil
}

// outdated tells whether a later record was written than the one that the answer
// went by: an attempt that it takes for the last one may have been left already.
func outdated(c *Cluster, s *Sync) bool {
	for _, o := range s.Children {
		if o.Kind != ConfigMaps || o.Name != s.Parent.Name+"-rollout" {
			continue
		}
		for _, ch := range c.history {
			if ch.New != nil && ch.New.UID == o.UID && ch.New.Version > o.Version {
				return true
			}
		}
		return false
	}
	return true // It is lost: what the answer says is not what is known.
}

// checkRetry: what was rolled back gets no pods again until the user changes the
// content, pins it or asks for it.
func (r *gated) checkRetry(c *Cluster, s *Sync, target *Object) error {
	pin := s.Parent.Int("spec", "rollbackTo")
	content := contentOf(s.Parent)
	status := s.Answer.Status
	id := fmt.Sprintf("%d.%d", r.target, r.attempt)
	if apply.Text(status, "phase") == "RolledBack" && r.failed != r.target && r.forgiven != id && !outdated(c, s) {
		r.failed, r.content, r.pin, r.since, r.as = r.target, content, pin, s.Parent.Version, id
	}
	if r.failed == 0 {
		return nil
	}
	asks := fmt.Sprintf("retry %d.", r.failed)
	if content != r.content || pin != r.pin || len(s.Parent.Annotation(command)) > len(asks) && s.Parent.Annotation(command)[:len(asks)] == asks {
		r.failed, r.forgiven = 0, r.as
		return nil
	}
	if target == nil || r.target != r.failed || number(status, "stableRevision") == 0 {
		return nil // Where no other version is known any more, the last one serves.
	}
	for _, ch := range c.history {
		// An edit that a cache showed for a moment, and then not.
		if ch.New != nil && ch.New.UID == s.Parent.UID && ch.New.Version >= r.since && contentOf(ch.New) != content {
			return nil
		}
	}
	if w := asked(s)[target.Ref]; w != nil && w.replicas() > target.Int("spec", "replicas") {
		return fmt.Errorf("revision %d was rolled back and gets %d pods again", r.failed, w.replicas())
	}
	return nil
}

// contentOf is what makes another revision of a spec.
func contentOf(parent *Object) string {
	return fmt.Sprint(apply.Field(parent.Tree, "spec", "targetVersion"), apply.Field(parent.Tree, "spec", "template"))
}

// stop is a batch of a plan, with its gate.
type stop struct {
	size     int64
	share    float64
	weight   int64
	soak     time.Duration
	approval bool
}

// planOf lays out the batches of a spec; those of one size are one.
func planOf(parent *Object) []stop {
	tree := apply.Object(parent.Tree, "spec")
	replicas := number(tree, "replicas")
	soak := time.Duration(number(tree, "soakSeconds")) * time.Second
	var plan []stop
	add := func(b stop) {
		b.size = min(b.size, replicas)
		if b.weight < 0 {
			b.weight = (200*b.size + replicas) / max(2*replicas, 1)
		}
		if n := len(plan); n > 0 && b.size <= plan[n-1].size {
			last := &plan[n-1]
			last.soak, last.approval, last.weight = max(last.soak, b.soak), last.approval || b.approval, max(last.weight, b.weight)
			return
		}
		plan = append(plan, b)
	}
	if tree["strategy"] == "BlueGreen" {
		b := stop{size: replicas, share: 1, soak: soak}
		if list := apply.List(tree, "batches"); len(list) > 0 {
			b.approval = apply.Field(list[0], "approval") == true
			if apply.Field(list[0], "soakSeconds") != nil {
				b.soak = time.Duration(number(list[0], "soakSeconds")) * time.Second
			}
		}
		return []stop{b}
	}
	if list := apply.List(tree, "batches"); len(list) > 0 {
		for _, item := range list {
			m, _ := item.(map[string]any)
			b := stop{size: scaled(m["replicas"], replicas, true, "0"), weight: -1, soak: soak, approval: m["approval"] == true}
			if m["weight"] != nil {
				b.weight = number(m, "weight")
			}
			b.share = float64(b.size) / float64(max(replicas, 1))
			if _, ok := m["replicas"].(string); ok {
				b.share = float64(scaled(m["replicas"], 100, true, "0")) / 100
			}
			if m["soakSeconds"] != nil {
				b.soak = time.Duration(number(m, "soakSeconds")) * time.Second
			}
			add(b)
		}
		return plan
	}
	step := number(tree, "batchSize")
	if step <= 0 { // none is set, or one that is not valid
		step = max(1, (replicas+3)/4)
	}
	at := int64(0)
	if weight := number(tree, "canaryWeight"); weight > 0 {
		at = max(1, (replicas*weight+99)/100)
		add(stop{size: at, share: float64(weight) / 100, weight: weight, soak: soak})
	}
	for at < replicas {
		at = min(at+step, replicas)
		add(stop{size: at, share: float64(at) / float64(replicas), weight: -1, soak: soak})
	}
	return plan
}
