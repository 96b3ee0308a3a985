package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"greyrelease.example.com/test/sim/apply"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// uidLabel ties children to their parent under a generated selector.
const uidLabel = "controller-uid"

var getOptions = metav1.GetOptions{}

// controller carries out one CompositeController.
type controller struct {
	*operator
	raw       *unstructured.Unstructured
	composite *composite
	parent    kind
	children  []kind // in the order of the CompositeController, in which they are claimed
	methods   map[schema.GroupKind]string

	factory   dynamicinformer.DynamicSharedInformerFactory
	queue     workqueue.TypedRateLimitingInterface[string]
	customize *customize
	cancel    context.CancelFunc
	ended     sync.WaitGroup
}

func newController(o *operator, cc *unstructured.Unstructured) (*controller, error) {
	spec, err := decodeComposite(cc)
	if err != nil {
		return nil, err
	}
	c := &controller{
		operator: o, raw: cc, composite: spec, methods: map[schema.GroupKind]string{},
		factory: dynamicinformer.NewDynamicSharedInformerFactory(o.client, o.resync),
	}
	if c.parent, err = o.kind(spec.Spec.ParentResource.resourceRule); err != nil {
		return nil, err
	}
	for _, child := range spec.Spec.ChildResources {
		k, err := o.kind(child.resourceRule)
		if err != nil {
			return nil, fmt.Errorf("can't create informer for child resource: can't create client for %s.%s shared informer: %w", child.Resource, child.APIVersion, err)
		}
		c.children = append(c.children, k)
		c.methods[k.GroupKind()] = child.UpdateStrategy.Method
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	c.customize = newCustomize(c)
	return c, nil
}

// method is how children of a kind are updated.
func (c *controller) method(k kind) string { return cmp.Or(c.methods[k.GroupKind()], onDelete) }

// resyncPeriod is how often all parents are synced: as the CompositeController
// says, but at least once a second at most, or with all caches.
func (c *controller) resyncPeriod() time.Duration {
	if seconds := c.composite.Spec.ResyncPeriodSeconds; seconds != nil {
		return min(max(time.Second, time.Duration(*seconds)*time.Second), c.resync)
	}
	return c.resync
}

// start fills the caches and then syncs until stop.
func (c *controller) start(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	handlers := cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: c.parentUpdated,
		DeleteFunc: c.enqueue,
	}
	// An informer refuses a handler or an index only once it has started or stopped.
	_, _ = c.factory.ForResource(c.parent.resource).Informer().AddEventHandlerWithResyncPeriod(handlers, c.resyncPeriod())
	synced := []cache.InformerSynced{c.factory.ForResource(c.parent.resource).Informer().HasSynced}
	for _, k := range c.children {
		informer := c.factory.ForResource(k.resource).Informer()
		_ = informer.AddIndexers(cache.Indexers{byController: controllerOf})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    c.childChanged,
			UpdateFunc: c.childUpdated,
			DeleteFunc: c.childDeleted,
		})
		synced = append(synced, informer.HasSynced)
	}
	if c.composite.Spec.Hooks.Customize != nil {
		c.factory.ForResource(namespaceResource).Informer()
	}
	c.factory.Start(ctx.Done())
	c.ended.Go(func() {
		c.events.Eventf(c.raw, corev1.EventTypeNormal, "Starting", "Starting controller: %s", c.raw.GetName())
		defer c.events.Eventf(c.raw, corev1.EventTypeNormal, "Stopping", "Stopping controller: %s", c.raw.GetName())
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			return
		}
		klog.InfoS("caches are filled", "controller", c.raw.GetName())
		var workers sync.WaitGroup
		for range c.workers {
			workers.Go(func() {
				wait.UntilWithContext(ctx, func(ctx context.Context) {
					for c.next(ctx) {
					}
				}, time.Second)
			})
		}
		workers.Wait()
	})
}

func (c *controller) stop() {
	c.cancel()
	c.queue.ShutDown()
	c.ended.Wait()
	c.factory.Shutdown()
}

// next syncs one parent. False means that the queue is closed.
func (c *controller) next(ctx context.Context) bool {
	key, closed := c.queue.Get()
	if closed {
		return false
	}
	defer c.queue.Done(key)
	err := c.sync(ctx, key)
	var busy *tooManyRequests
	switch {
	case err == nil:
		c.queue.Forget(key)
	case errors.As(err, &busy):
		c.queue.AddAfter(key, busy.after)
	default:
		klog.ErrorS(err, "sync failed", "key", key)
		c.queue.AddRateLimited(key)
	}
	return true
}

func (c *controller) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	parent := c.cached(c.parent, namespace, name)
	if parent == nil {
		return nil
	}
	err = c.syncParent(ctx, parent)
	var busy *tooManyRequests
	if err != nil && !errors.As(err, &busy) && !errors.Is(err, errNotSynced) {
		c.events.Eventf(parent, corev1.EventTypeWarning, "SyncError", "Sync error: %s", err)
	}
	return err
}

// syncParent is one pass: hold, claim, ask, delete, create and update, write status.
func (c *controller) syncParent(ctx context.Context, parent *unstructured.Unstructured) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := parent.GetKind() + " " + nameOf(parent)
	parent, err := c.syncFinalizer(ctx, parent)
	if err != nil {
		return fmt.Errorf("can't sync finalizer for %s: %w", name, err)
	}
	observed, err := c.claim(ctx, parent)
	if err != nil {
		return err
	}
	related, err := c.customize.related(ctx, parent)
	if err != nil {
		return err
	}
	answer, err := c.ask(ctx, parent, observed, related)
	if err != nil {
		return fmt.Errorf("sync hook failed for %s: %w", name, err)
	}
	if answer.ResyncAfterSeconds > 0 {
		c.queue.AddAfter(keyOf(parent), time.Duration(answer.ResyncAfterSeconds*float64(time.Second)))
	}
	if answer.Finalized {
		// The parent as it is now: its generation may be newer than what the hook saw.
		if parent, err = c.removeFinalizer(ctx, parent); err != nil {
			return fmt.Errorf("can't remove finalizer for %s: %w", name, err)
		}
	}
	desired, err := complete(parent, answer.Children)
	if err != nil {
		return err
	}
	var failed error
	if c.manages(parent) {
		if err := c.manage(ctx, parent, observed, desired); err != nil {
			failed = fmt.Errorf("can't reconcile children for %s: %w", name, err)
		}
	}
	err = c.writeStatus(ctx, parent, answer.Status)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Swallowed, and what went wrong with the children with it.
		return nil
	case err != nil:
		return fmt.Errorf("can't update status for %s: %w", name, err)
	}
	return failed
}

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

// cached is an object in a cache, nil if it is not there. It may not be written to.
func (c *controller) cached(k kind, namespace, name string) *unstructured.Unstructured {
	obj, exists, err := c.factory.ForResource(k.resource).Informer().GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !exists {
		return nil
	}
	return obj.(*unstructured.Unstructured)
}

// on is the client for a kind in a namespace.
func (c *controller) on(k kind, namespace string) dynamic.ResourceInterface {
	if !k.namespaced || namespace == "" {
		return c.client.Resource(k.resource)
	}
	return c.client.Resource(k.resource).Namespace(namespace)
}

func keyOf(u *unstructured.Unstructured) string {
	return cache.NewObjectName(u.GetNamespace(), u.GetName()).String()
}

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
