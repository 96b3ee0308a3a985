package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"greyrelease.example.com/test/sim/apply"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

var compositeControllers = schema.GroupVersionResource{Group: "metacontroller.k8s.io", Version: "v1alpha1", Resource: "compositecontrollers"}

// settings are what the flags say.
type settings struct {
	strategy     string
	fieldManager string
	workers      int
	resync       time.Duration // of all caches
	discovery    time.Duration // between two looks at what kinds there are
}

// operator runs one controller for each CompositeController.
type operator struct {
	settings
	client dynamic.Interface
	events record.EventRecorder
	// applied outlives a controller: an edit of the CompositeController does not
	// make server-side mode forget.
	applied *lastApplied

	mapperMu sync.Mutex
	mapper   meta.ResettableRESTMapper
	looked   time.Time

	running map[string]*controller // touched by run alone
}

func (o *operator) run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := dynamicinformer.NewDynamicSharedInformerFactory(o.client, o.resync)
	informer := factory.ForResource(compositeControllers).Informer()
	changed := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			queue.Add(key)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("cannot watch CompositeControllers: %w", err)
	}
	factory.Start(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		name, closed := queue.Get()
		if closed {
			break
		}
		if err := o.reconcile(ctx, informer.GetStore(), name); err != nil {
			klog.ErrorS(err, "cannot start controller", "name", name)
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
	for name := range o.running {
		o.stop(name)
	}
	return nil
}

// reconcile starts a controller, anew if the spec has changed. One that cannot
// start, because the API of a child is not there, is tried again later.
func (o *operator) reconcile(ctx context.Context, store cache.Store, name string) error {
	obj, exists, err := store.GetByKey(name)
	if err != nil {
		return err
	}
	c := o.running[name]
	if !exists {
		if c != nil {
			o.stop(name)
			o.events.Eventf(c.raw, corev1.EventTypeNormal, "Stopped", "Stopped controller: %s", name)
		}
		return nil
	}
	cc := obj.(*unstructured.Unstructured)
	if c != nil && apply.Equal(c.raw.Object["spec"], cc.Object["spec"]) {
		return nil
	}
	if c != nil {
		o.stop(name)
		o.events.Eventf(cc, corev1.EventTypeNormal, "Stopped", "Stopped controller: %s", name)
	}
	c, err = newController(ctx, o, cc)
	if err != nil {
		o.events.Eventf(cc, corev1.EventTypeWarning, "CreateError", "Cannot create new controller: %s", err)
		return err
	}
	c.start(ctx)
	o.events.Eventf(cc, corev1.EventTypeNormal, "Started", "Started controller: %s", name)
	o.running[name] = c
	return nil
}

func (o *operator) stop(name string) {
	c := o.running[name]
	delete(o.running, name)
	c.stop()
}

// kind is a resource as discovery describes it.
type kind struct {
	schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
}

func (k kind) groupKey() string {
	if k.Group == "" {
		return k.Kind + "." + k.Version
	}
	return k.Kind + "." + k.Group + "/" + k.Version
}

// kind finds the kind of a resource. What is not known is looked for anew.
func (o *operator) kind(rule resourceRule) (kind, error) {
	version, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil {
		return kind{}, fmt.Errorf("can't parse child resource groupVersion: %w", err)
	}
	gvk, err := o.mapper.KindFor(version.WithResource(rule.Resource))
	if err != nil {
		o.look(0)
		gvk, err = o.mapper.KindFor(version.WithResource(rule.Resource))
	}
	if err != nil {
		return kind{}, fmt.Errorf("discovery: can't find resource %s in apiVersion %s", rule.Resource, rule.APIVersion)
	}
	return o.described(gvk)
}

// described finds the resource of a kind. What is not known may have become known
// since the last look.
func (o *operator) described(gvk schema.GroupVersionKind) (kind, error) {
	mapping, err := o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil && o.look(o.discovery) {
		mapping, err = o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return kind{}, fmt.Errorf("discovery: can't find kind %s in apiVersion %s", gvk.Kind, gvk.GroupVersion())
	}
	return kind{gvk, mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// look has discovery asked again, unless that was done not long ago.
func (o *operator) look(interval time.Duration) bool {
	o.mapperMu.Lock()
	defer o.mapperMu.Unlock()
	if time.Since(o.looked) < interval {
		return false
	}
	o.looked = time.Now()
	o.mapper.Reset()
	return true
}
