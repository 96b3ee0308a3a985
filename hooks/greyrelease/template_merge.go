package greyrelease

import (
	"slices"

	"greyrelease.example.com/hooks/jsontree"
)

// mergeNames are the names by which Metacontroller's dynamic apply merges a
// list: the first that all items of the list have, live, last applied and
// wanted ones alike. (metacontroller 4.17, pkg/dynamic/apply.) A list without
// one is replaced whole.
var mergeNames = []string{"containerPort", "port", "mountPath", "name", "uid", "ip", "path"}

// mergeName returns the name by which the lists are merged, "" for none.
func mergeName(lists ...jsontree.Value) string {
	items := 0
	for _, list := range lists {
		for _, item := range list.Items() {
			if item.Kind != jsontree.Object {
				return ""
			}
			items++
		}
	}
	if items == 0 {
		return ""
	}
	i := slices.IndexFunc(mergeNames, func(name string) bool {
		for _, list := range lists {
			for _, item := range list.Items() {
				if _, ok := item.Get(name); !ok {
					return false
				}
			}
		}
		return true
	})
	if i < 0 {
		return ""
	}
	return mergeNames[i]
}

// mergesToItself is true if dynamic apply, given what was applied last and what
// is wanted now, leaves the live value as it is, so that Metacontroller writes
// nothing. Where a list has two items of one key, which dynamic apply corrupts,
// it is false.
func mergesToItself(live, last, want jsontree.Value) bool {
	switch live.Kind {
	case jsontree.Object:
		return objectMergesToItself(live, last, want)
	case jsontree.Array:
		return listMergesToItself(live, last, want)
	case jsontree.Null, jsontree.Bool, jsontree.Number, jsontree.String, jsontree.Verbatim:
	}
	return jsontree.Equal(live, want)
}

func objectMergesToItself(live, last, want jsontree.Value) bool {
	if want.Kind != jsontree.Object {
		return false
	}
	for _, m := range last.Members() {
		if _, kept := want.Get(m.Name); kept {
			continue
		}
		if _, present := live.Get(m.Name); present {
			return false // would be removed
		}
	}
	for _, m := range want.Members() {
		l, present := live.Get(m.Name)
		if !present {
			return false // would be added, even a null
		}
		before, _ := last.Get(m.Name)
		if !mergesToItself(l, before, m.Value) {
			return false
		}
	}
	return true
}

func listMergesToItself(live, last, want jsontree.Value) bool {
	if want.Kind != jsontree.Array {
		return false
	}
	name := mergeName(live, last, want)
	if name == "" {
		return jsontree.Equal(live, want)
	}
	if hasTwice(live, name) || hasTwice(last, name) || hasTwice(want, name) {
		return false
	}
	for i, item := range last.Items() {
		key := mergeKey(item, name)
		if byKey(want, name, key, i) >= 0 {
			continue
		}
		if byKey(live, name, key, i) >= 0 {
			return false // would be removed
		}
	}
	for i, item := range want.Items() {
		key := mergeKey(item, name)
		l := byKey(live, name, key, i)
		if l < 0 {
			return false // would be added
		}
		var before jsontree.Value
		if b := byKey(last, name, key, i); b >= 0 {
			before = last.Items()[b]
		}
		if !mergesToItself(live.Items()[l], before, item) {
			return false
		}
	}
	return true
}

// byKey returns the index of the last item with the key, -1 for none. It looks
// first where the item stood in another form of the list, which makes the
// usual case linear.
func byKey(list jsontree.Value, name, key string, hint int) int {
	if hint < len(list.Items()) && mergeKey(list.Items()[hint], name) == key {
		return hint
	}
	for i, item := range slices.Backward(list.Items()) {
		if mergeKey(item, name) == key {
			return i
		}
	}
	return -1
}

// hasTwice is true if two items have the same key. Up to 8 items are compared
// in pairs, which is faster than a map.
func hasTwice(list jsontree.Value, name string) bool {
	if len(list.Items()) > 8 {
		return twice(list, func(item jsontree.Value) string { return "." + mergeKey(item, name) }) != ""
	}
	for i, a := range list.Items() {
		for _, b := range list.Items()[:i] {
			if mergeKey(a, name) == mergeKey(b, name) {
				return true
			}
		}
	}
	return false
}

// mergeKey is the text by which dynamic apply tells items apart: 80 and "80"
// are the same.
func mergeKey(item jsontree.Value, name string) string {
	v, _ := item.Get(name)
	switch v.Kind {
	case jsontree.String:
		return v.Text
	case jsontree.Number:
		return v.Number()
	case jsontree.Null, jsontree.Bool, jsontree.Array, jsontree.Object, jsontree.Verbatim:
	}
	return string(jsontree.Canonical(v))
}
