package jsontree

import (
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds the nesting, and with it the stack. A pod template needs
// about 15 levels.
const maxDepth = 200

// Parse reads one JSON value. Anything after it, a name that stands twice in
// one object, and nesting beyond 200 levels are errors. Invalid UTF-8 and
// unpaired surrogates become U+FFFD, as in encoding/json.
func Parse(data []byte) (Value, error) { return ParseString(string(data)) }

// ParseString is Parse for a string; the tree shares its memory.
func ParseString(text string) (Value, error) { return parse(text, false) }

// ParseVerbatim is Parse for text whose scalars, nulls included, are to be
// written again byte for byte. All of them are of kind Verbatim.
func ParseVerbatim(data []byte) (Value, error) {
	return parse(string(data), true)
}

func parse(text string, verbatim bool) (Value, error) {
	if !utf8.ValidString(text) {
		text = string([]rune(text)) // U+FFFD for each byte that is invalid
	}
	p := parser{scanner: scanner[string]{src: text}, verbatim: verbatim}
	p.members.open = make([]Member, 0, minChunk)
	v, err := p.value(0)
	if err != nil {
		return Value{}, fmt.Errorf("cannot read JSON at offset %d: %w", p.pos, err)
	}
	p.space()
	if p.pos != len(p.src) {
		return Value{}, fmt.Errorf("cannot read JSON at offset %d: unexpected %s", p.pos, p.here())
	}
	return v, nil
}

// parser keeps the members and items of the objects and arrays it is in on two
// stacks, and moves them to a place of their exact size when one ends. The
// places are cut out of larger chunks: most objects are small, and to allocate
// each for itself would take most of the time.
type parser struct {
	scanner[string]
	verbatim bool
	members  stack[Member]
	items    stack[Value]
	insides  []inside // a chunk as well
}

type stack[T any] struct {
	open  []T
	chunk []T
}

// minChunk and maxChunk bound the chunks; each has twice the size of the one
// before.
const minChunk, maxChunk = 16, 256

// pop moves what was pushed since the stack had the given length to its place.
func (s *stack[T]) pop(base int) []T {
	n := len(s.open) - base
	if n == 0 {
		return nil
	}
	if cap(s.chunk)-len(s.chunk) < n {
		s.chunk = make([]T, 0, max(n, min(max(2*cap(s.chunk), minChunk), maxChunk)))
	}
	start := len(s.chunk)
	s.chunk = append(s.chunk, s.open[base:]...)
	s.open = s.open[:base]
	return s.chunk[start:len(s.chunk):len(s.chunk)]
}

// hold keeps what is in an array or an object.
func (p *parser) hold(in inside) *inside {
	if len(p.insides) == cap(p.insides) {
		p.insides = make([]inside, 0, min(max(2*cap(p.insides), minChunk), maxChunk))
	}
	p.insides = append(p.insides, in)
	return &p.insides[len(p.insides)-1]
}

func (p *parser) value(depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, errDepth
	}
	p.space()
	start := p.pos
	var v Value
	var err error
	switch p.peek() {
	case '{':
		v, err = p.object(depth)
	case '[':
		v, err = p.array(depth)
	case '"':
		v.Kind = String
		v.Text, err = p.text()
	case 't':
		v, err = Value{Kind: Bool, Text: "true"}, p.word("true")
	case 'f':
		v, err = Value{Kind: Bool, Text: "false"}, p.word("false")
	case 'n':
		err = p.word("null")
	default:
		err = p.number()
		v = Value{Kind: Number, Text: p.src[start:p.pos]}
	}
	if p.verbatim && v.Kind != Object && v.Kind != Array {
		v = Value{Kind: Verbatim, Text: p.src[start:p.pos]}
	}
	return v, err
}

func (p *parser) object(depth int) (Value, error) {
	v := Value{Kind: Object}
	base := len(p.members.open)
	p.pos++
	if p.space(); p.next('}') {
		return v, nil
	}
	for {
		name, err := p.name()
		if err != nil {
			return v, err
		}
		member, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		p.members.open = append(p.members.open, Member{Name: name, Value: member})
		if p.space(); p.next(',') {
			continue
		}
		if !p.next('}') {
			return v, p.unexpected()
		}
		members := p.members.pop(base)
		v.inside = p.hold(inside{members: members})
		return v, sorted(members)
	}
}

func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: Array}
	base := len(p.items.open)
	p.pos++
	if p.space(); p.next(']') {
		return v, nil
	}
	for {
		item, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		p.items.open = append(p.items.open, item)
		if p.space(); p.next(',') {
			continue
		}
		if !p.next(']') {
			return v, p.unexpected()
		}
		v.inside = p.hold(inside{items: p.items.pop(base)})
		return v, nil
	}
}
