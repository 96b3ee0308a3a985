package greyrelease

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// shape is what the Go types of a pod template say about a field: which values
// the API server drops when it stores an object and which it keeps. Only
// comparing uses it; no template ever passes through those types.
//
// A nil shape is a field that these types do not have.
type shape struct {
	fields   map[string]*shape // of a struct
	elem     *shape            // of a list or a map
	list     bool
	pointer  bool     // a zero value means something and is kept: emptyDir: {}
	quantity bool     // 0.5 and 500m are equal
	keys     []string // of the items of a list that server-side apply merges
	filled   bool     // a zero is taken as unset and the API server fills in a default
}

// podTemplate is the shape of a pod template.
var podTemplate = shapeOf(reflect.TypeFor[corev1.PodTemplateSpec](), map[reflect.Type]map[string]*shape{})

// filledFields are those whose zero value the API server replaces by a
// default, by type.
var filledFields = map[reflect.Type][]string{
	reflect.TypeFor[corev1.Container](): {
		"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy",
	},
	reflect.TypeFor[corev1.ContainerPort]():       {"hostPort", "protocol"},
	reflect.TypeFor[corev1.HTTPGetAction]():       {"path", "scheme"},
	reflect.TypeFor[corev1.ImageVolumeSource]():   {"pullPolicy"},
	reflect.TypeFor[corev1.ISCSIVolumeSource]():   {"iscsiInterface"},
	reflect.TypeFor[corev1.ObjectFieldSelector](): {"apiVersion"},
	reflect.TypeFor[corev1.PodSpec](): {
		"dnsPolicy", "restartPolicy", "schedulerName", "serviceAccount", "serviceAccountName",
	},
	reflect.TypeFor[corev1.Probe](): {
		"failureThreshold", "periodSeconds", "successThreshold", "timeoutSeconds",
	},
	reflect.TypeFor[corev1.RBDVolumeSource]():     {"keyring", "pool", "user"},
	reflect.TypeFor[corev1.ScaleIOVolumeSource](): {"fsType", "storageMode"},
}

// listMapKeys are the keys by which server-side apply merges a list, where
// they are not just the patchMergeKey of the types (the listMapKey comments in
// k8s.io/api/core/v1 say so).
var listMapKeys = map[reflect.Type][]string{
	reflect.TypeFor[corev1.ContainerPort]():            {"containerPort", "protocol"},
	reflect.TypeFor[corev1.ResourceClaim]():            {"name"},
	reflect.TypeFor[corev1.TopologySpreadConstraint](): {"topologyKey", "whenUnsatisfiable"},
}

func shapeOf(t reflect.Type, seen map[reflect.Type]map[string]*shape) *shape {
	s := &shape{}
	for t.Kind() == reflect.Pointer {
		s.pointer = true
		t = t.Elem()
	}
	if t == reflect.TypeFor[resource.Quantity]() {
		s.quantity = true
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		if s.fields = seen[t]; s.fields == nil {
			s.fields = map[string]*shape{}
			seen[t] = s.fields
			addFields(s.fields, t, seen)
		}
	case reflect.Slice:
		s.list = true
		s.elem = shapeOf(t.Elem(), seen)
	case reflect.Map:
		s.elem = shapeOf(t.Elem(), seen)
		s.elem.pointer = true // no entry of a map is dropped for being empty
	default:
	}
	return s
}

func addFields(into map[string]*shape, t reflect.Type, seen map[reflect.Type]map[string]*shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			if f.Anonymous && f.Type.Kind() == reflect.Struct { // inline
				addFields(into, f.Type, seen)
			}
			continue
		}
		s := shapeOf(f.Type, seen)
		if s.list {
			s.keys = mergeKeys(f)
		}
		into[name] = s
	}
	for _, name := range filledFields[t] {
		into[name].filled = true
	}
}

func mergeKeys(list reflect.StructField) []string {
	if keys, ok := listMapKeys[list.Type.Elem()]; ok {
		return keys
	}
	if key := list.Tag.Get("patchMergeKey"); key != "" {
		return []string{key}
	}
	return nil
}

// field is the shape of a member; nil when it is not known.
func (s *shape) field(name string) *shape {
	switch {
	case s == nil:
		return nil
	case s.fields != nil:
		return s.fields[name]
	case s.list:
		return nil
	}
	return s.elem
}

// step is how a member is written in a path: .spec, but [example.com/key] for
// an entry of a map.
func (s *shape) step(name string) string {
	if s != nil && s.elem != nil {
		return "[" + name + "]"
	}
	return "." + name
}

// item is the shape of an element of a list.
func (s *shape) item() *shape {
	if s == nil || !s.list {
		return nil
	}
	return s.elem
}
