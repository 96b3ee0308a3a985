package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// answer is what the sync hook and the finalize hook say.
type answer struct {
	Status             map[string]any               `json:"status"`
	Children           []*unstructured.Unstructured `json:"children"`
	ResyncAfterSeconds float64                      `json:"resyncAfterSeconds"`
	Finalized          bool                         `json:"finalized"`
}

// ask sends a sync request, or a finalize request for a parent that goes.
func (c *controller) ask(ctx context.Context, parent *unstructured.Unstructured, observed, related objects) (*answer, error) {
	h, what, finalizing := c.composite.Spec.Hooks.Sync, "sync", false
	if c.composite.Spec.Hooks.Finalize != nil && parent.GetDeletionTimestamp() != nil {
		h, what, finalizing = c.composite.Spec.Hooks.Finalize, "finalize", true
	}
	request := map[string]any{
		"controller": shown(c.raw),
		"parent":     parent.Object,
		"children":   groups(observed, parent, h.version()),
		"related":    groups(related, parent, h.version()),
		"finalizing": finalizing,
	}
	var a answer
	if err := h.call(ctx, what, request, &a); err != nil {
		return nil, fmt.Errorf("%s hook failed (version=%s): %w", what, h.version(), err)
	}
	return &a, nil
}

// groups names groups and objects as a hook of a version expects it. Under v1 a
// parent in a namespace sees nothing outside it.
func groups(list objects, parent *unstructured.Unstructured, version string) map[string]any {
	named := map[string]any{}
	for gvk, members := range list {
		group := map[string]any{}
		for key, obj := range members {
			if version == v1 && parent.GetNamespace() != "" {
				if obj.GetNamespace() != parent.GetNamespace() {
					continue
				}
				key = obj.GetName()
			}
			group[key] = obj.Object
		}
		named[kind{GroupVersionKind: gvk}.groupKey()] = group
	}
	return named
}
