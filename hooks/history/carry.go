package history

import (
	"fmt"
	"strings"

	"greyrelease.example.com/hooks/jsontree"
)

// Carry keeps the fields of a record that this version of the service does not
// know, so that an older and a newer version side by side lose nothing.
//
//	old    the record as it was observed
//	again  the same record decoded and encoded by this version
//	next   the record this version wants to write
//
// A member of old that is missing in again is one that this version cannot
// see. It goes into next at the same place, byte for byte, unless the object it
// stands in is gone from next. Elements of lists correspond if their known
// parts are equal or if identity, called with the known part's members by name
// for a path such as "history", gives the same text that is not "".
// If nothing is unknown, next is returned as it is.
func Carry(old, again, next []byte, identity func(path string, element Member) string) ([]byte, error) {
	was, err := jsontree.ParseVerbatim(old)
	if err != nil {
		return next, nil //nolint:nilerr // what cannot be read has nothing to keep
	}
	known, err := jsontree.Parse(again)
	if err != nil {
		return nil, fmt.Errorf("cannot read the record as encoded again: %w", err)
	}
	wanted, err := jsontree.Parse(next)
	if err != nil {
		return nil, fmt.Errorf("cannot read the next record: %w", err)
	}
	c := carrier{identity: identity}
	merged := c.value("", was, known, wanted)
	if !c.carried {
		return next, nil
	}
	return jsontree.Canonical(merged), nil
}

// Member reads the text of a scalar member of a list's element, "" if there is
// none.
type Member func(name string) string

type carrier struct {
	identity func(path string, element Member) string
	carried  bool
}

func (c *carrier) value(path string, old, known, next jsontree.Value) jsontree.Value {
	switch {
	case old.Kind == jsontree.Object && known.Kind == jsontree.Object && next.Kind == jsontree.Object:
		return c.object(path, old, known, next)
	case old.Kind == jsontree.Array && known.Kind == jsontree.Array && next.Kind == jsontree.Array &&
		len(old.Items) == len(known.Items):
		return c.array(path, old, known, next)
	}
	return next
}

func (c *carrier) object(path string, old, known, next jsontree.Value) jsontree.Value {
	merged := next
	for _, m := range old.Members {
		k, isKnown := known.Get(m.Name)
		n, wanted := next.Get(m.Name)
		switch {
		case isKnown && wanted:
			merged = merged.With(m.Name, c.value(join(path, m.Name), m.Value, k, n))
		case !isKnown && !wanted && !hasFolded(known, m.Name) && !hasFolded(next, m.Name):
			merged = merged.With(m.Name, m.Value)
			c.carried = true
		}
	}
	return merged
}

// hasFolded finds a member that encoding/json would take for name, whatever
// the case of its letters. To carry "Stable" next to a "stable" of ours would
// let it win at the next decoding.
func hasFolded(v jsontree.Value, name string) bool {
	for _, m := range v.Members {
		if strings.EqualFold(m.Name, name) {
			return true
		}
	}
	return false
}

func (c *carrier) array(path string, old, known, next jsontree.Value) jsontree.Value {
	items := make([]jsontree.Value, len(next.Items))
	used := make([]bool, len(old.Items))
	for i, n := range next.Items {
		items[i] = n
		if j := c.match(path, known.Items, used, n); j >= 0 {
			used[j] = true
			items[i] = c.value(path, old.Items[j], known.Items[j], n)
		}
	}
	return jsontree.List(items)
}

// match finds the element that n was: an equal one, else one of the same
// identity; -1 if n is new.
func (c *carrier) match(path string, known []jsontree.Value, used []bool, n jsontree.Value) int {
	for j, k := range known {
		if !used[j] && jsontree.Equal(k, n) {
			return j
		}
	}
	if c.identity == nil {
		return -1
	}
	id := c.identity(path, textOf(n))
	if id == "" {
		return -1
	}
	for j, k := range known {
		if !used[j] && c.identity(path, textOf(k)) == id {
			return j
		}
	}
	return -1
}

func textOf(v jsontree.Value) Member {
	return func(name string) string {
		m, _ := v.Get(name)
		return m.Text
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
