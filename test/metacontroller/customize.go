package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// kept is how long an answer of the customize hook is kept.
const kept = 20 * time.Minute

// namespaceResource is watched wherever there is a customize hook.
var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// errNotSynced means that a cache of related objects is still being filled. The
// sync is tried again, without an event.
var errNotSynced = errors.New("related informer not synced yet")

// customize asks the customize hook which objects to send along with a parent.
type customize struct {
	c  *controller
	mu sync.Mutex
	// answers are kept by uid and generation, so an answer may depend on nothing
	// but the uid and the spec.
	answers map[customizeKey]customizeAnswer
	watched map[resourceRule]kind
}

type customizeKey struct {
	uid        string
	generation int64
}

type customizeAnswer struct {
	rules []relatedRule
	at    time.Time
}

func newCustomize(c *controller) *customize {
	return &customize{c: c, answers: map[customizeKey]customizeAnswer{}, watched: map[resourceRule]kind{}}
}

// related returns the objects that the hook wants to see, none without a hook.
func (z *customize) related(ctx context.Context, parent *unstructured.Unstructured) (objects, error) {
	found := objects{}
	if z.hook() == nil {
		return found, nil
	}
	rules, err := z.rules(ctx, parent)
	if err != nil {
		return nil, err
	}
	for _, rule := range rules {
		k, err := z.watch(ctx, rule.resourceRule)
		if err != nil {
			return nil, err
		}
		selects, err := z.selector(rule, k, parent, true)
		if err != nil {
			return nil, err
		}
		if found[k.GroupVersionKind] == nil {
			found[k.GroupVersionKind] = map[string]*unstructured.Unstructured{}
		}
		for _, obj := range z.c.factory.ForResource(k.resource).Informer().GetStore().List() {
			if u := obj.(*unstructured.Unstructured); selects(u) {
				found.add(u)
			}
		}
	}
	return found, nil
}

func (z *customize) hook() *hook { return z.c.composite.Spec.Hooks.Customize }

// rules is the hook's answer for the parent.
func (z *customize) rules(ctx context.Context, parent *unstructured.Unstructured) ([]relatedRule, error) {
	if rules, ok := z.known(parent); ok {
		return rules, nil
	}
	var response struct {
		RelatedResources []relatedRule `json:"relatedResources"`
	}
	request := map[string]any{"controller": shown(z.c.raw), "parent": parent.Object}
	if err := z.hook().call(ctx, "customize", request, &response); err != nil {
		return nil, err
	}
	z.mu.Lock()
	z.answers[keyFor(parent)] = customizeAnswer{response.RelatedResources, time.Now()}
	z.mu.Unlock()
	return response.RelatedResources, nil
}

// known is an answer that was given before.
func (z *customize) known(parent *unstructured.Unstructured) ([]relatedRule, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	answer, ok := z.answers[keyFor(parent)]
	return answer.rules, ok && time.Since(answer.at) < kept
}

func keyFor(parent *unstructured.Unstructured) customizeKey {
	return customizeKey{string(parent.GetUID()), parent.GetGeneration()}
}

// watch returns the kind of a rule once its cache is filled.
func (z *customize) watch(ctx context.Context, rule resourceRule) (kind, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	k, ok := z.watched[rule]
	if !ok {
		var err error
		if k, err = z.c.kind(rule); err != nil {
			return kind{}, err
		}
		changed := func(objs ...any) { z.changed(ctx, k, objs...) }
		informer := z.c.factory.ForResource(k.resource).Informer()
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { changed(obj) },
			UpdateFunc: func(old, obj any) {
				if old.(*unstructured.Unstructured).GetResourceVersion() != obj.(*unstructured.Unstructured).GetResourceVersion() {
					changed(old, obj)
				}
			},
			DeleteFunc: func(obj any) { changed(obj) },
		})
		if err != nil {
			return kind{}, fmt.Errorf("can't create informer for related resource: %w", err)
		}
		z.c.factory.Start(ctx.Done())
		z.watched[rule] = k
	}
	if !z.c.factory.ForResource(k.resource).Informer().HasSynced() {
		return kind{}, errNotSynced
	}
	return k, nil
}

// changed syncs the parents whose rules select one of the related objects. The
// hook is asked for those that it has not answered for. A rule that cannot be
// carried out selects nothing.
func (z *customize) changed(ctx context.Context, k kind, objs ...any) {
	for _, obj := range z.c.factory.ForResource(z.c.parent.resource).Informer().GetStore().List() {
		parent := obj.(*unstructured.Unstructured)
		rules, err := z.rules(ctx, parent)
		if err != nil {
			continue // a sync of the parent tells of it
		}
		if slices.ContainsFunc(rules, func(rule relatedRule) bool {
			if rule.APIVersion != k.GroupVersion().String() || rule.Resource != k.resource.Resource {
				return false
			}
			selects, err := z.selector(rule, k, parent, false)
			return err == nil && slices.ContainsFunc(objs, func(obj any) bool { return selects(live(obj)) })
		}) {
			z.c.enqueue(parent)
		}
	}
}

// live is an object, or the last that was seen of it.
func live(obj any) *unstructured.Unstructured {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	return obj.(*unstructured.Unstructured)
}
