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
		for _, item := range list.Items {
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
			for _, item := range list.Items {
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
	case jsontree.Null, jsontree.Bool, jsontree.Number, jsontree.String:
	}
	return jsontree.Equal(live, want)
}

func objectMergesToItself(live, last, want jsontree.Value) bool {
	if want.Kind != jsontree.Object {
		return false
	}
	for _, m := range last.Members {
		if _, kept := want.Get(m.Name); kept {
			continue
		}
		if _, present := live.Get(m.Name); present {
			return false // would be removed
		}
	}
	for _, m := range want.Members {
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
	wanted, ok := byName(want, name)
	if !ok {
		return false
	}
	present, ok := byName(live, name)
	if !ok {
		return false
	}
	before, _ := byName(last, name)
	for key := range before {
		_, kept := wanted[key]
		_, there := present[key]
		if !kept && there {
			return false
		}
	}
	for key, w := range wanted {
		l, there := present[key]
		if !there || !mergesToItself(l, before[key], w) {
			return false
		}
	}
	return true
}

// byName indexes a list's items; ok is false if two have the same key.
func byName(list jsontree.Value, name string) (items map[string]jsontree.Value, ok bool) {
	items = make(map[string]jsontree.Value, len(list.Items))
	for _, item := range list.Items {
		items[mergeKey(item, name)] = item
	}
	return items, len(items) == len(list.Items)
}

// mergeKey is the text by which dynamic apply tells items apart: 80 and "80"
// are the same.
func mergeKey(item jsontree.Value, name string) string {
	v, _ := item.Get(name)
	if v.Kind == jsontree.String {
		return v.Text
	}
	return string(jsontree.Canonical(v))
}
