// Package jsontree reads JSON into a tree that loses nothing and writes it in
// one canonical form.
//
// The content of a release decides whether pods are replaced, so its JSON must
// not pass through Go structs (a newer client library would add, drop or
// reorder fields and every release would start over) nor through float64
// (9007199254740993 would become ...992). encoding/json into any is no way
// either: it takes the last of two equal names without a word and rounds.
// Reading here is also several times faster, which matters because templates
// are compared on every sync.
//
// Values are never changed in place: the functions that edit return new ones.
//
// What passes through Go structs all the same, because it decides nothing about
// pods, is decoded by a [Decoder], which is as fast as the tree is made.
package jsontree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind says what a Value is.
type Kind uint8

// The kinds of a Value. The zero Value is a null.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
	// Verbatim is a scalar that is written as it was read, see ParseVerbatim.
	Verbatim
)

// Value is one JSON value.
type Value struct {
	Kind Kind
	// Text is a string's content without escapes, a number as it was written,
	// "true" or "false", or the source of a Verbatim.
	Text string
	// inside is what an array or an object holds, nil if it is empty. Most values
	// are scalars: kept apart, it leaves them half as large.
	inside *inside
}

type inside struct {
	items   []Value
	members []Member
}

// Items are an array's elements.
func (v Value) Items() []Value {
	if v.inside == nil {
		return nil
	}
	return v.inside.items
}

// Members are an object's members, sorted by name, each name once.
func (v Value) Members() []Member {
	if v.inside == nil {
		return nil
	}
	return v.inside.members
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value Value
}

// Text makes a string value.
func Text(s string) Value { return Value{Kind: String, Text: s} }

// List makes an array of the given values.
func List(items []Value) Value { return Value{Kind: Array, inside: &inside{items: items}} }

// object makes an object of sorted members.
func object(members []Member) Value { return Value{Kind: Object, inside: &inside{members: members}} }

// Get returns the member of that name. A value that is no object has none.
func (v Value) Get(name string) (Value, bool) {
	i, found := v.find(name)
	if !found {
		return Value{}, false
	}
	return v.Members()[i].Value, true
}

// At follows names through nested objects; ok is false where one is missing.
func (v Value) At(names ...string) (found Value, ok bool) {
	for _, name := range names {
		if v, ok = v.Get(name); !ok {
			return Value{}, false
		}
	}
	return v, true
}

// With returns a copy of an object in which name has the given value. Any
// other kind of value counts as an object without members.
func (v Value) With(name string, member Value) Value {
	i, found := v.find(name)
	members := make([]Member, 0, len(v.Members())+1)
	members = append(members, v.Members()[:i]...)
	members = append(members, Member{Name: name, Value: member})
	if found {
		i++
	}
	members = append(members, v.Members()[i:]...)
	return object(members)
}

// Without returns a copy of an object that lacks the member of that name.
func (v Value) Without(name string) Value {
	i, found := v.find(name)
	if !found {
		return v
	}
	members := make([]Member, 0, len(v.Members())-1)
	members = append(members, v.Members()[:i]...)
	return object(append(members, v.Members()[i+1:]...))
}

// IsEmpty is true for null, "", [] and {}.
func (v Value) IsEmpty() bool {
	switch v.Kind {
	case Null:
		return true
	case String:
		return v.Text == ""
	case Array:
		return len(v.Items()) == 0
	case Object:
		return len(v.Members()) == 0
	case Bool, Number, Verbatim:
	}
	return false
}

// IsZero is true for what IsEmpty is and for 0 and false.
func (v Value) IsZero() bool {
	switch v.Kind {
	case Bool:
		return v.Text == "false"
	case Number:
		return v.Number() == "0"
	case Null, String, Array, Object, Verbatim:
	}
	return v.IsEmpty()
}

// Equal compares by meaning: the order of names, the spelling of numbers and
// escapes do not count. A null is not the same as a missing member here.
func Equal(a, b Value) bool {
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case Null:
		return true
	case Number:
		return a.Text == b.Text || a.Number() == b.Number()
	case Array:
		return slices.EqualFunc(a.Items(), b.Items(), Equal)
	case Object:
		return slices.EqualFunc(a.Members(), b.Members(), func(a, b Member) bool {
			return a.Name == b.Name && Equal(a.Value, b.Value)
		})
	case Bool, String, Verbatim:
	}
	return a.Text == b.Text
}

// find returns where the member of that name is or would be.
func (v Value) find(name string) (int, bool) {
	low, high := 0, len(v.Members())
	for low < high {
		middle := (low + high) / 2
		switch at := v.Members()[middle].Name; {
		case at == name:
			return middle, true
		case at < name:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, false
}

// sorted orders members by name and refuses a name that stands twice. What
// comes from an API server is in order already, so the usual cost is one pass.
func sorted(members []Member) error {
	inOrder := true
	for i := 1; i < len(members); i++ {
		if members[i-1].Name >= members[i].Name {
			inOrder = false
			break
		}
	}
	if inOrder {
		return nil
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(members); i++ {
		if members[i-1].Name == members[i].Name {
			return fmt.Errorf("name %q stands twice in one object", members[i].Name)
		}
	}
	return nil
}

var errDepth = errors.New("nested too deeply")
