package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"greyrelease.example.com/test/sim/apply"
	"greyrelease.example.com/test/sim/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// admit validates and defaults what is about to be stored.
func (s *Server) admit(old *Object, tree map[string]any) (map[string]any, error) {
	var was map[string]any
	if old != nil {
		was = old.Tree
	}
	return kube.Admit(apply.Text(tree, "kind"), was, tree)
}

// systemFields of metadata are the server's, whatever a client sends.
var systemFields = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "uid"}

// systemOf returns the tree with the system fields of the stored object.
func systemOf(old *Object, tree map[string]any) map[string]any {
	meta := apply.CloneMap(apply.Object(tree, "metadata"))
	was := apply.Object(old.Tree, "metadata")
	for _, name := range systemFields {
		if v, ok := was[name]; ok {
			meta[name] = v
		} else {
			delete(meta, name)
		}
	}
	return with(tree, "metadata", meta)
}

// commit stores the next version of an object unless nothing changes. The last
// finalizer of an object under deletion takes the object with it.
func (s *Server) commit(old *Object, tree map[string]any, owners []owner) *Object {
	if apply.Equal(old.Tree, tree) && sameOwners(old.owners, owners) {
		return old
	}
	if old.Deleting() && len(apply.List(tree, "metadata", "finalizers")) == 0 {
		s.remove(old)
		return old
	}
	return s.put(old, old.Ref, tree, owners)
}

func (s *Server) put(old *Object, ref Ref, tree map[string]any, owners []owner) *Object {
	s.version++
	meta := apply.CloneMap(apply.Object(tree, "metadata"))
	generation := int64(1)
	var uid string
	if old == nil {
		for _, name := range systemFields {
			delete(meta, name)
		}
		s.uids++
		uid = fmt.Sprintf("%08x-0000-4000-8000-%012x", s.uids, s.uids)
		meta["uid"] = uid
		meta["creationTimestamp"] = stamp(s.now())
		if ref.Kind.status {
			tree = with(tree, "status", emptyStatus(ref.Kind))
		}
	} else {
		uid = old.UID
		generation = old.Generation()
		if !apply.Equal(old.Tree["spec"], tree["spec"]) {
			generation++
		}
		if !old.Deleting() && meta["deletionTimestamp"] != nil {
			generation++
		}
	}
	if ref.Kind.counted {
		meta["generation"] = generation
	} else {
		generation = 0
	}
	meta["resourceVersion"] = strconv.FormatInt(s.version, 10)
	meta["managedFields"] = entries(owners, ref.Kind)
	next := &Object{Ref: ref, UID: uid, Version: s.version, Tree: with(tree, "metadata", meta), generation: generation, owners: owners}
	s.objects[ref] = next
	s.watch(Event{Old: old, New: next})
	return next
}

// emptyStatus is what a new object shows: a Deployment has an empty status, a
// custom resource none.
func emptyStatus(k *Kind) any {
	switch k {
	case Deployments:
		return map[string]any{}
	case Services, Ingresses:
		return map[string]any{"loadBalancer": map[string]any{}}
	}
	return nil
}

func (s *Server) remove(o *Object) {
	s.version++
	delete(s.objects, o.Ref)
	s.watch(Event{Old: o})
}

// How dependents of a deleted object fare.
const (
	Background = "Background"
	Foreground = "Foreground"
	Orphan     = "Orphan"
)

// finalizers by which the garbage collector holds an object back.
var finalizers = map[string]string{Foreground: "foregroundDeletion", Orphan: "orphan"}

// Delete deletes an object, or marks it where finalizers hold it. A uid that is
// not "" must be the object's.
func (s *Server) Delete(who string, ref Ref, uid, propagation string) error {
	if err := s.receive(Request{Who: who, Verb: "delete", Ref: ref}); err != nil {
		return err
	}
	o := s.objects[ref]
	if o == nil {
		return apierrors.NewNotFound(ref.resource(), ref.Name)
	}
	if uid != "" && uid != o.UID {
		return conflict(ref)
	}
	held := slices.Clone(apply.List(o.Tree, "metadata", "finalizers"))
	if f := finalizers[propagation]; f != "" && !slices.Contains(held, any(f)) {
		held = append(held, f)
	}
	if len(held) == 0 {
		s.remove(o)
		return nil
	}
	if o.Deleting() {
		return nil
	}
	meta := apply.CloneMap(apply.Object(o.Tree, "metadata"))
	meta["finalizers"] = held
	meta["deletionTimestamp"] = stamp(s.now())
	meta["deletionGracePeriodSeconds"] = int64(0)
	s.put(o, ref, with(o.Tree, "metadata", meta), o.owners)
	return nil
}

func managedBy(owners []owner) []apply.Managed {
	managed := make([]apply.Managed, len(owners))
	for i, o := range owners {
		managed[i] = o.Managed
	}
	return managed
}

// restamp gives the entry of the manager that writes the time of the write; the
// others keep theirs.
func restamp(was []owner, managed []apply.Managed, me apply.Manager, now time.Time) []owner {
	next := make([]owner, len(managed))
	for i, m := range managed {
		next[i] = owner{Managed: m, time: stamp(now)}
		for _, o := range was {
			if o.Manager == m.Manager && m.Manager != me {
				next[i].time = o.time
			}
		}
	}
	return next
}

// track returns the owners after an ordinary write. Status is no part of it.
func track(owners []owner, me apply.Manager, was, is map[string]any, ref Ref, now time.Time) []owner {
	managed := apply.Track(managedBy(owners), me, without(was, "status"), without(is, "status"), apply.Schema(ref.Kind.Name))
	return restamp(owners, managed, me, now)
}

func without(m map[string]any, name string) map[string]any {
	if _, ok := m[name]; !ok {
		return m
	}
	return with(m, name, nil)
}

// touch notes that a manager wrote status, without keeping which fields.
func touch(owners []owner, m apply.Manager, now time.Time) []owner {
	i := slices.IndexFunc(owners, func(o owner) bool { return o.Manager == m })
	if i >= 0 && owners[i].time == stamp(now) {
		return owners
	}
	next := slices.Clone(owners)
	o := owner{Managed: apply.Managed{Manager: m, Fields: &apply.Fields{Self: true}}, time: stamp(now)}
	if i >= 0 {
		next[i] = o
		return next
	}
	return append(next, o)
}

func sameOwners(a, b []owner) bool {
	return len(a) == len(b) && apply.SameOwners(managedBy(a), managedBy(b))
}

// entries are the managedFields without the sets of fields, which nobody reads.
func entries(owners []owner, k *Kind) []any {
	list := make([]any, 0, len(owners))
	for _, o := range owners {
		e := map[string]any{"apiVersion": k.APIVersion(), "manager": o.Name, "operation": o.Operation, "time": o.time}
		if o.Subresource != "" {
			e["subresource"] = o.Subresource
		}
		list = append(list, e)
	}
	return list
}
