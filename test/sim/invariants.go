package sim

import (
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// What the rules know of the product's names: its contract with users.
const (
	numberLabel   = "greyrelease.example.com/number"
	revisionLabel = "greyrelease.example.com/revision"
	trackLabel    = "greyrelease.example.com/track"
	decision      = "greyrelease.example.com/decision"
	failedMark    = "greyrelease.example.com/failed"
	command       = "greyrelease.example.com/command"
)

// Invariants returns the rules that every release keeps, looked at from outside:
// in requests, answers, writes and in what the pods really do, never in the
// product's own record. The numbers are those of the package rollout. Each set
// belongs to one cluster.
func Invariants(c *Cluster) []Check {
	f := &fixpoint{last: map[string]*Sync{}}
	t := &templates{first: map[string]map[string]any{}}
	b := &bounds{parents: map[int64]*Object{}, written: map[string]time.Time{}, guessed: map[string]bool{}}
	g := &gates{bounds: b, releases: map[string]*gated{}}
	r := newRoads(b, g)
	m := &moves{left: map[string]bool{}}
	return []Check{
		{Name: "replies", Answered: checkReply, Synced: checkError},
		{Name: "limits", Wrote: b.note},
		{Name: "I1", Answered: b.checkFloor, Wrote: b.checkTrueFloor},
		{Name: "I2", Answered: b.unlessBlind(b.checkCeiling), Wrote: b.checkTrueCeiling},
		{Name: "I3", Answered: checkDrops},
		{Name: "I4 and I5", Answered: f.checkSame},
		{Name: "I6", Answered: b.unlessBlind(f.checkSettles), Synced: f.checkHot},
		{Name: "I7", Answered: checkSnapshotFirst},
		{Name: "snapshots that move", Answered: checkPlaces, Wrote: m.check},
		{Name: "I8", Answered: checkDecision, Wrote: t.check},
		{Name: "status", Answered: f.checkStatus},
		{Name: "I13", Answered: g.check, Wrote: g.note},
		{Name: "I13 for metrics", Answered: checkBlame},
		{Name: "crash loops", Answered: checkCrashes},
		{Name: "requests", Answered: r.note, Passed: r.checkInstant},
		{Name: "weights sum to 100", Answered: checkSums},
		{Name: "weights", Wrote: r.checkWeights},
		{Name: "Services", Answered: checkServices, Wrote: checkNeverRepointed},
		{Name: "I3 for requests", Wrote: r.checkRemoval},
	}
}

// limits are the numbers of pods that a release keeps to.
type limits struct{ replicas, floor, ceiling int64 }

// limitsOf resolves a spec's replicas with the surge and unavailable of the last
// spec that was valid, which stay in force.
func limitsOf(parent, valid *Object) limits {
	replicas := max(parent.Int("spec", "replicas"), 0)
	tree := apply.Object(valid.Tree, "spec")
	surge := scaled(tree["maxSurge"], replicas, true, "25%")
	unavailable := scaled(tree["maxUnavailable"], replicas, false, "0")
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	splits := routingOf(valid).splits()
	if splits && unavailable >= replicas && replicas > 0 {
		// A pod stays for the requests, and where that is all, one comes first.
		unavailable = replicas - 1
		surge = max(surge, 1-unavailable)
	}
	l := limits{replicas, replicas - min(unavailable, replicas), replicas + surge}
	if splits {
		l.ceiling += replicas // the version that requests are leaving is kept
	}
	return l
}

// judge remembers which generations of a spec the hook took for valid and which
// it refused; those that it never saw are neither.
func (c *Cluster) judge(s *Sync) {
	spec := edition{s.Parent.UID, s.Parent.Generation()}
	c.refused[spec] = apply.Text(s.Answer.Status, "phase") == "Invalid"
}

// edition is a version of a release's spec.
type edition struct {
	uid        string
	generation int64
}

// bounds knows under which spec each version of a record was written. What an
// answer does follows the record that was observed, so the limits of the spec of
// that time are in force until the next record is.
type bounds struct {
	parents map[int64]*Object
	written map[string]time.Time // by the parent's uid, the last change of a child by us
	guessed map[string]bool      // by the parent's uid, whether the record was made anew under a spec that is refused
}

// blind tells whether an answer in server-side mode was given on caches that do
// not show our own last write. Nothing refuses it there: it can put an older
// record and older sizes back for a moment, and what it says is not judged by
// rules about the whole. Dynamic apply refuses it, so there all are.
func (b *bounds) blind(c *Cluster, s *Sync) bool {
	if c.Metacontroller.mode != ServerSide || s.Parent == nil {
		return false
	}
	for _, k := range c.Metacontroller.childKinds() {
		if view := s.Views[k]; view.Before(s.At) && !view.After(b.written[s.Parent.UID]) {
			return true
		}
	}
	return false
}

// unlessBlind leaves such answers out.
func (b *bounds) unlessBlind(check func(*Cluster, *Sync) error) func(*Cluster, *Sync) error {
	return func(c *Cluster, s *Sync) error {
		if b.blind(c, s) {
			return nil
		}
		return check(c, s)
	}
}

// note takes down the writes of records.
func (b *bounds) note(c *Cluster, s *Sync, w Write) error {
	if w.Ref.Kind != Releases && w.New != w.Old {
		b.written[s.Parent.UID] = c.clock.now
	}
	if w.Ref.Name == s.Parent.Name+"-rollout" && w.New != nil && w.New != w.Old {
		b.parents[w.New.Version] = s.Parent
		refused := c.refused[edition{s.Parent.UID, s.Parent.Generation()}]
		b.guessed[s.Parent.UID] = refused && (w.Old == nil || b.guessed[s.Parent.UID])
	}
	return nil
}

// versions are those of the parent under which an answer may act: from the one
// for which the observed record was written to the one that was sent. live adds
// those that the answer cannot have known.
func (b *bounds) versions(c *Cluster, s *Sync, live bool) []*Object {
	first, last := s.Parent.Version, s.Parent.Version
	for _, o := range s.Children {
		if o.Name == s.Parent.Name+"-rollout" {
			first = 0
			if p := b.parents[o.Version]; p != nil && p.UID == s.Parent.UID {
				first = p.Version
			}
		}
	}
	if live {
		last = c.Server.version
	}
	if first > last {
		// The parent's cache went back behind the record's.
		first, last = last, first
	}
	var list []*Object
	for _, o := range c.parents[s.Parent.UID] {
		if o.Version >= first && o.Version <= last {
			list = append(list, o)
		}
	}
	return list
}

// inForce returns the limits that may be in force for an answer, the widest.
func (b *bounds) inForce(c *Cluster, s *Sync, live bool) limits {
	versions := b.versions(c, s, live)
	wide := limitsOf(versions[0], c.lastValid(versions[0]))
	for i, o := range versions[1:] {
		if o.Generation() == versions[i].Generation() {
			continue // a change of its status changes no limits
		}
		l := limitsOf(o, c.lastValid(o))
		wide.floor, wide.ceiling = min(wide.floor, l.floor), max(wide.ceiling, l.ceiling)
	}
	if b.guessed[s.Parent.UID] {
		// The last valid settings went with the record; the defaults are in force.
		wide.floor, wide.ceiling = min(wide.floor, wide.replicas), max(wide.ceiling, wide.replicas+(wide.replicas+3)/4)
	}
	return wide
}

// lastValid is the version itself, or if the hook refused it the last one before
// it that the hook accepted.
func (c *Cluster) lastValid(version *Object) *Object {
	if !c.refused[edition{version.UID, version.Generation()}] {
		return version
	}
	valid := version
	for _, o := range c.parents[version.UID] {
		if o.Version > version.Version {
			break
		}
		if refused, known := c.refused[edition{o.UID, o.Generation()}]; known && !refused {
			valid = o
		}
	}
	return valid
}

// deployments returns the live Deployments of a parent.
func (c *Cluster) deployments(uid string) []*Object {
	var list []*Object
	for _, o := range c.Server.List(Deployments) {
		if o.OwnedBy(uid) {
			list = append(list, o)
		}
	}
	return list
}

// asked returns what an answer asks for, by Deployment.
func asked(s *Sync) map[Ref]*wish {
	m := map[Ref]*wish{}
	for _, w := range s.Answer.Children {
		if w.Kind == Deployments {
			m[w.Ref] = w
		}
	}
	return m
}

func (w *wish) replicas() int64 {
	if apply.Field(w.tree, "spec", "replicas") == nil {
		return 1
	}
	return number(w.tree, "spec", "replicas")
}

// judged tells whether an answer is one whose children are carried out.
func judged(s *Sync) bool { return s.Answer != nil && !s.Parent.Deleting() }
