package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// claim returns the children that the caches show for the parent. It adopts
// ownerless objects that carry its uid as a label, and releases its own that no
// longer do. What is returned is as cached, without the reference just added.
func (c *controller) claim(ctx context.Context, parent *unstructured.Unstructured) (objects, error) {
	claimed := objects{}
	var adoptable error
	asked := false
	mayAdopt := func() error {
		if !asked { // once a sync, on the live parent
			asked, adoptable = true, c.mayAdopt(ctx, parent)
		}
		return adoptable
	}
	for _, k := range c.children {
		claimed[k.GroupVersionKind] = map[string]*unstructured.Unstructured{}
		var errs []error
		for _, child := range c.candidates(k, parent) {
			mine, err := c.claimOne(ctx, k, parent, child, mayAdopt)
			if err != nil {
				errs = append(errs, err)
			}
			if mine {
				claimed.add(child)
			}
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return nil, fmt.Errorf("can't claim %s children: %w", k.Kind, err)
		}
	}
	return claimed, nil
}

// The index of the caches of children: by the uid of the controller, "" for none.
const byController = "controller"

func controllerOf(obj any) ([]string, error) {
	if owner := metav1.GetControllerOf(obj.(*unstructured.Unstructured)); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return []string{""}, nil
}

// candidates are the parent's children and the objects that nobody controls.
func (c *controller) candidates(k kind, parent *unstructured.Unstructured) []*unstructured.Unstructured {
	var list []*unstructured.Unstructured
	for _, uid := range []string{string(parent.GetUID()), ""} {
		// The only error is an index that does not exist.
		found, _ := c.factory.ForResource(k.resource).Informer().GetIndexer().ByIndex(byController, uid)
		for _, obj := range found {
			if child := obj.(*unstructured.Unstructured); !c.parent.namespaced || child.GetNamespace() == parent.GetNamespace() {
				list = append(list, child)
			}
		}
	}
	return list
}

func (c *controller) claimOne(ctx context.Context, k kind, parent, child *unstructured.Unstructured, mayAdopt func() error) (bool, error) {
	matches := child.GetLabels()[uidLabel] == string(parent.GetUID())
	owner := metav1.GetControllerOf(child)
	switch {
	case owner != nil && owner.UID != parent.GetUID():
		return false, nil
	case owner != nil && matches:
		return true, nil
	case parent.GetDeletionTimestamp() != nil:
		return false, nil
	case owner != nil:
		err := c.updateOwners(ctx, k, child, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
			kept := refs[:0]
			for _, ref := range refs {
				if ref.UID != parent.GetUID() {
					kept = append(kept, ref)
				}
			}
			return kept
		})
		if apierrors.IsNotFound(err) || apierrors.IsGone(err) {
			err = nil
		}
		return false, err
	case !matches || child.GetDeletionTimestamp() != nil:
		return false, nil
	}
	if err := mayAdopt(); err != nil {
		return false, fmt.Errorf("can't adopt %s %s (%s): %w", k.Kind, nameOf(child), child.GetUID(), err)
	}
	yes := true
	err := c.updateOwners(ctx, k, child, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		me := metav1.OwnerReference{
			APIVersion: c.parent.GroupVersion().String(), Kind: c.parent.Kind, Name: parent.GetName(), UID: parent.GetUID(),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}
		for i := range refs {
			if refs[i].UID == me.UID { // an owner that did not control it
				refs[i] = me
				return refs
			}
		}
		return append(refs, me)
	})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (c *controller) mayAdopt(ctx context.Context, parent *unstructured.Unstructured) error {
	live, err := c.on(c.parent, parent.GetNamespace()).Get(ctx, parent.GetName(), getOptions)
	switch {
	case err != nil:
		return fmt.Errorf("can't recheck DeletionTimestamp: %w", err)
	case live.GetUID() != parent.GetUID():
		return fmt.Errorf("can't recheck DeletionTimestamp: original %s %s is gone: got uid %s, wanted %s", c.parent.Kind, nameOf(parent), live.GetUID(), parent.GetUID())
	case live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s has just been deleted at %v", nameOf(parent), live.GetDeletionTimestamp())
	}
	return nil
}

// updateOwners changes the owners of the live child.
func (c *controller) updateOwners(ctx context.Context, k kind, child *unstructured.Unstructured, change func([]metav1.OwnerReference) []metav1.OwnerReference) error {
	client := c.on(k, child.GetNamespace())
	_, err := update(ctx, client, k, child, func(live *unstructured.Unstructured) bool {
		live.SetOwnerReferences(change(live.GetOwnerReferences()))
		return true
	}, func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return client.Update(ctx, live, metav1.UpdateOptions{})
	})
	return err
}
