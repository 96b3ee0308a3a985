package jsontree

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Decoder decodes JSON into a Go type in one pass, several times faster than
// encoding/json, which goes through a text twice and calls a function for each
// byte of it.
//
// It knows what is usual and gives up on the rest: text that is not JSON, values
// of another type than their field, names of fields that stand twice or are
// written with escapes, nesting beyond 200 levels. What that means, and how it
// is told, is left to a decoder that knows everything.
type Decoder[T any] struct {
	plan  *plan
	folds bool
}

// NewDecoder makes the decoder of a type once and for all. What it decodes, it decodes
// as k8s.io/apimachinery/pkg/util/json does: names are compared exactly.
func NewDecoder[T any]() *Decoder[T] {
	return &Decoder[T]{plan: planOf(reflect.TypeFor[T](), map[reflect.Type]*plan{})}
}

// NewFoldingDecoder is NewDecoder for what encoding/json decodes, which takes "Name"
// for "name": on such names it gives up.
func NewFoldingDecoder[T any]() *Decoder[T] {
	d := NewDecoder[T]()
	d.folds = true
	return d
}

// Decode decodes data; ok is false if it gave up. The value shares no memory with
// data, and what it has no field for takes none.
func (d *Decoder[T]) Decode(data []byte) (value *T, ok bool) {
	if !utf8.Valid(data) {
		return nil, false
	}
	value = new(T)
	p := decoding{scanner: scanner[[]byte]{src: data}, folds: d.folds}
	if !p.into(reflect.ValueOf(value).Elem(), d.plan, 0) {
		return nil, false
	}
	p.space()
	return value, p.pos == len(p.src)
}

// decoding fills Go values. Its methods return false to give up.
type decoding struct {
	scanner[[]byte]
	// kept are strings of the values. To allocate each for itself would take longer
	// than to read it.
	kept  strings.Builder
	folds bool
}

// minKept and maxKept bound the pieces of memory for strings; each is twice as large
// as the one before.
const minKept, maxKept = 512, 16 << 10

// keep copies what a string means.
func (p *decoding) keep(inner []byte, plain bool) string {
	if !plain {
		p.scratch = appendUnquoted(p.scratch[:0], inner)
		inner = p.scratch
	}
	if n := p.kept.Cap(); n-p.kept.Len() < len(inner) {
		p.kept.Reset()
		p.kept.Grow(max(len(inner), min(max(2*n, minKept), maxKept)))
	}
	start := p.kept.Len()
	p.kept.Write(inner)
	return p.kept.String()[start:]
}

func (p *decoding) into(v reflect.Value, to *plan, depth int) bool {
	if p.space(); depth > maxDepth {
		return false
	}
	start := p.pos
	if p.peek() == 'n' && to.kind != raw && to.kind != own {
		// A null is as good as nothing: the value is new.
		return p.word("null") == nil && to.kind != other
	}
	switch to.kind {
	case raw:
		if p.pass(depth) != nil {
			return false
		}
		v.SetBytes(bytes.Clone(p.src[start:p.pos]))
		return true
	case own:
		return p.pass(depth) == nil && v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(p.src[start:p.pos]) == nil
	case pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return p.into(v.Elem(), to.elem, depth)
	case structure:
		return p.structure(v, to, depth)
	case table:
		return p.table(v, to, depth)
	case list:
		return p.list(v, to, depth)
	case text:
		inner, plain, err := p.string()
		v.SetString(p.keep(inner, plain))
		return err == nil
	case truth:
		yes := p.peek() == 't'
		v.SetBool(yes)
		return p.word(strconv.FormatBool(yes)) == nil
	case integer:
		if p.number() != nil {
			return false
		}
		n, err := strconv.ParseInt(string(p.src[start:p.pos]), 10, 64)
		v.SetInt(n)
		return err == nil && !v.OverflowInt(n)
	case fraction:
		if p.number() != nil {
			return false
		}
		n, err := strconv.ParseFloat(string(p.src[start:p.pos]), 64)
		v.SetFloat(n)
		return err == nil
	case other:
	}
	return false
}

// object calls member with each name of an object, to read its value.
func (p *decoding) object(member func(name []byte, plain bool) bool) bool {
	if !p.next('{') {
		return false
	}
	if p.space(); p.next('}') {
		return true
	}
	for {
		p.space()
		name, plain, err := p.string()
		if p.space(); err != nil || !p.next(':') || !member(name, plain) {
			return false
		}
		if p.space(); p.next('}') {
			return true
		}
		if !p.next(',') {
			return false
		}
	}
}

func (p *decoding) structure(v reflect.Value, to *plan, depth int) bool {
	var seen uint64
	return p.object(func(name []byte, plain bool) bool {
		for i := range to.fields {
			f := &to.fields[i]
			if string(name) != f.name {
				continue
			}
			twice := seen&(1<<i) != 0
			seen |= 1 << i
			return !twice && p.into(f.of(v), f.plan, depth+1)
		}
		unusual := !plain || p.folds && to.folds(name)
		return !unusual && p.pass(depth+1) == nil
	})
}

// folds tells whether a name is a field's but for the case of its letters.
func (to *plan) folds(name []byte) bool {
	return slices.ContainsFunc(to.fields, func(f field) bool { return strings.EqualFold(f.name, string(name)) })
}

// table decodes an object into a map.
func (p *decoding) table(v reflect.Value, to *plan, depth int) bool {
	if texts, ok := v.Addr().Interface().(*map[string]string); ok {
		return p.texts(texts)
	}
	v.Set(reflect.MakeMap(v.Type()))
	entries := 0
	return p.object(func(name []byte, plain bool) bool {
		elem := reflect.New(v.Type().Elem()).Elem()
		if !p.into(elem, to.elem, depth+1) {
			return false
		}
		v.SetMapIndex(reflect.ValueOf(p.keep(name, plain)), elem)
		entries++
		return v.Len() == entries
	})
}

// texts is table for what most maps are.
func (p *decoding) texts(into *map[string]string) bool {
	texts := map[string]string{}
	*into = texts
	entries := 0
	return p.object(func(name []byte, plain bool) bool {
		key := p.keep(name, plain)
		p.space()
		value, plain, err := p.string()
		texts[key] = p.keep(value, plain)
		entries++
		return err == nil && len(texts) == entries
	})
}

func (p *decoding) list(v reflect.Value, to *plan, depth int) bool {
	if !p.next('[') {
		return false
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	if p.space(); p.next(']') {
		return true
	}
	for n := 0; ; n++ {
		v.Grow(1)
		v.SetLen(n + 1)
		if !p.into(v.Index(n), to.elem, depth+1) {
			return false
		}
		if p.space(); p.next(']') {
			return true
		}
		if !p.next(',') {
			return false
		}
	}
}
