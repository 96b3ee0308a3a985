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
	"k8s.io/client-go/util/retry"
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
	for _, k := range c.children {
		for key, child := range observed[k.GroupVersionKind] {
			if desired[k.GroupVersionKind][key] != nil || child.GetDeletionTimestamp() != nil {
				continue
			}
			if err := c.delete(ctx, k, child); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for _, k := range c.children {
		for key, child := range desired[k.GroupVersionKind] {
			var err error
			if c.strategy == serverSideApply {
				err = c.applyServerSide(ctx, k, parent, observed[k.GroupVersionKind][key], child)
			} else {
				err = c.applyDynamic(ctx, k, parent, observed[k.GroupVersionKind][key], child)
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return utilerrors.NewAggregate(errs)
}

func (c *controller) delete(ctx context.Context, k kind, child *unstructured.Unstructured) error {
	uid := child.GetUID()
	background := metav1.DeletePropagationBackground
	err := c.on(k, child.GetNamespace()).Delete(ctx, child.GetName(), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("can't delete %s %s: %w", k.Kind, keyOf(child), err)
	}
	c.applied.drop(memoryKey(k, child))
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
	if k.method != "InPlace" {
		return nil
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
	if observed != nil {
		if c.applied.skips(key, hash, observed.Object) {
			return nil
		}
		if k.method != "InPlace" {
			c.applied.set(key, apply.Remember(hash, observed.Object))
			return nil
		}
		if _, left := observed.GetAnnotations()[apply.LastApplied]; left { // from dynamic mode
			patch := []byte(`[{"op":"remove","path":"/metadata/annotations/metacontroller.k8s.io~1last-applied-configuration"}]`)
			_, err := client.Patch(ctx, desired.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	body, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("cannot encode %s %s: %w", k.Kind, keyOf(desired), err)
	}
	force := true
	result, err := client.Patch(ctx, desired.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.applied.set(key, apply.Remember(hash, result.Object))
	return nil
}

// writeStatus replaces the status of the live parent, stamped with the generation
// that the hook saw. A conflict is tried again a few times and then swallowed.
func (c *controller) writeStatus(ctx context.Context, parent *unstructured.Unstructured, status map[string]any) error {
	if status == nil {
		status = map[string]any{}
	}
	status["observedGeneration"] = parent.GetGeneration()
	client := c.on(c.parent, parent.GetNamespace())
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := client.Get(ctx, parent.GetName(), getOptions)
		if err != nil {
			return err
		}
		if live.GetUID() != parent.GetUID() || apply.Equal(live.Object["status"], status) {
			return nil
		}
		live.Object["status"] = status
		_, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
