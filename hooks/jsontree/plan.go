package jsontree

import (
	"encoding/json"
	"reflect"
	"strings"
)

// plan says how a type is decoded. It is made once, because to ask the type anew
// for each object takes longer than to decode it.
type plan struct {
	kind   target
	elem   *plan   // of a pointer, list or table
	fields []field // of a structure
}

// field is a field of a structure that JSON can set.
type field struct {
	name  string // in JSON
	index int
	plan  *plan
	// within is the field that it is promoted from, nil if it is the structure's own.
	within *field
}

// of is the field of a structure.
func (f *field) of(v reflect.Value) reflect.Value {
	if f.within != nil {
		v = f.within.of(v)
	}
	return v.Field(f.index)
}

// target is a kind of Go type.
type target uint8

const (
	other target = iota // nothing that is decoded here
	text
	truth
	integer
	fraction // float64
	raw      // json.RawMessage
	own      // decodes itself
	pointer
	list
	table // a map by strings
	structure
)

// mostFields is how many fields of a structure can be told to have been seen.
const mostFields = 64

// planOf makes the plan of a type. Types can hold themselves.
func planOf(t reflect.Type, known map[reflect.Type]*plan) *plan {
	if p := known[t]; p != nil {
		return p
	}
	p := &plan{}
	known[t] = p
	kind := t.Kind()
	switch at := reflect.PointerTo(t); {
	case t == reflect.TypeFor[json.RawMessage]():
		p.kind = raw
	case kind != reflect.Pointer && at.Implements(reflect.TypeFor[json.Unmarshaler]()):
		p.kind = own
	case kind != reflect.Pointer && at.Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()):
	case kind == reflect.String:
		p.kind = text
	case kind == reflect.Bool:
		p.kind = truth
	case t == reflect.TypeFor[int64](), t == reflect.TypeFor[int](), t == reflect.TypeFor[int32]():
		p.kind = integer
	case t == reflect.TypeFor[float64]():
		p.kind = fraction
	case kind == reflect.Pointer:
		p.kind, p.elem = pointer, planOf(t.Elem(), known)
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8: // bytes are in base64
		p.kind, p.elem = list, planOf(t.Elem(), known)
	case kind == reflect.Map && t.Key() == reflect.TypeFor[string]():
		p.kind, p.elem = table, planOf(t.Elem(), known)
	case kind == reflect.Struct:
		p.fields, p.kind = fieldsOf(t, known)
	}
	return p
}

// fieldsOf are the fields of a structure; its kind is other if there is one that is
// not usual.
func fieldsOf(t reflect.Type, known map[reflect.Type]*plan) ([]field, target) {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case strings.Contains(options, "string"):
			return nil, other
		case name == "-":
		case f.Anonymous:
			embedded := planOf(f.Type, known)
			if embedded.kind != structure || name != "" {
				return nil, other
			}
			for _, promoted := range embedded.fields {
				if promoted.within != nil {
					return nil, other
				}
				promoted.within = &field{index: i}
				fields = append(fields, promoted)
			}
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			fields = append(fields, field{name: name, index: i, plan: planOf(f.Type, known)})
		}
	}
	names := map[string]bool{}
	for _, f := range fields {
		names[f.name] = true
	}
	if len(fields) > mostFields || len(names) < len(fields) {
		return nil, other
	}
	return fields, structure
}
