package history

import (
	"bytes"
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
	if bytes.Equal(old, again) {
		return next, nil // the usual case
	}
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
		len(old.Items()) == len(known.Items()):
		return c.array(path, old, known, next)
	}
	return next
}

func (c *carrier) object(path string, old, known, next jsontree.Value) jsontree.Value {
	merged := next
	for _, m := range old.Members() {
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
	for _, m := range v.Members() {
		if strings.EqualFold(m.Name, name) {
			return true
		}
	}
	return false
}

func (c *carrier) array(path string, old, known, next jsontree.Value) jsontree.Value {
	items := make([]jsontree.Value, len(next.Items()))
	for i, j := range c.match(path, known.Items(), next.Items()) {
		items[i] = next.Items()[i]
		if j >= 0 {
			items[i] = c.value(path, old.Items()[j], known.Items()[j], next.Items()[i])
		}
	}
	return jsontree.List(items)
}

// match finds for each next element the known one that it was, or -1 if it is
// new. Equal ones come first, so that none is taken for another one because
// the identities are alike.
func (c *carrier) match(path string, known, next []jsontree.Value) []int {
	was := make([]int, len(next))
	used := make([]bool, len(known))
	for i := range next {
		was[i] = -1
		for j := range known {
			if !used[j] && jsontree.Equal(known[j], next[i]) {
				was[i], used[j] = j, true
				break
			}
		}
	}
	if c.identity == nil {
		return was
	}
	for i := range next {
		id := ""
		if was[i] < 0 {
			id = c.identity(path, textOf(next[i]))
		}
		for j := range known {
			if id != "" && !used[j] && c.identity(path, textOf(known[j])) == id {
				was[i], used[j] = j, true
				break
			}
		}
	}
	return was
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
