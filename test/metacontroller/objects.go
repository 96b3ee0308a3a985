package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// objects are objects by kind and namespace/name. Every kind of child has a group.
type objects map[schema.GroupVersionKind]map[string]*unstructured.Unstructured

func (o objects) add(u *unstructured.Unstructured) {
	gvk := u.GroupVersionKind()
	if o[gvk] == nil {
		o[gvk] = map[string]*unstructured.Unstructured{}
	}
	o[gvk][keyOf(u)] = u
}

// kinds are the kinds in the order in which they are managed.
func (o objects) kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(o), func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
}

// complete gives desired children their namespace and the label that ties them to
// the parent. Of two of one name the later one stands.
func complete(parent *unstructured.Unstructured, children []*unstructured.Unstructured) (objects, error) {
	desired := objects{}
	for _, child := range children {
		if child.GetNamespace() == "" {
			child.SetNamespace(parent.GetNamespace())
		}
		desired.add(child)
	}
	for _, group := range desired {
		for _, child := range group {
			labels, _, err := unstructured.NestedStringMap(child.Object, "metadata", "labels")
			if err != nil {
				return nil, fmt.Errorf("invalid labels on desired child %s %s: %w", child.GetKind(), nameOf(child), err)
			}
			if labels == nil {
				labels = map[string]string{}
			}
			if _, ok := labels[uidLabel]; !ok {
				labels[uidLabel] = string(parent.GetUID())
				child.SetLabels(labels)
			}
			if labels[uidLabel] != string(parent.GetUID()) {
				return nil, fmt.Errorf("labels on desired child %s %s don't match parent selector", child.GetKind(), nameOf(child))
			}
		}
	}
	return desired, nil
}

// nameOf is how errors name an object: with a slash even without a namespace.
func nameOf(u *unstructured.Unstructured) string { return u.GetNamespace() + "/" + u.GetName() }
