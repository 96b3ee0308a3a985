package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/gateway"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// object is a JSON object.
type object = map[string]any

// change is an object as it was stored, or that it is gone.
type change struct {
	kind, name string
	version    uint64 // of the whole store, by which changes of all kinds are in order
	at         time.Time
	gone       bool
	object     any
}

// route is what matters of an HTTPRoute: the weights of each rule, by Service.
type route struct {
	labels map[string]string
	rules  []map[string]int
}

// Resources that are watched, in the order in which they are listed: pods before the
// Deployments that make them, and releases, which say what is promised, last.
var (
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	releases    = schema.GroupVersionResource{Group: "greyrelease.example.com", Version: "v1", Resource: "greyreleases"}

	watched = []schema.GroupVersionResource{pods, deployments, configMaps, gateway.HTTPRoutes, releases}
)

// delay is how long changes are held back, to bring those of all kinds into the order in
// which they were stored.
const delay = 1500 * time.Millisecond

// feed follows all objects of a namespace. A watch that was broken off goes on where it
// was; where that is too long ago all objects are listed anew, and taken in one step.
type feed struct {
	client    dynamic.Interface
	namespace string
	see       func(change)
	reset     func([]change, time.Time)
	tick      func(time.Time)
	note      func(format string, args ...any)

	mu      sync.Mutex
	waiting []change
	last    uint64
	late    int // changes that came after later ones
}

// run follows until the context ends.
func (f *feed) run(ctx context.Context) {
	for ctx.Err() == nil {
		all, from, err := f.list(ctx)
		if err != nil {
			f.note("cannot list: %v", err)
			pause(ctx, 200*time.Millisecond)
			continue
		}
		f.flush(time.Time{})
		f.reset(all, time.Now())
		f.follow(ctx, from)
	}
}

func (f *feed) list(ctx context.Context) ([]change, map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var all []change
	from := map[string]string{}
	for _, resource := range watched {
		list, err := f.client.Resource(resource).Namespace(f.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("cannot list %s: %w", resource.Resource, err)
		}
		from[resource.Resource] = list.GetResourceVersion()
		for i := range list.Items {
			c, err := asChange(resource, &list.Items[i], false)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, c)
		}
	}
	return all, from, nil
}

// follow watches all kinds until one of them can't go on.
func (f *feed) follow(ctx context.Context, from map[string]string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watches sync.WaitGroup
	for _, resource := range watched {
		watches.Go(func() {
			defer cancel()
			f.watch(ctx, resource, from[resource.Resource])
		})
	}
	watches.Go(func() {
		for ctx.Err() == nil {
			pause(ctx, 100*time.Millisecond)
			now := time.Now().Add(-delay)
			f.flush(now)
			f.tick(now)
		}
	})
	watches.Wait()
}

// watch follows one kind until it can't go on from where it was.
func (f *feed) watch(ctx context.Context, resource schema.GroupVersionResource, version string) {
	for ctx.Err() == nil {
		seconds := int64(600)
		w, err := f.client.Resource(resource).Namespace(f.namespace).Watch(ctx, metav1.ListOptions{
			ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
		})
		if err != nil {
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return
			}
			pause(ctx, 200*time.Millisecond)
			continue
		}
		last, expired := f.take(w, resource, version)
		w.Stop()
		if expired {
			return
		}
		version = last
	}
}

// take takes the changes of one watch, and returns how far it came.
func (f *feed) take(w watch.Interface, resource schema.GroupVersionResource, version string) (string, bool) {
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			err := apierrors.FromObject(event.Object)
			return version, apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
		}
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return version, true
		}
		version = u.GetResourceVersion()
		if event.Type == watch.Bookmark {
			continue
		}
		c, err := asChange(resource, u, event.Type == watch.Deleted)
		if err != nil {
			return version, true
		}
		f.mu.Lock()
		f.waiting = append(f.waiting, c)
		f.mu.Unlock()
	}
	return version, false
}

// flush passes on what came before an instant, in order; everything for the zero one.
func (f *feed) flush(until time.Time) {
	f.mu.Lock()
	slices.SortStableFunc(f.waiting, func(a, b change) int {
		switch {
		case a.version < b.version:
			return -1
		case a.version > b.version:
			return 1
		}
		return 0
	})
	// What was stored before something that is due is due as well.
	due := 0
	for i, c := range f.waiting {
		if until.IsZero() || !c.at.After(until) {
			due = i + 1
		}
	}
	now := f.waiting[:due]
	f.waiting = slices.Clone(f.waiting[due:])
	f.mu.Unlock()
	for _, c := range now {
		if c.version < f.last {
			f.late++
		}
		f.last = max(f.last, c.version)
		f.see(c)
	}
}

func asChange(resource schema.GroupVersionResource, u *unstructured.Unstructured, gone bool) (change, error) {
	version, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return change{}, fmt.Errorf("cannot read the version of %s: %w", u.GetName(), err)
	}
	c := change{kind: resource.Resource, name: u.GetName(), version: version, at: time.Now(), gone: gone}
	switch resource {
	case pods:
		c.object = &corev1.Pod{}
	case deployments:
		c.object = &appsv1.Deployment{}
	case configMaps:
		c.object = &corev1.ConfigMap{}
	case releases:
		c.object = &greyrelease.GreyRelease{}
	case gateway.HTTPRoutes:
		c.object = asRoute(u)
		return c, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c.object); err != nil {
		return change{}, fmt.Errorf("cannot read %s %s: %w", resource.Resource, u.GetName(), err)
	}
	return c, nil
}

func asRoute(u *unstructured.Unstructured) *route {
	r := &route{labels: u.GetLabels()}
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
	for _, rule := range rules {
		rule, _ := rule.(object)
		refs, _, _ := unstructured.NestedSlice(rule, "backendRefs")
		weights := map[string]int{}
		for _, ref := range refs {
			ref, _ := ref.(object)
			name, _ := ref["name"].(string)
			weight := int64(1)
			if w, ok := ref["weight"].(int64); ok {
				weight = w
			}
			weights[name] += int(weight)
		}
		if len(refs) > 1 {
			r.rules = append(r.rules, weights)
		}
	}
	return r
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
