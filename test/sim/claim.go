package sim

import (
	"cmp"
	"fmt"
	"slices"

	"greyrelease.example.com/test/sim/apply"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// uidLabel ties children to their parent under a generated selector.
const uidLabel = "controller-uid"

// claim returns the children that the caches show for the parent, by kind and
// name. It adopts ownerless objects that carry its uid as a label, and releases
// its own that no longer do. The cached versions are returned either way.
func (m *Metacontroller) claim(s *Sync) ([]*Object, error) {
	var claimed []*Object
	adoptable := func() error {
		live := m.c.Server.Get(s.Parent.Ref)
		m.c.Server.Counts[Count{manager, "get", Releases.Name, ""}]++
		switch {
		case live == nil:
			return apierrors.NewNotFound(s.Parent.resource(), s.Parent.Name)
		case live.UID != s.Parent.UID:
			return fmt.Errorf("original GreyRelease %s is gone: got uid %s, wanted %s", s.Key, live.UID, s.Parent.UID)
		case live.Deleting():
			return fmt.Errorf("%s has just been deleted", s.Key)
		}
		return nil
	}
	for _, k := range m.childKinds() {
		for _, o := range m.caches[k].list(s.Parent.Namespace) {
			matches := o.Label(uidLabel) == s.Parent.UID
			switch {
			case o.OwnedBy(s.Parent.UID) && matches:
				claimed = append(claimed, o)
			case o.OwnedBy(s.Parent.UID) && !s.Parent.Deleting():
				if err := m.own(s, o, false); err != nil {
					return nil, fmt.Errorf("can't claim %s children: %w", k.Name, err)
				}
			case o.Controller() == nil && matches && !s.Parent.Deleting() && !o.Deleting():
				if err := adoptable(); err != nil {
					return nil, fmt.Errorf("can't claim %s children: can't adopt %s: %w", k.Name, o.Ref, err)
				}
				err := m.own(s, o, true)
				if apierrors.IsNotFound(err) {
					continue
				}
				if err != nil {
					return nil, fmt.Errorf("can't claim %s children: %w", k.Name, err)
				}
				claimed = append(claimed, o)
			}
		}
	}
	return claimed, nil
}

// own adds the parent to a child's owners, or removes it, on the live object.
func (m *Metacontroller) own(s *Sync, o *Object, adopt bool) error {
	return m.write(s, "update", o.Ref, func() (*Object, error) {
		live := m.c.Server.Get(o.Ref)
		if live == nil || live.UID != o.UID {
			return nil, apierrors.NewNotFound(o.resource(), o.Name)
		}
		tree := live.Tree
		if adopt {
			tree = apply.Claim(tree, apply.Owner(s.Parent.Tree))
		} else {
			refs := slices.DeleteFunc(slices.Clone(apply.List(tree, "metadata", "ownerReferences")), func(ref any) bool {
				return apply.Text(ref, "uid") == s.Parent.UID
			})
			tree = with(tree, "metadata", with(apply.Object(tree, "metadata"), "ownerReferences", refs))
		}
		return m.c.Server.Update(manager, tree, "")
	})
}

// childKinds are the kinds of children in the order in which they are managed.
func (m *Metacontroller) childKinds() []*Kind { return m.order }

func orderOf(caches map[*Kind]*informer) []*Kind {
	var list []*Kind
	for _, k := range kinds {
		if k != Releases && caches[k] != nil {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	return list
}
