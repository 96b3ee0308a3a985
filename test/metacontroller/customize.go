package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// kept is how long an answer of the customize hook is kept.
const kept = 20 * time.Minute

// errNotSynced means that a cache of related objects is still being filled. The
// sync is tried again, without an event.
var errNotSynced = errors.New("related informer not synced yet")

// relatedRule selects objects to send along.
type relatedRule struct {
	resourceRule  `json:",inline"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector"`
	Namespace     string                `json:"namespace"`
	Names         []string              `json:"names"`
}

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

// related returns the objects that the hook wants to see, nil without a hook.
func (z *customize) related(ctx context.Context, parent *unstructured.Unstructured) (objects, error) {
	if z.c.composite.Spec.Hooks.Customize == nil {
		return nil, nil
	}
	rules, err := z.rules(ctx, parent)
	if err != nil {
		return nil, err
	}
	found := objects{}
	for _, rule := range rules {
		k, err := z.watch(ctx, rule.resourceRule)
		if err != nil {
			return nil, err
		}
		if found[k.GroupVersionKind] == nil {
			found[k.GroupVersionKind] = map[string]*unstructured.Unstructured{}
		}
		for _, obj := range z.c.factory.ForResource(k.resource).Informer().GetStore().List() {
			u := obj.(*unstructured.Unstructured)
			matches, err := z.matches(rule, parent, u)
			if err != nil {
				return nil, err
			}
			if matches {
				found.add(u)
			}
		}
	}
	return found, nil
}

// rules is the hook's answer for the parent.
func (z *customize) rules(ctx context.Context, parent *unstructured.Unstructured) ([]relatedRule, error) {
	if rules, ok := z.known(parent); ok {
		return rules, nil
	}
	var response struct {
		RelatedResources []relatedRule `json:"relatedResources"`
	}
	request := map[string]any{"controller": z.c.raw.Object, "parent": parent.Object}
	if err := z.c.composite.Spec.Hooks.Customize.call(ctx, request, &response); err != nil {
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
		changed := func(obj any) { z.changed(k, obj) }
		informer := z.c.factory.ForResource(k.resource).Informer()
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: changed,
			UpdateFunc: func(old, obj any) {
				if old.(*unstructured.Unstructured).GetResourceVersion() != obj.(*unstructured.Unstructured).GetResourceVersion() {
					changed(old)
					changed(obj)
				}
			},
			DeleteFunc: changed,
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

// changed syncs the parents that a related object is sent along with, as far as
// the hook has answered for them.
func (z *customize) changed(k kind, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	u := obj.(*unstructured.Unstructured)
	for _, obj := range z.c.factory.ForResource(z.c.parent.resource).Informer().GetStore().List() {
		parent := obj.(*unstructured.Unstructured)
		rules, _ := z.known(parent)
		if slices.ContainsFunc(rules, func(rule relatedRule) bool {
			matches, err := z.matches(rule, parent, u)
			return err == nil && matches && rule.Resource == k.resource.Resource
		}) {
			z.c.enqueue(parent)
		}
	}
}

// matches tells whether a rule of the parent selects the object. A parent in a
// namespace sees nothing outside it.
func (z *customize) matches(rule relatedRule, parent, u *unstructured.Unstructured) (bool, error) {
	if rule.LabelSelector != nil && (rule.Namespace != "" || len(rule.Names) > 0) {
		return false, errors.New("related rule has both labelSelector and names")
	}
	if z.c.parent.namespaced {
		if rule.Namespace != "" && rule.Namespace != parent.GetNamespace() {
			return false, fmt.Errorf("requested related object namespace %s differs from parent object namespace %s", rule.Namespace, parent.GetNamespace())
		}
		if u.GetNamespace() != parent.GetNamespace() {
			return false, nil
		}
	}
	if rule.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(rule.LabelSelector)
		if err != nil {
			return false, fmt.Errorf("cannot read labelSelector: %w", err)
		}
		return selector.Matches(labels.Set(u.GetLabels())), nil
	}
	if rule.Namespace != "" && u.GetNamespace() != rule.Namespace {
		return false, nil
	}
	return len(rule.Names) == 0 || slices.Contains(rule.Names, u.GetName()), nil
}
