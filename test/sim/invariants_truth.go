package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"greyrelease.example.com/test/sim/apply"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// expected are errors of writes that a stale cache explains.
func expected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// seen is the instant of which the answer had full sight: everything that
// happened to pods since may be news to it. A change of a pod takes two steps of
// the controllers until it is in a status.
func (c *Cluster) seen(s *Sync) time.Time {
	t := s.At
	for _, since := range s.Views {
		if since.Before(t) {
			t = since
		}
	}
	return t.Add(-3 * c.options.Controllers.Max)
}

// checkTrueFloor is I1 on the pods as they really are: a write of ours that lowers
// a Deployment leaves the floor available, unless pods were lost, or somebody laid
// hands on a child, too late for the answer to know. Pods of that Deployment that
// have become available too late do not count.
func (b *bounds) checkTrueFloor(c *Cluster, s *Sync, w Write) error {
	if w.Ref.Kind != Deployments || w.Old == nil || w.New == w.Old {
		return nil
	}
	was, is := w.Old.Int("spec", "replicas"), int64(0)
	if w.New != nil {
		is = w.New.Int("spec", "replicas")
	}
	if w.New == nil && b.blind(c, s) {
		return nil // it was seen without pods, and an older answer gave it some again
	}
	seen := c.seen(s)
	if c.recounting(w.Old, seen) {
		return nil
	}
	if is >= was || !c.lastLoss.Before(seen) || !c.lastHand.Before(seen) || b.blind(c, s) || !w.Old.OwnedBy(s.Parent.UID) {
		return nil
	}
	available := c.availableAt(w.Old, seen)
	before, after := min(available, was), min(available, is)
	for _, o := range c.deployments(s.Parent.UID) {
		if o.Ref != w.Ref {
			have := min(c.availableAt(o, c.clock.now), o.Int("spec", "replicas"))
			before, after = before+have, after+have
		}
	}
	floor := b.inForce(c, s, true).floor
	if after < min(floor, before) {
		return fmt.Errorf("%s of %s from %d to %d leaves %d of %d available pods, the floor is %d", w.Verb, w.Ref, was, is, after, before, floor)
	}
	return nil
}

// availableAt counts the pods of a Deployment that were available at an instant
// and still are, also of one that has just been deleted and still has its pods.
func (c *Cluster) availableAt(d *Object, t time.Time) int64 {
	var n int64
	for _, s := range c.sets() {
		if s.uid != d.UID {
			continue
		}
		for _, p := range s.pods {
			if !p.Terminating && c.available(p) && !p.ReadySince.Add(s.minReady).After(t) {
				n++
			}
		}
	}
	return n
}

// checkTrueCeiling is I2 on the stored Deployments.
func (b *bounds) checkTrueCeiling(c *Cluster, s *Sync, w Write) error {
	if w.Ref.Kind != Deployments || w.New == nil || w.New == w.Old {
		return nil
	}
	was, is := int64(0), w.New.Int("spec", "replicas")
	if w.Old != nil {
		was = w.Old.Int("spec", "replicas")
	}
	seen := c.seen(s)
	if is <= was || !c.lastHand.Before(seen) || b.blind(c, s) || s.rests(w.New.Label(numberLabel)) {
		return nil
	}
	var after int64
	for _, o := range c.deployments(s.Parent.UID) {
		if !o.Deleting() {
			after += o.Int("spec", "replicas")
		}
	}
	ceiling := b.inForce(c, s, true).ceiling
	if before := after - is + was; after > max(ceiling, before) {
		return fmt.Errorf("%s of %s from %d to %d makes %d pods asked for, before %d, the ceiling is %d", w.Verb, w.Ref, was, is, after, before, ceiling)
	}
	return nil
}

// templates remembers the templates of Deployments as they were created, by uid.
type templates struct{ first map[string]map[string]any }

// ours are the fields of an existing Deployment that may change by our writes,
// beside the system's and what dynamic apply keeps for itself.
var ours = [][]string{
	{"spec", "replicas"}, {"spec", "minReadySeconds"}, {"spec", "progressDeadlineSeconds"},
	{"spec", "strategy"}, {"spec", "revisionHistoryLimit"}, {"metadata", "ownerReferences"},
	{"metadata", "labels", trackLabel}, {"metadata", "annotations", decision},
	{"metadata", "labels", numberLabel}, // of a content that got two before caches had caught up
	{"metadata", "annotations", failedMark}, {"metadata", "annotations", apply.LastApplied},
	{"metadata", "generation"}, {"metadata", "managedFields"}, {"metadata", "resourceVersion"},
	{"status"},
}

// check is I8: a write of ours changes nothing of an existing Deployment but
// those fields. Only where somebody edited it by hand it may be brought back.
func (t *templates) check(c *Cluster, s *Sync, w Write) error {
	if w.Ref.Kind != Deployments || w.New == nil || w.New == w.Old {
		return nil
	}
	if w.Old == nil || w.Old.UID != w.New.UID {
		t.first[w.New.UID] = apply.Object(w.New.Tree, "spec", "template")
		return nil
	}
	if c.edited[w.New.UID] {
		return nil
	}
	was, is := w.Old.Tree, w.New.Tree
	for _, path := range ours {
		was, is = drop(was, path), drop(is, path)
	}
	if !w.Old.OwnedBy(s.Parent.UID) { // an older parent's, seized before it was collected
		uid := []string{"metadata", "labels", uidLabel}
		was, is = drop(was, uid), drop(is, uid)
	}
	if !apply.Equal(was, is) {
		return fmt.Errorf("%s of %s changes %s", w.Verb, w.Ref, difference(was, is, ""))
	}
	return nil
}

// drop returns the tree without the value at the path.
func drop(tree map[string]any, path []string) map[string]any {
	if len(path) == 1 {
		return without(tree, path[0])
	}
	child, ok := tree[path[0]].(map[string]any)
	if !ok {
		return tree
	}
	rest := drop(child, path[1:])
	if len(rest) == 0 {
		return without(tree, path[0])
	}
	return with(tree, path[0], rest)
}

// difference names the first place at which two trees differ.
func difference(was, is any, path string) string {
	a, okA := was.(map[string]any)
	b, okB := is.(map[string]any)
	if !okA || !okB {
		return fmt.Sprintf("%s from %v to %v", path, was, is)
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !apply.Equal(a[name], b[name]) {
			return difference(a[name], b[name], path+"."+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			return fmt.Sprintf("%s.%s from nothing to %v", path, name, b[name])
		}
	}
	return path
}

// recounting tells whether the minReadySeconds of a Deployment changed in the second
// before an instant: its status still counts by what they were.
func (c *Cluster) recounting(d *Object, t time.Time) bool {
	for _, ch := range slices.Backward(c.history) {
		if ch.at.Before(t.Add(-time.Second)) {
			break
		}
		if ch.New != nil && ch.Old != nil && ch.New.UID == d.UID && ch.New.Int("spec", "minReadySeconds") != ch.Old.Int("spec", "minReadySeconds") {
			return true
		}
	}
	return false
}
