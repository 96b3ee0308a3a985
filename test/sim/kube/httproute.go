package kube

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// admitHTTPRoute knows the defaults and rules of the custom resource's schema in
// Gateway API 1.4, those that a route of a release can meet.
func admitHTTPRoute(obj map[string]any) (map[string]any, error) {
	var meta metav1.PartialObjectMetadata
	if err := convert(map[string]any{"metadata": obj["metadata"]}, &meta); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	errs := apivalidation.ValidateObjectMetaAccessor(&meta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	admitted, err := copyOf(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	spec, ok := admitted["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		admitted["spec"] = spec
	}
	defaultRoute(spec)
	errs = append(errs, validateRoute(spec)...)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}, meta.Name, errs)
	}
	return admitted, nil
}

func defaultRoute(spec map[string]any) {
	for _, ref := range objects(spec["parentRefs"]) {
		fill(ref, "group", "gateway.networking.k8s.io")
		fill(ref, "kind", "Gateway")
	}
	everything := func() map[string]any { return map[string]any{"type": "PathPrefix", "value": "/"} }
	fill(spec, "rules", []any{map[string]any{}})
	for _, rule := range objects(spec["rules"]) {
		fill(rule, "matches", []any{map[string]any{}})
		for _, match := range objects(rule["matches"]) {
			fill(match, "path", everything())
			if path, ok := match["path"].(map[string]any); ok {
				fill(path, "type", "PathPrefix")
				fill(path, "value", "/")
			}
			for _, header := range objects(match["headers"]) {
				fill(header, "type", "Exact")
			}
		}
		for _, ref := range objects(rule["backendRefs"]) {
			fill(ref, "group", "")
			fill(ref, "kind", "Service")
			fill(ref, "weight", int64(1))
		}
	}
}

func validateRoute(spec map[string]any) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	refs := map[string]bool{}
	for i, ref := range objects(spec["parentRefs"]) {
		if ref["name"] == nil || ref["name"] == "" {
			errs = append(errs, field.Required(path.Child("parentRefs").Index(i).Child("name"), ""))
		}
		key := fmt.Sprint(ref["group"], ref["kind"], ref["namespace"], ref["name"], ref["sectionName"], ref["port"])
		if refs[key] {
			errs = append(errs, field.Invalid(path.Child("parentRefs"), "", "sectionName or port must be unique when parentRefs includes 2 or more references to the same parent"))
		}
		refs[key] = true
	}
	for i, rule := range objects(spec["rules"]) {
		at := path.Child("rules").Index(i)
		for m, match := range objects(rule["matches"]) {
			names := map[any]bool{}
			for _, header := range objects(match["headers"]) {
				if names[header["name"]] {
					errs = append(errs, field.Duplicate(at.Child("matches").Index(m).Child("headers"), header["name"]))
				}
				names[header["name"]] = true
			}
		}
		for b, ref := range objects(rule["backendRefs"]) {
			errs = append(errs, validateBackend(ref, at.Child("backendRefs").Index(b))...)
		}
	}
	return errs
}

func validateBackend(ref map[string]any, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ref["name"] == nil || ref["name"] == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if ref["kind"] == "Service" && ref["port"] == nil {
		errs = append(errs, field.Invalid(at, ref["name"], "Must have port for Service reference"))
	}
	if weight, ok := ref["weight"].(int64); !ok || weight < 0 || weight > 1000000 {
		errs = append(errs, field.Invalid(at.Child("weight"), ref["weight"], "should be between 0 and 1000000"))
	}
	return errs
}

// objects are the items of a list that are objects.
func objects(list any) []map[string]any {
	items, _ := list.([]any)
	var found []map[string]any
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

// fill sets a field that is absent.
func fill(m map[string]any, name string, value any) {
	if _, ok := m[name]; !ok {
		m[name] = value
	}
}

// copyOf copies a tree, so that defaults can be written into it.
func copyOf(tree map[string]any) (map[string]any, error) {
	data, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var c map[string]any
	err = utiljson.Unmarshal(data, &c)
	return c, err
}
