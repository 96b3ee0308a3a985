package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

func newController(ctx context.Context, o *operator, cc *unstructured.Unstructured) (*controller, error) {
	spec, err := decodeComposite(cc)
	if err != nil {
		return nil, err
	}
	for _, h := range []struct {
		what string
		hook *hook
	}{{"sync", spec.Spec.Hooks.Sync}, {"finalize", spec.Spec.Hooks.Finalize}, {"customize", spec.Spec.Hooks.Customize}} {
		if h.hook == nil {
			continue
		}
		if err := h.hook.connect(reader{ctx, o.client}, spec.Spec.EndpointConfigs); err != nil {
			return nil, fmt.Errorf("can't resolve endpoint config for %s hook: %w", h.what, err)
		}
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
