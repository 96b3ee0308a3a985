package sim

import (
	"slices"

	"greyrelease.example.com/test/sim/apply"
)

const collector = "generic-garbage-collector"

// onOwned is the watch of the garbage collector: it deletes objects all of whose
// owners are gone, and finishes deletions that wait for dependents. Nobody is
// told beyond the ordinary watch events.
func (c *Cluster) onOwned(e Event) {
	if e.New == nil {
		c.collectDependents(e.Old.UID)
		for _, uid := range ownerUIDs(e.Old) {
			c.finishLater(uid)
		}
		return
	}
	if e.New.Deleting() {
		c.finishLater(e.New.UID)
	}
	if e.Old == nil || len(ownerUIDs(e.Old)) != len(ownerUIDs(e.New)) {
		c.collectLater(e.New)
	}
}

func (c *Cluster) collectDependents(uid string) {
	for _, k := range kinds {
		for _, o := range c.Server.List(k) {
			if slices.Contains(ownerUIDs(o), uid) {
				c.collectLater(o)
			}
		}
	}
}

// collectLater deletes an object, after a while, if it has owners and none exists.
func (c *Cluster) collectLater(o *Object) {
	if len(ownerUIDs(o)) == 0 {
		return
	}
	c.clock.after(c.lag(c.options.Controllers), func() {
		o := c.Server.Get(o.Ref)
		if o == nil || o.Deleting() || len(ownerUIDs(o)) == 0 {
			return
		}
		for _, uid := range ownerUIDs(o) {
			if c.byUID(uid) != nil {
				return
			}
		}
		if err := c.Server.Delete(collector, o.Ref, o.UID, Background); err != nil {
			c.logf("cannot collect %s: %v", o.Ref, err)
		}
	})
}

// finishLater lets an object go that is deleted with its dependents, or without
// them, once that is done.
func (c *Cluster) finishLater(uid string) {
	o := c.byUID(uid)
	if o == nil || !o.Deleting() {
		return
	}
	held := apply.List(o.Tree, "metadata", "finalizers")
	c.clock.after(c.lag(c.options.Controllers), func() {
		switch o := c.byUID(uid); {
		case o == nil:
		case slices.Contains(held, any(finalizers[Foreground])):
			c.finishForeground(o)
		case slices.Contains(held, any(finalizers[Orphan])):
			c.finishOrphan(o)
		}
	})
}

func (c *Cluster) finishForeground(o *Object) {
	if w := c.workloads[o.UID]; w != nil {
		for _, s := range w.sets {
			s.deleted = true
			c.syncSet(s)
		}
	}
	left := c.dependents(o.UID)
	for _, child := range left {
		if child.Deleting() {
			continue
		}
		if err := c.Server.Delete(collector, child.Ref, child.UID, Background); err != nil {
			c.logf("cannot collect %s: %v", child.Ref, err)
		}
	}
	if len(c.dependents(o.UID)) == 0 {
		c.release(o, Foreground)
	}
}

func (c *Cluster) finishOrphan(o *Object) {
	if w := c.workloads[o.UID]; w != nil {
		for _, s := range w.sets {
			s.workload, s.uid = nil, ""
		}
		c.orphans = append(c.orphans, w.sets...)
		w.sets = nil
	}
	for _, child := range c.dependents(o.UID) {
		refs := slices.DeleteFunc(slices.Clone(apply.List(child.Tree, "metadata", "ownerReferences")), func(ref any) bool {
			return apply.Text(ref, "uid") == o.UID
		})
		patch := map[string]any{"metadata": map[string]any{"ownerReferences": refs}}
		if _, err := c.Server.Patch(collector, child.Ref, patch, ""); err != nil {
			c.logf("cannot orphan %s: %v", child.Ref, err)
		}
	}
	c.release(o, Orphan)
}

// release removes the garbage collector's finalizer.
func (c *Cluster) release(o *Object, propagation string) {
	held := slices.DeleteFunc(slices.Clone(apply.List(o.Tree, "metadata", "finalizers")), func(f any) bool {
		return f == finalizers[propagation]
	})
	patch := map[string]any{"metadata": map[string]any{"finalizers": held}}
	if _, err := c.Server.Patch(collector, o.Ref, patch, ""); err != nil {
		c.logf("cannot release %s: %v", o.Ref, err)
	}
}

func (c *Cluster) dependents(uid string) []*Object {
	var list []*Object
	for _, k := range kinds {
		for _, o := range c.Server.List(k) {
			if slices.Contains(ownerUIDs(o), uid) {
				list = append(list, o)
			}
		}
	}
	return list
}

func (c *Cluster) byUID(uid string) *Object {
	for _, o := range c.Server.objects {
		if o.UID == uid {
			return o
		}
	}
	return nil
}

func ownerUIDs(o *Object) []string {
	refs := apply.List(o.Tree, "metadata", "ownerReferences")
	if len(refs) == 0 {
		return nil
	}
	uids := make([]string, len(refs))
	for i, ref := range refs {
		uids[i] = apply.Text(ref, "uid")
	}
	return uids
}
