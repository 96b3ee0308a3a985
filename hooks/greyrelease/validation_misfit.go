package greyrelease

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// misfits finds the values in raw that do not fit the type of into. The decoder's
// own error names no list index, and for a quantity no field at all, which helps
// nobody who has eleven containers. It runs only after decoding has failed.
func misfits(path *field.Path, raw json.RawMessage, into any) field.ErrorList {
	var errs field.ErrorList
	walk(path, raw, reflect.TypeOf(into), &errs)
	return errs
}

func walk(path *field.Path, raw json.RawMessage, t reflect.Type, errs *field.ErrorList) {
	if absent(raw) {
		return
	}
	if t.Kind() == reflect.Pointer {
		walk(path, raw, t.Elem(), errs)
		return
	}
	var children map[string]json.RawMessage
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		leaf(path, raw, t, errs)
	case t.Kind() == reflect.Struct:
		if json.Unmarshal(raw, &children) != nil {
			*errs = append(*errs, field.Invalid(path, shown(raw), "must be an object"))
			return
		}
		walkStruct(path, children, t, errs)
	case t.Kind() == reflect.Map:
		if json.Unmarshal(raw, &children) != nil {
			*errs = append(*errs, field.Invalid(path, shown(raw), "must be an object"))
			return
		}
		for _, key := range slices.Sorted(maps.Keys(children)) {
			walk(path.Key(cut(key)), children[key], t.Elem(), errs)
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			*errs = append(*errs, field.Invalid(path, shown(raw), "must be a list"))
			return
		}
		for i, item := range items {
			walk(path.Index(i), item, t.Elem(), errs)
		}
	default:
		leaf(path, raw, t, errs)
	}
}

// walkStruct goes through a struct's fields in their order. A field without a
// name of its own, as a volume's VolumeSource, stands for the fields in it.
func walkStruct(path *field.Path, children map[string]json.RawMessage, t reflect.Type, errs *field.ErrorList) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			walkStruct(path, children, f.Type, errs)
		default:
			walk(path.Child(name), children[name], f.Type, errs)
		}
	}
}

func leaf(path *field.Path, raw json.RawMessage, t reflect.Type, errs *field.ErrorList) {
	if kjson.Unmarshal(raw, reflect.New(t).Interface()) == nil {
		return
	}
	*errs = append(*errs, field.Invalid(path, shown(raw), wanted(t, raw)))
}

func wanted(t reflect.Type, raw json.RawMessage) string {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return `must be a quantity, as in "500m" or "1Gi"`
	case reflect.TypeFor[intstr.IntOrString]():
		return "must be a whole number or a string"
	case reflect.TypeFor[metav1.Time]():
		return `must be a time, as in "2026-11-30T12:00:00Z"`
	}
	switch t.Kind() {
	case reflect.String:
		return stringWanted(raw)
	case reflect.Bool:
		return "must be true or false" + unquoted(raw)
	case reflect.Int32, reflect.Int64:
		return "must be a whole number" + unquoted(raw)
	}
	return "does not fit the field's type, " + t.String()
}
