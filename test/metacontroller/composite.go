package main

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// composite is what is used of a CompositeController.
type composite struct {
	Spec struct {
		GenerateSelector bool `json:"generateSelector"`
		ParentResource   struct {
			resourceRule        `json:",inline"`
			LabelSelector       *metav1.LabelSelector `json:"labelSelector"`
			IgnoreStatusChanges bool                  `json:"ignoreStatusChanges"`
		} `json:"parentResource"`
		ChildResources []struct {
			resourceRule   `json:",inline"`
			UpdateStrategy struct {
				Method string `json:"method"`
			} `json:"updateStrategy"`
		} `json:"childResources"`
		EndpointConfigs     []endpointConfig `json:"endpointConfigs"`
		ResyncPeriodSeconds *int32           `json:"resyncPeriodSeconds"`
		Hooks               struct {
			Sync      *hook `json:"sync"`
			Finalize  *hook `json:"finalize"`
			Customize *hook `json:"customize"`
		} `json:"hooks"`
	} `json:"spec"`
}

type resourceRule struct {
	APIVersion string `json:"apiVersion"`
	Resource   string `json:"resource"`
}

// The update methods.
const (
	onDelete = "OnDelete"
	recreate = "Recreate"
	inPlace  = "InPlace"
)

// decodeComposite reads a CompositeController. One that asks for what the double
// does not do is refused: nothing may look as if it were tested.
func decodeComposite(cc *unstructured.Unstructured) (*composite, error) {
	var c composite
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cc.Object, &c); err != nil {
		return nil, fmt.Errorf("cannot read CompositeController: %w", err)
	}
	switch {
	case c.Spec.Hooks.Sync == nil:
		return nil, errors.New("the double needs a sync hook")
	case !c.Spec.GenerateSelector:
		return nil, errors.New("the double has generated selectors only")
	case c.Spec.ParentResource.LabelSelector != nil:
		return nil, errors.New("the double has no selectors on parents")
	}
	for _, h := range []*hook{c.Spec.Hooks.Sync, c.Spec.Hooks.Finalize, c.Spec.Hooks.Customize} {
		if h == nil {
			continue
		}
		if err := h.check(); err != nil {
			return nil, err
		}
	}
	for _, child := range c.Spec.ChildResources {
		switch child.UpdateStrategy.Method {
		case "", onDelete, recreate, inPlace:
		default:
			return nil, fmt.Errorf("the double has no update method %s", child.UpdateStrategy.Method)
		}
	}
	return &c, nil
}

// shown is a CompositeController as hooks see it: some structures are there even
// if they are empty.
func shown(cc *unstructured.Unstructured) map[string]any {
	object := cc.DeepCopy().Object
	if object["status"] == nil {
		object["status"] = map[string]any{}
	}
	children, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "childResources")
	list, _ := children.([]any)
	for _, child := range list {
		strategy, ok, _ := unstructured.NestedFieldNoCopy(child.(map[string]any), "updateStrategy")
		if fields, isMap := strategy.(map[string]any); ok && isMap && fields["statusChecks"] == nil {
			fields["statusChecks"] = map[string]any{}
		}
	}
	return object
}
