package greyrelease

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTemplate checks the content of spec.template of a GreyRelease in
// namespace: that it decodes as the API server would decode it, and the rules
// whose breach would otherwise show only as an event, when the API server
// refuses the Deployment. Content that is already a revision need not be checked
// again.
func validateTemplate(raw json.RawMessage, namespace string) field.ErrorList {
	path := field.NewPath("spec", "template")
	var errs field.ErrorList
	var template corev1.PodTemplateSpec
	if _, ok := newObject(path, raw, "describe the pods as in a Deployment", &errs); !ok {
		return errs
	}
	if err := kjson.Unmarshal(raw, &template); err != nil {
		if errs := misfits(path, raw, template); len(errs) > 0 {
			return errs
		}
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return append(validateTemplateMeta(path.Child("metadata"), &template, namespace),
		validatePodSpec(path.Child("spec"), &template.Spec)...)
}

func validateTemplateMeta(path *field.Path, template *corev1.PodTemplateSpec, namespace string) field.ErrorList {
	var errs field.ErrorList
	if ns := template.Namespace; ns != "" && ns != namespace {
		errs = append(errs, field.Invalid(path.Child("namespace"), cut(ns),
			fmt.Sprintf("pods run in the namespace of the release, %s: remove the field", namespace)))
	}
	for _, key := range slices.Sorted(maps.Keys(template.Labels)) {
		at := path.Child("labels").Key(cut(key))
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			errs = append(errs, field.Invalid(at, cut(key), "the name of a label: "+wrong[0]))
		}
		if value := template.Labels[key]; len(validation.IsValidLabelValue(value)) > 0 {
			errs = append(errs, field.Invalid(at, cut(value), "must be empty or "+strings.TrimPrefix(checkAppName(""), "must be ")))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(template.Annotations)) {
		// The API server compares annotations in lower case, so capitals are legal.
		if wrong := validation.IsQualifiedName(strings.ToLower(key)); len(wrong) > 0 {
			errs = append(errs, field.Invalid(path.Child("annotations").Key(cut(key)), cut(key), "the name of an annotation: "+wrong[0]))
		}
	}
	return errs
}

func validatePodSpec(path *field.Path, spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), "name at least one container"))
	}
	seen := map[string]string{}
	check := func(list string, containers []corev1.Container) {
		for i := range containers {
			at := path.Child(list).Index(i)
			errs = append(errs, validateContainer(at, &containers[i], seen)...)
		}
	}
	check("initContainers", spec.InitContainers)
	check("containers", spec.Containers)
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "they can only be added to a running pod, by kubectl debug: remove them"))
	}
	if p := spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.Invalid(path.Child("restartPolicy"), cut(string(p)), "must be Always, as in every Deployment: remove it or say Always"))
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("activeDeadlineSeconds"), "a Deployment's pods have no end: remove it"))
	}
	return errs
}

// validateContainer checks what a Deployment needs of every container. seen maps
// the names so far to where they stand.
func validateContainer(path *field.Path, c *corev1.Container, seen map[string]string) field.ErrorList {
	var errs field.ErrorList
	name := path.Child("name")
	switch {
	case c.Name == "":
		errs = append(errs, field.Required(name, "give the container a name"))
	case len(validation.IsDNS1123Label(c.Name)) > 0:
		errs = append(errs, field.Invalid(name, cut(c.Name),
			`must be at most 63 lower case letters, digits and "-", beginning and ending with a letter or digit`))
	case seen[c.Name] != "":
		errs = append(errs, field.Invalid(name, c.Name, "is the name of "+seen[c.Name]+" too: give one of them another name"))
	default:
		seen[c.Name] = path.String()
	}
	switch {
	case c.Image == "":
		errs = append(errs, field.Required(path.Child("image"), "name the image; without a tag or digest it gets targetVersion"))
	case strings.TrimSpace(c.Image) != c.Image:
		errs = append(errs, field.Invalid(path.Child("image"), cut(c.Image), "must not begin or end with a blank"))
	}
	return errs
}
