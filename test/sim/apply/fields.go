package apply

import (
	"encoding/json"
	"sort"
	"strings"
)

// Fields is a set of fields of an object, as the API server keeps one for each
// manager. It is a tree of path elements in the spelling of fieldsV1:
// "f:name" is a field, `k:{"name":"web"}` an item of a map-list, `v:"x"` an item
// of a set. Self says that the place itself is in the set; the places below it
// may be in the set without it.
type Fields struct {
	Self bool
	kids map[string]*Fields
}

// Empty tells whether nothing is in the set.
func (f *Fields) Empty() bool {
	if f == nil {
		return true
	}
	if f.Self {
		return false
	}
	for _, kid := range f.kids {
		if !kid.Empty() {
			return false
		}
	}
	return true
}

// Has tells whether the place at the path of elements is in the set.
func (f *Fields) Has(path ...string) bool {
	for _, element := range path {
		f = f.kid(element)
	}
	return f != nil && f.Self
}

// String lists the places in the set, sorted, for tests and logs.
func (f *Fields) String() string {
	var places []string
	var walk func(f *Fields, path string)
	walk = func(f *Fields, path string) {
		if f == nil {
			return
		}
		if f.Self {
			places = append(places, path)
		}
		for element, kid := range f.kids {
			walk(kid, path+"/"+element)
		}
	}
	walk(f, "")
	sort.Strings(places)
	return strings.Join(places, "\n")
}

// Tree returns the set in the form of managedFields' fieldsV1.
func (f *Fields) Tree() map[string]any {
	tree := map[string]any{}
	if f == nil {
		return tree
	}
	for element, kid := range f.kids {
		if kid.Empty() {
			continue
		}
		sub := kid.Tree()
		if kid.Self && len(sub) > 0 {
			sub["."] = map[string]any{}
		}
		tree[element] = sub
	}
	return tree
}

func (f *Fields) kid(element string) *Fields {
	if f == nil {
		return nil
	}
	return f.kids[element]
}

func (f *Fields) add(element string, kid *Fields) {
	if kid.Empty() {
		return
	}
	if f.kids == nil {
		f.kids = map[string]*Fields{}
	}
	f.kids[element] = kid
}

// combine builds a set out of two, place by place.
func combine(a, b *Fields, keep func(inA, inB bool) bool) *Fields {
	c := &Fields{Self: keep(a != nil && a.Self, b != nil && b.Self)}
	if a != nil {
		for element, kid := range a.kids {
			c.add(element, combine(kid, b.kid(element), keep))
		}
	}
	if b != nil {
		for element, kid := range b.kids {
			if a.kid(element) == nil {
				c.add(element, combine(nil, kid, keep))
			}
		}
	}
	return c
}

func union(a, b *Fields) *Fields {
	return combine(a, b, func(inA, inB bool) bool { return inA || inB })
}

func intersection(a, b *Fields) *Fields {
	return combine(a, b, func(inA, inB bool) bool { return inA && inB })
}

func difference(a, b *Fields) *Fields {
	return combine(a, b, func(inA, inB bool) bool { return inA && !inB })
}

func equalFields(a, b *Fields) bool {
	return combine(a, b, func(inA, inB bool) bool { return inA != inB }).Empty()
}

// fieldsOf lists every place that a value of this type occupies. An atomic
// value is one place; a null or empty object is one too; the items of map-lists
// and sets are places as well as the fields below them.
func fieldsOf(v any, t *Type) *Fields {
	f := &Fields{}
	switch v := v.(type) {
	case map[string]any:
		if t.atomic() {
			f.Self = true
			return f
		}
		for name, w := range v {
			kid := fieldsOf(w, t.field(name))
			if m, ok := w.(map[string]any); w == nil || ok && len(m) == 0 || t.open() {
				kid.Self = true
			}
			f.add("f:"+name, kid)
		}
	case []any:
		if !t.associative() {
			f.Self = true
			return f
		}
		for _, item := range v {
			kid := fieldsOf(item, t.item())
			kid.Self = true
			f.add(t.element(item), kid)
		}
	default:
		f.Self = true
	}
	return f
}

// withNamed adds the structures around the places in the set: who owns
// strategy.rollingUpdate.maxSurge owns strategy and rollingUpdate when it comes
// to removing what is no longer applied. Keys of free maps are not structures.
func withNamed(f *Fields, t *Type) *Fields {
	if f == nil {
		return nil
	}
	c := &Fields{Self: f.Self}
	for element, kid := range f.kids {
		k := withNamed(kid, t.below(element))
		if strings.HasPrefix(element, "f:") && !t.open() && !k.Empty() {
			k.Self = true
		}
		c.add(element, k)
	}
	return c
}

// ownable leaves out what identifies an object and what the server fills in
// itself: nobody owns those.
func ownable(f *Fields) *Fields {
	c := &Fields{}
	for element, kid := range f.kids {
		switch element {
		case "f:apiVersion", "f:kind":
			continue
		case "f:metadata":
			kid = difference(kid, identity)
		}
		c.add(element, kid)
	}
	return c
}

// identity is those of the metadata fields that nobody owns.
var identity = func() *Fields {
	f := &Fields{}
	for _, name := range append([]string{"name", "namespace"}, systemFields...) {
		f.add("f:"+name, &Fields{Self: true})
	}
	return f
}()

// changes compares two objects and returns the places that were added or have
// another value, and those that are gone.
func changes(was, is map[string]any, t *Type) (set, removed *Fields) {
	before, after := fieldsOf(was, t), fieldsOf(is, t)
	set = union(difference(after, before), modified(was, is, t))
	return ownable(set), ownable(difference(before, after))
}

// modified returns the places that both values occupy with different content.
func modified(was, is any, t *Type) *Fields {
	f := &Fields{}
	switch is := is.(type) {
	case map[string]any:
		was, ok := was.(map[string]any)
		if !ok {
			return f
		}
		if t.atomic() {
			f.Self = !Equal(was, is)
			return f
		}
		for name, v := range is {
			if w, ok := was[name]; ok {
				f.add("f:"+name, modified(w, v, t.field(name)))
			}
		}
	case []any:
		was, ok := was.([]any)
		if !ok {
			return f
		}
		if !t.associative() {
			f.Self = !Equal(was, is)
			return f
		}
		before := t.index(was)
		for _, item := range is {
			element := t.element(item)
			if w, ok := before[element]; ok {
				f.add(element, modified(w, item, t.item()))
			}
		}
	default:
		f.Self = !Equal(was, is)
	}
	return f
}

// removeFields returns v without the places in the set, and false if nothing of
// it is left.
func removeFields(v any, f *Fields, t *Type) (any, bool) {
	if f.Empty() {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		if t.atomic() || len(v) == 0 {
			return nil, false
		}
		rest := make(map[string]any, len(v))
		for name, w := range v {
			kid := f.kid("f:" + name)
			if kid != nil && kid.Self {
				continue
			}
			if w, ok := removeFields(w, kid, t.field(name)); ok {
				rest[name] = w
			}
		}
		return rest, len(rest) > 0
	case []any:
		if !t.associative() || len(v) == 0 {
			return nil, false
		}
		rest := make([]any, 0, len(v))
		for _, item := range v {
			kid := f.kid(t.element(item))
			if kid != nil && kid.Self {
				continue
			}
			if w, ok := removeFields(item, kid, t.item()); ok {
				rest = append(rest, w)
			}
		}
		return rest, len(rest) > 0
	}
	return v, true
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("cannot encode a JSON tree: " + err.Error())
	}
	return string(text)
}
