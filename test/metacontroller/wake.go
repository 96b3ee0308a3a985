package main

import (
	"greyrelease.example.com/test/sim/apply"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

func (c *controller) enqueue(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		c.queue.Add(key)
	}
}

func (c *controller) parentUpdated(old, obj any) {
	was, is := old.(*unstructured.Unstructured), obj.(*unstructured.Unstructured)
	if c.composite.Spec.ParentResource.IgnoreStatusChanges && was != is && is.GetDeletionTimestamp() == nil &&
		was.GetGeneration() == is.GetGeneration() &&
		apply.Equal(apply.Field(was.Object, "metadata", "labels"), apply.Field(is.Object, "metadata", "labels")) &&
		apply.Equal(apply.Field(was.Object, "metadata", "annotations"), apply.Field(is.Object, "metadata", "annotations")) {
		return
	}
	c.enqueue(obj)
}

func (c *controller) childUpdated(old, obj any) {
	if old.(*unstructured.Unstructured).GetResourceVersion() != obj.(*unstructured.Unstructured).GetResourceVersion() {
		c.childChanged(obj)
	}
}

// childChanged syncs the owner of a child, or whoever may adopt it.
func (c *controller) childChanged(obj any) {
	child := obj.(*unstructured.Unstructured)
	if child.GetDeletionTimestamp() != nil {
		c.childDeleted(child)
		return
	}
	if owner := metav1.GetControllerOf(child); owner != nil {
		c.enqueueOwner(child.GetNamespace(), owner)
		return
	}
	uid := child.GetLabels()[uidLabel]
	if uid == "" {
		return
	}
	for _, obj := range c.factory.ForResource(c.parent.resource).Informer().GetStore().List() {
		parent := obj.(*unstructured.Unstructured)
		if string(parent.GetUID()) == uid && (!c.parent.namespaced || parent.GetNamespace() == child.GetNamespace()) {
			c.enqueue(parent)
		}
	}
}

func (c *controller) childDeleted(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	child, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(child); owner != nil {
		c.enqueueOwner(child.GetNamespace(), owner)
	}
}

// enqueueOwner syncs the owner if the parent of that name has that uid: the
// deletion of an old parent's child wakes nobody.
func (c *controller) enqueueOwner(namespace string, owner *metav1.OwnerReference) {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || version.Group != c.parent.Group || owner.Kind != c.parent.Kind {
		return
	}
	if !c.parent.namespaced {
		namespace = ""
	}
	if parent := c.cached(c.parent, namespace, owner.Name); parent != nil && parent.GetUID() == owner.UID {
		c.enqueue(parent)
	}
}
