package main

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// finalizer is the name under which the controller holds its parents.
func (c *controller) finalizer() string {
	return "metacontroller.io/compositecontroller-" + c.raw.GetName()
}

// syncFinalizer adds the finalizer if there is a finalize hook, and removes it if
// there is none. It returns the parent as it is then. Only the cached parent is
// looked at to see whether anything is to be done.
func (c *controller) syncFinalizer(ctx context.Context, parent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	has := slices.Contains(parent.GetFinalizers(), c.finalizer())
	switch {
	case c.composite.Spec.Hooks.Finalize == nil && has:
		return c.removeFinalizer(ctx, parent)
	case c.composite.Spec.Hooks.Finalize == nil, has, parent.GetDeletionTimestamp() != nil:
		return parent, nil
	}
	return c.updateParent(ctx, parent, func(live *unstructured.Unstructured) bool {
		if slices.Contains(live.GetFinalizers(), c.finalizer()) {
			return false
		}
		live.SetFinalizers(append(live.GetFinalizers(), c.finalizer()))
		return true
	})
}

func (c *controller) removeFinalizer(ctx context.Context, parent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return c.updateParent(ctx, parent, func(live *unstructured.Unstructured) bool {
		kept := live.GetFinalizers()
		if !slices.Contains(kept, c.finalizer()) {
			return false
		}
		live.SetFinalizers(slices.DeleteFunc(kept, func(name string) bool { return name == c.finalizer() }))
		return true
	})
}

func (c *controller) updateParent(ctx context.Context, parent *unstructured.Unstructured, change func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	client := c.on(c.parent, parent.GetNamespace())
	return update(ctx, client, c.parent, parent, change, func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return client.Update(ctx, live, metav1.UpdateOptions{})
	})
}

// manages tells whether children are written for a parent: while it lives, and
// while it is held for the finalize hook. Once the garbage collector is at its
// children they are left to it.
func (c *controller) manages(parent *unstructured.Unstructured) bool {
	if parent.GetDeletionTimestamp() == nil {
		return true
	}
	held := parent.GetFinalizers()
	return c.composite.Spec.Hooks.Finalize != nil && slices.Contains(held, c.finalizer()) &&
		!slices.Contains(held, metav1.FinalizerDeleteDependents) && !slices.Contains(held, metav1.FinalizerOrphanDependents)
}
