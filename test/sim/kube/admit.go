package kube

import (
	"cmp"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxObject is the most that etcd takes in one request, in bytes.
const maxObject = 1536 * 1024

// Admit returns the object as the server would store it, or the API error with
// which it is refused. old is nil for an object that does not exist yet. Kinds
// that are not known here are stored as they come. Neither argument is changed.
func Admit(kind string, old, obj map[string]any) (map[string]any, error) {
	switch kind {
	case "Deployment":
		return admitDeployment(old, obj)
	case "ConfigMap":
		return admitConfigMap(old, obj)
	case "Secret":
		return admitSecret(old, obj)
	case "HTTPRoute":
		return admitHTTPRoute(obj)
	case "Ingress":
		return admitIngress(obj)
	case "Service":
		return admitService(old, obj)
	case "GreyRelease":
		return admitRelease(obj)
	}
	return obj, nil
}

func admitDeployment(old, obj map[string]any) (map[string]any, error) {
	var d appsv1.Deployment
	if err := convert(obj, &d); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Deployment in version \"v1\" cannot be handled as a Deployment: %v", err))
	}
	defaultDeployment(&d)
	errs := validateDeployment(&d)
	if old != nil {
		var was appsv1.Deployment
		if err := convert(old, &was); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		errs = append(errs, immutable(was.Spec.Selector, d.Spec.Selector, field.NewPath("spec", "selector"))...)
	}
	d.ManagedFields = nil
	d.Status = appsv1.DeploymentStatus{}
	return finish(schema.GroupKind{Group: "apps", Kind: "Deployment"}, d.Name, &d, obj, errs)
}

func admitConfigMap(old, obj map[string]any) (map[string]any, error) {
	var c corev1.ConfigMap
	if err := convert(obj, &c); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: %v", err))
	}
	errs := validateConfigMap(&c)
	if old != nil {
		var was corev1.ConfigMap
		if err := convert(old, &was); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		errs = append(errs, validateConfigMapUpdate(&was, &c)...)
	}
	c.ManagedFields = nil
	return finish(schema.GroupKind{Kind: "ConfigMap"}, c.Name, &c, obj, errs)
}

// admitSecret also does what the server does for old clients: a type that is left out is
// the one that is there, and stringData becomes data.
func admitSecret(old, obj map[string]any) (map[string]any, error) {
	var s corev1.Secret
	if err := convert(obj, &s); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Secret in version \"v1\" cannot be handled as a Secret: %v", err))
	}
	for key, value := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
	var was corev1.Secret
	if old != nil {
		if err := convert(old, &was); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	s.Type = cmp.Or(s.Type, was.Type, corev1.SecretTypeOpaque)
	errs := validateSecret(&s)
	if old != nil {
		errs = append(errs, validateSecretUpdate(&was, &s)...)
	}
	s.ManagedFields = nil
	return finish(schema.GroupKind{Kind: "Secret"}, s.Name, &s, obj, errs)
}

// admitRelease knows the one default of the custom resource's schema.
func admitRelease(obj map[string]any) (map[string]any, error) {
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return obj, nil
	}
	if v, ok := spec["replicas"]; ok && v != nil {
		return obj, nil
	}
	admitted, defaulted := clone(obj), clone(spec)
	defaulted["replicas"] = int64(1)
	admitted["spec"] = defaulted
	return admitted, nil
}

// finish turns a typed object back into a tree. status and managedFields are no
// part of it and come from obj.
func finish(kind schema.GroupKind, name string, typed any, obj map[string]any, errs field.ErrorList) (map[string]any, error) {
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(kind, name, errs)
	}
	data, err := json.Marshal(typed)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(data) > maxObject {
		return nil, apierrors.NewRequestEntityTooLargeError("etcdserver: request is too large")
	}
	var tree map[string]any
	if err := utiljson.Unmarshal(data, &tree); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	delete(tree, "status")
	if status, ok := obj["status"]; ok {
		tree["status"] = status
	}
	if entries, ok := obj["metadata"].(map[string]any)["managedFields"]; ok {
		tree["metadata"].(map[string]any)["managedFields"] = entries
	}
	return tree, nil
}

func convert(obj map[string]any, into metav1.Object) error {
	data, err := json.Marshal(withoutReports(obj))
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(data, into)
}

// withoutReports saves decoding what does not matter here.
func withoutReports(obj map[string]any) map[string]any {
	c := clone(obj)
	delete(c, "status")
	if m, ok := c["metadata"].(map[string]any); ok {
		m = clone(m)
		delete(m, "managedFields")
		c["metadata"] = m
	}
	return c
}

func clone(m map[string]any) map[string]any {
	c := make(map[string]any, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}
