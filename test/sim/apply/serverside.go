package apply

import (
	"fmt"
	"slices"
)

// Manager is who wrote fields of an object and how: one entry of managedFields.
type Manager struct {
	Name        string
	Operation   string // "Apply" or "Update"
	Subresource string // "status" or ""
}

// Managed is the set of fields that a manager owns. Entries are never written to.
type Managed struct {
	Manager
	Fields *Fields
}

// ServerSide carries out a forced server-side apply of config by the manager
// with this name: what it applies wins, what it applied before and leaves out
// now is removed unless another manager owns it too, and everything else stays.
// live is nil for an object that does not exist. The result has not been
// defaulted or validated yet.
//
// A list that has two items under one key is refused, as by the API server.
func ServerSide(live map[string]any, owners []Managed, name string, config map[string]any, t *Type) (map[string]any, []Managed, error) {
	if place := duplicate(config, t, ""); place != "" {
		return nil, nil, fmt.Errorf("duplicate entries for key at %s", place)
	}
	me := Manager{Name: name, Operation: "Apply"}
	var last *Fields
	if i := slices.IndexFunc(owners, func(m Managed) bool { return m.Manager == me }); i >= 0 {
		last = owners[i].Fields
	}
	merged, _ := mergeTyped(live, config, t).(map[string]any)
	applied := fieldsOf(config, t)
	// While pruning, the applier owns the name too, or metadata would go with
	// the last label that is no longer applied.
	merged = prune(merged, setOwner(owners, Managed{Manager: me, Fields: applied}), last, t)
	next := setOwner(owners, Managed{Manager: me, Fields: ownable(applied)})
	return merged, disown(next, me, live, merged, t), nil
}

// Track returns the owners of an object's fields after an ordinary write by the
// manager turned was into is: what it changed it owns from now on, alone.
func Track(owners []Managed, me Manager, was, is map[string]any, t *Type) []Managed {
	set, removed := changes(was, is, t)
	if set.Empty() && removed.Empty() {
		return owners
	}
	next := disown(owners, me, was, is, t)
	var mine *Fields
	if i := slices.IndexFunc(next, func(m Managed) bool { return m.Manager == me }); i >= 0 {
		mine = next[i].Fields
	}
	return setOwner(next, Managed{Manager: me, Fields: union(difference(mine, removed), set)})
}

// SameOwners tells whether the same managers own the same fields.
func SameOwners(a, b []Managed) bool {
	return slices.EqualFunc(a, b, func(a, b Managed) bool {
		return a.Manager == b.Manager && (a.Fields == b.Fields || equalFields(a.Fields, b.Fields))
	})
}

func setOwner(owners []Managed, m Managed) []Managed {
	next := slices.Clone(owners)
	i := slices.IndexFunc(next, func(o Managed) bool { return o.Manager == m.Manager })
	switch {
	case m.Fields.Empty() && i >= 0:
		return slices.Delete(next, i, i+1)
	case m.Fields.Empty():
		return next
	case i >= 0:
		next[i] = m
		return next
	}
	return append(next, m)
}

// disown takes what changed between two versions of an object away from all
// managers but the one that changed it.
func disown(owners []Managed, me Manager, was, is map[string]any, t *Type) []Managed {
	set, removed := changes(was, is, t)
	lost := union(set, removed)
	if lost.Empty() {
		return owners
	}
	next := make([]Managed, 0, len(owners)+1)
	for _, m := range owners {
		if m.Manager != me && !intersection(m.Fields, lost).Empty() {
			m.Fields = difference(m.Fields, lost)
		}
		if !m.Fields.Empty() {
			next = append(next, m)
		}
	}
	return next
}

// prune removes what the applier owned before, does not apply now and nobody
// else owns. Fields below a removed structure or item go with it, owned or not:
// the defaults of a probe that is no longer applied are gone with the probe.
func prune(merged map[string]any, owners []Managed, last *Fields, t *Type) map[string]any {
	if last.Empty() {
		return merged
	}
	var owned *Fields
	for _, m := range owners {
		owned = union(owned, m.Fields)
	}
	last, owned = withNamed(last, t), withNamed(owned, t)
	all := withNamed(fieldsOf(merged, t), t)

	gone, _ := removeFields(merged, last, t)
	left := withNamed(fieldsOf(gone, t), t)
	// What went although somebody owns it comes back.
	kept, _ := removeFields(merged, difference(all, union(left, owned)), t)
	left = withNamed(fieldsOf(kept, t), t)
	// What went although the applier never owned it comes back as well.
	rest, _ := removeFields(merged, intersection(difference(all, left), last), t)
	pruned, _ := rest.(map[string]any)
	return pruned
}

// mergeTyped lays config over live by the rules of the type.
func mergeTyped(live, config any, t *Type) any {
	switch config := config.(type) {
	case map[string]any:
		was, _ := live.(map[string]any)
		if t.atomic() || len(was) == 0 {
			return config
		}
		merged := make(map[string]any, len(was)+len(config))
		for name, v := range was {
			merged[name] = v
		}
		for name, v := range config {
			if w, ok := was[name]; ok {
				v = mergeTyped(w, v, t.field(name))
			}
			merged[name] = v
		}
		return merged
	case []any:
		was, _ := live.([]any)
		if !t.associative() || len(was) == 0 {
			return config
		}
		return mergeItems(was, config, t)
	case nil:
		// A null takes a scalar, an empty or an atomic value away. A structure, a
		// free map and a map-list have nothing merged into them.
		switch live := live.(type) {
		case map[string]any:
			if !t.atomic() && len(live) > 0 {
				return live
			}
		case []any:
			if t.associative() && len(live) > 0 {
				return live
			}
		}
		return nil
	}
	return config
}

// mergeItems merges two map-lists or sets. Items that are applied stand in the
// applied order; the others keep their place between them.
func mergeItems(live, config []any, t *Type) []any {
	was, want := t.index(live), t.index(config)
	done := make(map[string]bool, len(config))
	// next is the first applied item, in applied order, that exists and is not out yet.
	next := func() string {
		for _, item := range config {
			if element := t.element(item); !done[element] && was[element] != nil {
				return element
			}
		}
		return ""
	}
	merged := make([]any, 0, len(live)+len(config))
	place := func(item any) {
		element := t.element(item)
		if w, ok := was[element]; ok {
			item = mergeTyped(w, item, t.item())
		}
		merged = append(merged, item)
		done[element] = true
	}
	r := 0
	for _, item := range live {
		element := t.element(item)
		if _, ok := want[element]; !ok {
			merged = append(merged, item)
			continue
		}
		if done[element] || element != next() {
			continue
		}
		for !done[element] {
			place(config[r])
			r++
		}
	}
	for _, item := range config[r:] {
		place(item)
	}
	return merged
}

// duplicate returns the place of a map-list or set with two items under one
// key, or "". Of several it is always the same one.
func duplicate(v any, t *Type, path string) string {
	switch v := v.(type) {
	case map[string]any:
		first := ""
		for name, w := range v {
			place := duplicate(w, t.field(name), path+"."+name)
			if place != "" && (first == "" || place < first) {
				first = place
			}
		}
		return first
	case []any:
		if !t.associative() {
			return ""
		}
		seen := make(map[string]bool, len(v))
		for _, item := range v {
			element := t.element(item)
			if seen[element] {
				return path + "[" + element[2:] + "]"
			}
			seen[element] = true
			if place := duplicate(item, t.item(), path+"["+element[2:]+"]"); place != "" {
				return place
			}
		}
	}
	return ""
}
