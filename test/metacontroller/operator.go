package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"greyrelease.example.com/test/sim/apply"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

var compositeControllers = schema.GroupVersionResource{Group: "metacontroller.k8s.io", Version: "v1alpha1", Resource: "compositecontrollers"}

// composite is what is used of a CompositeController.
type composite struct {
	Spec struct {
		GenerateSelector bool `json:"generateSelector"`
		ParentResource   struct {
			resourceRule        `json:",inline"`
			IgnoreStatusChanges bool `json:"ignoreStatusChanges"`
		} `json:"parentResource"`
		ChildResources []struct {
			resourceRule   `json:",inline"`
			UpdateStrategy struct {
				Method string `json:"method"`
			} `json:"updateStrategy"`
		} `json:"childResources"`
		ResyncPeriodSeconds int32 `json:"resyncPeriodSeconds"`
		Hooks               struct {
			Sync      *hook `json:"sync"`
			Customize *hook `json:"customize"`
		} `json:"hooks"`
	} `json:"spec"`
}

type resourceRule struct {
	APIVersion string `json:"apiVersion"`
	Resource   string `json:"resource"`
}

// operator runs one controller for each CompositeController.
type operator struct {
	client   dynamic.Interface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	events   record.EventRecorder
	strategy string
	workers  int
	// applied outlives a controller: an edit of the CompositeController does not
	// make server-side mode forget.
	applied *lastApplied

	mu      sync.Mutex
	running map[string]*controller
}

func (o *operator) run(ctx context.Context) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(o.client, 0)
	informer := factory.ForResource(compositeControllers).Informer()
	changed := func(obj any) { o.reconcile(ctx, obj.(*unstructured.Unstructured)) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			o.stop(obj.(*unstructured.Unstructured).GetName())
		},
	})
	if err != nil {
		return fmt.Errorf("cannot watch CompositeControllers: %w", err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	o.mu.Lock()
	names := make([]string, 0, len(o.running))
	for name := range o.running {
		names = append(names, name)
	}
	o.mu.Unlock()
	for _, name := range names {
		o.stop(name)
	}
	return nil
}

// reconcile starts a controller, anew if the spec has changed. One that cannot
// start, because the API of a child is not there, is tried again every second.
func (o *operator) reconcile(ctx context.Context, cc *unstructured.Unstructured) {
	o.mu.Lock()
	c := o.running[cc.GetName()]
	o.mu.Unlock()
	if c != nil && apply.Equal(c.raw.Object["spec"], cc.Object["spec"]) {
		return
	}
	o.stop(cc.GetName())
	c, err := newController(o, cc)
	if err != nil {
		klog.ErrorS(err, "cannot start controller", "name", cc.GetName())
		o.events.Eventf(cc, corev1.EventTypeWarning, "CreateError", "Cannot create new controller: %s", err)
		time.AfterFunc(time.Second, func() {
			if live, err := o.client.Resource(compositeControllers).Get(ctx, cc.GetName(), getOptions); err == nil {
				o.reconcile(ctx, live)
			}
		})
		return
	}
	o.mu.Lock()
	o.running[cc.GetName()] = c
	o.mu.Unlock()
	c.start(ctx)
}

func (o *operator) stop(name string) {
	o.mu.Lock()
	c := o.running[name]
	delete(o.running, name)
	o.mu.Unlock()
	if c != nil {
		c.stop()
	}
}

// kind is a resource as discovery describes it.
type kind struct {
	schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
	method     string // of updates, for kinds of children
}

func (k kind) groupKey() string {
	if k.Group == "" {
		return k.Kind + "." + k.Version
	}
	return k.Kind + "." + k.Group + "/" + k.Version
}

// kind finds a resource. What is not known is looked for anew.
func (o *operator) kind(rule resourceRule) (kind, error) {
	version, err := schema.ParseGroupVersion(rule.APIVersion)
	if err != nil {
		return kind{}, fmt.Errorf("cannot read apiVersion: %w", err)
	}
	resource := version.WithResource(rule.Resource)
	gvk, err := o.mapper.KindFor(resource)
	if err != nil {
		o.mapper.Reset()
		gvk, err = o.mapper.KindFor(resource)
	}
	if err != nil {
		return kind{}, fmt.Errorf("cannot find resource %s in %s: %w", rule.Resource, rule.APIVersion, err)
	}
	mapping, err := o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return kind{}, fmt.Errorf("cannot find resource %s in %s: %w", rule.Resource, rule.APIVersion, err)
	}
	return kind{gvk, mapping.Resource, mapping.Scope.Name() == "namespace", ""}, nil
}

func decodeComposite(cc *unstructured.Unstructured) (*composite, error) {
	var c composite
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cc.Object, &c); err != nil {
		return nil, fmt.Errorf("cannot read CompositeController: %w", err)
	}
	switch {
	case c.Spec.Hooks.Sync == nil:
		return nil, errors.New("no sync hook defined")
	case !c.Spec.GenerateSelector:
		return nil, errors.New("only generated selectors are supported")
	}
	return &c, nil
}
