package kube

import (
	"bytes"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateMeta(obj metav1.Object) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(obj, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

func validateDeployment(d *appsv1.Deployment) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateMeta(d)
	errs = append(errs, atLeast(int64(*d.Spec.Replicas), 0, spec.Child("replicas"))...)
	errs = append(errs, atLeast(int64(d.Spec.MinReadySeconds), 0, spec.Child("minReadySeconds"))...)
	errs = append(errs, atLeast(int64(*d.Spec.ProgressDeadlineSeconds), 0, spec.Child("progressDeadlineSeconds"))...)
	if *d.Spec.ProgressDeadlineSeconds <= d.Spec.MinReadySeconds {
		errs = append(errs, field.Invalid(spec.Child("progressDeadlineSeconds"), *d.Spec.ProgressDeadlineSeconds, "must be greater than minReadySeconds"))
	}
	errs = append(errs, validateSelector(d)...)
	errs = append(errs, validateStrategy(&d.Spec.Strategy, spec.Child("strategy"))...)
	return append(errs, validateTemplate(&d.Spec.Template, spec.Child("template"))...)
}

func validateSelector(d *appsv1.Deployment) field.ErrorList {
	spec := field.NewPath("spec")
	if d.Spec.Selector == nil {
		return field.ErrorList{field.Required(spec.Child("selector"), "")}
	}
	errs := metavalidation.ValidateLabelSelector(d.Spec.Selector, metavalidation.LabelSelectorValidationOptions{}, spec.Child("selector"))
	if len(d.Spec.Selector.MatchLabels)+len(d.Spec.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(spec.Child("selector"), d.Spec.Selector, "empty selector is invalid for deployment"))
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err == nil && !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
		errs = append(errs, field.Invalid(spec.Child("template", "metadata", "labels"), d.Spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

func validateStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch {
	case s.Type == appsv1.RecreateDeploymentStrategyType && s.RollingUpdate != nil:
		return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
	case s.Type == appsv1.RecreateDeploymentStrategyType:
		return nil
	}
	path = path.Child("rollingUpdate")
	var errs field.ErrorList
	zero := 0
	for _, f := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"maxUnavailable", s.RollingUpdate.MaxUnavailable}, {"maxSurge", s.RollingUpdate.MaxSurge}} {
		if f.value.Type == intstr.String {
			for _, msg := range validation.IsValidPercent(f.value.StrVal) {
				errs = append(errs, field.Invalid(path.Child(f.name), f.value, msg))
			}
		} else if f.value.IntVal < 0 {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, "must be non-negative"))
		}
		if n, err := intstr.GetScaledValueFromIntOrPercent(f.value, 100, false); err == nil && n == 0 {
			zero++
		}
	}
	if zero == 2 {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), s.RollingUpdate.MaxUnavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return errs
}

func validateTemplate(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabels(t.Labels, path.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, path.Child("metadata", "annotations"))...)
	path = path.Child("spec")
	if t.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), t.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported"))
	}
	if len(t.Spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	volumes := map[string]bool{}
	for i, v := range t.Spec.Volumes {
		at := path.Child("volumes").Index(i).Child("name")
		errs = append(errs, label(v.Name, at)...)
		errs = append(errs, unique(volumes, v.Name, at)...)
	}
	names := map[string]bool{}
	for i := range t.Spec.InitContainers {
		errs = append(errs, validateContainer(&t.Spec.InitContainers[i], names, volumes, path.Child("initContainers").Index(i))...)
	}
	for i := range t.Spec.Containers {
		errs = append(errs, validateContainer(&t.Spec.Containers[i], names, volumes, path.Child("containers").Index(i))...)
	}
	return errs
}

func validateContainer(c *corev1.Container, names, volumes map[string]bool, path *field.Path) field.ErrorList {
	errs := label(c.Name, path.Child("name"))
	errs = append(errs, unique(names, c.Name, path.Child("name"))...)
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	ports := map[string]bool{}
	for i, p := range c.Ports {
		at := path.Child("ports").Index(i)
		if p.Name != "" {
			for _, msg := range validation.IsValidPortName(p.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), p.Name, msg))
			}
			errs = append(errs, unique(ports, p.Name, at.Child("name"))...)
		}
		for _, msg := range validation.IsValidPortNum(int(p.ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("containerPort"), p.ContainerPort, msg))
		}
	}
	for i, e := range c.Env {
		at := path.Child("env").Index(i)
		if e.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if e.Value != "" && e.ValueFrom != nil {
			errs = append(errs, field.Invalid(at.Child("valueFrom"), "", "may not be specified when `value` is not empty"))
		}
	}
	mounts := map[string]bool{}
	for i, m := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		if !volumes[m.Name] {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		if mounts[m.MountPath] {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		mounts[m.MountPath] = true
	}
	return errs
}

func validateConfigMap(c *corev1.ConfigMap) field.ErrorList {
	errs := validateMeta(c)
	size := 0
	for key, value := range c.Data {
		errs = append(errs, configKey(key, field.NewPath("data"))...)
		if _, ok := c.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range c.BinaryData {
		errs = append(errs, configKey(key, field.NewPath("binaryData"))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

func validateConfigMapUpdate(was, is *corev1.ConfigMap) field.ErrorList {
	if was.Immutable == nil || !*was.Immutable {
		return nil
	}
	const msg = "field is immutable when `immutable` is set"
	var errs field.ErrorList
	if is.Immutable == nil || !*is.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), msg))
	}
	if !maps.Equal(was.Data, is.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), msg))
	}
	if !maps.EqualFunc(was.BinaryData, is.BinaryData, bytes.Equal) {
		errs = append(errs, field.Forbidden(field.NewPath("binaryData"), msg))
	}
	return errs
}

func validateSecret(s *corev1.Secret) field.ErrorList {
	errs := validateMeta(s)
	size := 0
	for key, value := range s.Data {
		errs = append(errs, configKey(key, field.NewPath("data"))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize))
	}
	return errs
}

func validateSecretUpdate(was, is *corev1.Secret) field.ErrorList {
	errs := immutable(was.Type, is.Type, field.NewPath("type"))
	if was.Immutable == nil || !*was.Immutable {
		return errs
	}
	const msg = "field is immutable when `immutable` is set"
	if is.Immutable == nil || !*is.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), msg))
	}
	if !maps.EqualFunc(was.Data, is.Data, bytes.Equal) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), msg))
	}
	return errs
}

func immutable(was, is any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, is, apivalidation.FieldImmutableErrorMsg)}
}

func atLeast(n, least int64, path *field.Path) field.ErrorList {
	if n >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("must be greater than or equal to %d", least))}
}

func label(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func unique(seen map[string]bool, name string, path *field.Path) field.ErrorList {
	if seen[name] {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	seen[name] = true
	return nil
}

func configKey(key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Key(key), key, msg))
	}
	return errs
}
