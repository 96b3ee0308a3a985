package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"greyrelease.example.com/test/sim/apply"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// lastApplied is what server-side mode remembers of its applies, by kind and name.
type lastApplied struct {
	mu   sync.Mutex
	last map[string]apply.Applied
}

func newLastApplied() *lastApplied { return &lastApplied{last: map[string]apply.Applied{}} }

func (m *lastApplied) skips(key string, hash uint64, observed map[string]any) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.last[key]
	return ok && last.Skips(hash, observed)
}

func (m *lastApplied) set(key string, a apply.Applied) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[key] = a
}

func (m *lastApplied) drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, key)
}

func memoryKey(k kind, u *unstructured.Unstructured) string {
	return k.Group + "/" + k.Kind + "/" + keyOf(u)
}

// manage deletes what is not desired, of all kinds, and then creates and updates
// what is, kind by kind and within one in random order. An error of one object
// does not stop the others.
func (c *controller) manage(ctx context.Context, parent *unstructured.Unstructured, observed, desired objects) error {
	var errs []error
	for _, gvk := range observed.kinds() {
		k, err := c.described(gvk)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for key, child := range observed[gvk] {
			if desired[gvk][key] != nil || child.GetDeletionTimestamp() != nil {
				continue
			}
			if err := c.delete(ctx, k, child); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for _, gvk := range desired.kinds() {
		k, err := c.described(gvk)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for key, child := range desired[gvk] {
			// A kind that is no kind of child is created all the same, and never
			// observed.
			if err := c.apply(ctx, k, parent, observed[gvk][key], child); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return utilerrors.NewAggregate(errs)
}

func (c *controller) apply(ctx context.Context, k kind, parent, observed, desired *unstructured.Unstructured) error {
	if c.strategy == serverSideApply {
		return c.applyServerSide(ctx, k, parent, observed, desired)
	}
	return c.applyDynamic(ctx, k, parent, observed, desired)
}

func (c *controller) delete(ctx context.Context, k kind, child *unstructured.Unstructured) error {
	err := c.deleteExactly(ctx, k, child)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("can't delete %s %s: %w", child.GetKind(), keyOf(child), err)
	}
	c.applied.drop(memoryKey(k, child))
	return nil
}

// deleteExactly deletes an object, and not another one that has got its name.
func (c *controller) deleteExactly(ctx context.Context, k kind, child *unstructured.Unstructured) error {
	uid := child.GetUID()
	background := metav1.DeletePropagationBackground
	return c.on(k, child.GetNamespace()).Delete(ctx, child.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	})
}

// recreate deletes a child. It is created by a later sync.
func (c *controller) recreate(ctx context.Context, k kind, child *unstructured.Unstructured) error {
	if err := c.deleteExactly(ctx, k, child); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// applyDynamic creates or updates by a three-way merge. What already exists on
// create, and what is gone or has changed on update, is passed over in silence.
func (c *controller) applyDynamic(ctx context.Context, k kind, parent, observed, desired *unstructured.Unstructured) error {
	client := c.on(k, desired.GetNamespace())
	if observed == nil {
		tree, err := apply.Create(desired.Object, apply.Owner(parent.Object))
		if err != nil {
			return err
		}
		_, err = client.Create(ctx, &unstructured.Unstructured{Object: tree}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	tree, err := apply.Update(observed.Object, desired.Object)
	if err != nil {
		return err
	}
	if apply.Equal(observed.Object, tree) || observed.GetDeletionTimestamp() != nil {
		return nil
	}
	switch c.method(k) {
	case onDelete:
		return nil
	case recreate:
		return c.recreate(ctx, k, observed)
	}
	_, err = client.Update(ctx, &unstructured.Unstructured{Object: tree}, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// applyServerSide applies, and takes over what others own, unless it did so
// before and nothing has changed since.
func (c *controller) applyServerSide(ctx context.Context, k kind, parent, observed, desired *unstructured.Unstructured) error {
	if observed != nil && observed.GetDeletionTimestamp() != nil {
		return nil
	}
	client := c.on(k, desired.GetNamespace())
	config := apply.Config(desired.Object, apply.Owner(parent.Object))
	hash := apply.Hash(config)
	key := memoryKey(k, desired)
	body, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("cannot encode %s %s: %w", k.Kind, keyOf(desired), err)
	}
	if observed != nil {
		if c.applied.skips(key, hash, observed.Object) {
			return nil
		}
		switch c.method(k) {
		case onDelete:
			c.applied.set(key, apply.Remember(hash, observed.Object))
			return nil
		case recreate:
			return c.recreateServerSide(ctx, k, observed, desired, body, hash)
		}
		if _, left := observed.GetAnnotations()[apply.LastApplied]; left { // from dynamic mode
			patch := []byte(`[{"op": "remove", "path": "/metadata/annotations/metacontroller.k8s.io~1last-applied-configuration"}]`)
			_, err := client.Patch(ctx, desired.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	result, err := client.Patch(ctx, desired.GetName(), types.ApplyPatchType, body, c.forced())
	if apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.applied.set(key, apply.Remember(hash, result.Object))
	return nil
}

func (c *controller) forced(dryRun ...string) metav1.PatchOptions {
	force := true
	return metav1.PatchOptions{FieldManager: c.fieldManager, Force: &force, DryRun: dryRun}
}

// recreateServerSide deletes a child if an apply of what is desired would change
// it, which the API server is asked.
func (c *controller) recreateServerSide(ctx context.Context, k kind, observed, desired *unstructured.Unstructured, body []byte, hash uint64) error {
	key := memoryKey(k, desired)
	would, err := c.on(k, desired.GetNamespace()).Patch(ctx, desired.GetName(), types.ApplyPatchType, body, c.forced(metav1.DryRunAll))
	if apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
		c.applied.set(key, apply.Remember(hash, observed.Object))
		return nil
	}
	if err != nil {
		return fmt.Errorf("dry run failed for server-side apply: %w", err)
	}
	if observed.GetGeneration() != would.GetGeneration() || observed.GetUID() != would.GetUID() {
		return fmt.Errorf("generation or UID changed during dry run for server-side apply, expected generation %d and UID %s but got generation %d and UID %s, "+
			"this likely means the object was updated after we read it, retrying on next reconciliation loop to avoid unnecessary delete and recreate",
			observed.GetGeneration(), observed.GetUID(), would.GetGeneration(), would.GetUID())
	}
	if apply.Equal(apply.Bare(would.Object), apply.Bare(observed.Object)) {
		c.applied.set(key, apply.Remember(hash, observed.Object))
		return nil
	}
	if err := c.recreate(ctx, k, observed); err != nil {
		return err
	}
	c.applied.drop(key)
	return nil
}

// writeStatus replaces the status of the live parent, stamped with the generation
// that the hook saw.
func (c *controller) writeStatus(ctx context.Context, parent *unstructured.Unstructured, status map[string]any) error {
	if status == nil {
		status = map[string]any{}
	}
	status["observedGeneration"] = parent.GetGeneration()
	client := c.on(c.parent, parent.GetNamespace())
	_, err := update(ctx, client, c.parent, parent, func(live *unstructured.Unstructured) bool {
		if apply.Equal(live.Object["status"], status) {
			return false
		}
		live.Object["status"] = status
		return true
	}, func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
	})
	return err
}
