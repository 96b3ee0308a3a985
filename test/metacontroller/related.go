package main

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// relatedRule selects objects to send along.
type relatedRule struct {
	resourceRule      `json:",inline"`
	LabelSelector     *metav1.LabelSelector `json:"labelSelector"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	Namespace         string                `json:"namespace"`
	Names             []string              `json:"names"`
}

// check refuses what cannot be combined.
func (r relatedRule) check() error {
	switch {
	case len(r.Names) > 0 && (r.LabelSelector != nil || r.NamespaceSelector != nil):
		return fmt.Errorf("related rule cannot have both names and labelSelector/namespaceSelector specified: %#v", &r)
	case r.Namespace != "" && r.NamespaceSelector != nil:
		return fmt.Errorf("related rule cannot have both namespace and namespaceSelector specified: %#v", &r)
	}
	return nil
}

// selector returns what tells whether a rule of the parent selects an object of the
// rule's kind. Under v1 a parent in a namespace sees nothing of another one; under
// v2 it does. An error is of the rule, whatever the object; listing says whether
// objects are being listed for a request or a change of one is looked at.
func (z *customize) selector(rule relatedRule, k kind, parent *unstructured.Unstructured, listing bool) (func(*unstructured.Unstructured) bool, error) {
	if err := rule.check(); err != nil {
		return nil, err
	}
	byLabels, err := selectorOf(rule.LabelSelector)
	if err != nil {
		return nil, err
	}
	confined := z.hook().version() == v1 && z.c.parent.namespaced
	var inNamespace func(string) bool
	switch {
	case rule.NamespaceSelector != nil:
		if inNamespace, err = z.namespaces(rule, k, confined); err != nil {
			return nil, err
		}
	case confined && rule.Namespace != "" && rule.Namespace != parent.GetNamespace() && (k.namespaced || !listing):
		return nil, fmt.Errorf("requested related object namespace %s differs from parent object namespace %s", rule.Namespace, parent.GetNamespace())
	case confined && listing && len(rule.Names) > 0:
		// The request leaves out what is elsewhere, if the sync hook has that version too.
		inNamespace = func(string) bool { return true }
	case confined:
		inNamespace = func(namespace string) bool { return namespace == parent.GetNamespace() }
	default:
		inNamespace = func(namespace string) bool { return rule.Namespace == "" || namespace == rule.Namespace }
	}
	return func(u *unstructured.Unstructured) bool {
		return (!k.namespaced || inNamespace(u.GetNamespace())) && byLabels.Matches(labels.Set(u.GetLabels())) &&
			(len(rule.Names) == 0 || slices.Contains(rule.Names, u.GetName()))
	}, nil
}

// namespaces selects namespaces by their labels.
func (z *customize) namespaces(rule relatedRule, k kind, confined bool) (func(string) bool, error) {
	switch {
	case confined && k.namespaced:
		return nil, errors.New("namespaceSelector is not supported for namespaced parent in v1 hook version")
	case !k.namespaced:
		return nil, errors.New("namespaceSelector is only supported for namespaced related resources")
	}
	bySelector, err := selectorOf(rule.NamespaceSelector)
	if err != nil {
		return nil, err
	}
	informer := z.c.factory.ForResource(namespaceResource).Informer()
	if !informer.HasSynced() {
		return nil, errNotSynced
	}
	return func(namespace string) bool {
		obj, exists, err := informer.GetStore().GetByKey(cache.NewObjectName("", namespace).String())
		return err == nil && exists && bySelector.Matches(labels.Set(obj.(*unstructured.Unstructured).GetLabels()))
	}, nil
}

func selectorOf(selector *metav1.LabelSelector) (labels.Selector, error) {
	if selector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(selector)
}
