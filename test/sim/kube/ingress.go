package kube

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func admitIngress(obj map[string]any) (map[string]any, error) {
	var i networkingv1.Ingress
	if err := convert(obj, &i); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Ingress in version \"v1\" cannot be handled as a Ingress: %v", err))
	}
	errs := validateIngress(&i)
	i.ManagedFields = nil
	i.Status = networkingv1.IngressStatus{}
	return finish(schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}, i.Name, &i, obj, errs)
}

func validateIngress(i *networkingv1.Ingress) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateMeta(i)
	if len(i.Spec.Rules) == 0 && i.Spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(spec, "", "either `defaultBackend` or `rules` must be specified"))
	}
	for r, rule := range i.Spec.Rules {
		at := spec.Child("rules").Index(r).Child("http", "paths")
		if rule.HTTP == nil {
			continue
		}
		if len(rule.HTTP.Paths) == 0 {
			errs = append(errs, field.Required(at, ""))
		}
		for p, path := range rule.HTTP.Paths {
			if path.PathType == nil {
				errs = append(errs, field.Required(at.Index(p).Child("pathType"), "pathType must be specified"))
			}
			if !strings.HasPrefix(path.Path, "/") {
				errs = append(errs, field.Invalid(at.Index(p).Child("path"), path.Path, "must be an absolute path"))
			}
			errs = append(errs, validateIngressBackend(&path.Backend, at.Index(p).Child("backend"))...)
		}
	}
	return errs
}

func validateIngressBackend(b *networkingv1.IngressBackend, at *field.Path) field.ErrorList {
	switch {
	case b.Service == nil:
		return field.ErrorList{field.Required(at, "")}
	case b.Service.Name == "":
		return field.ErrorList{field.Required(at.Child("service", "name"), "")}
	case (b.Service.Port.Name == "") == (b.Service.Port.Number == 0):
		return field.ErrorList{field.Required(at.Child("service", "port"), "either name or number")}
	}
	return nil
}
