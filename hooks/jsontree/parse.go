package jsontree

import (
	"fmt"
	"strconv"
	"strings"
)

// maxDepth bounds the nesting, and with it the stack. A pod template needs
// about 15 levels.
const maxDepth = 200

// Parse reads one JSON value. Anything after it, a name that stands twice in
// one object, and nesting beyond 200 levels are errors. Invalid UTF-8 and
// unpaired surrogates become U+FFFD, as in encoding/json.
func Parse(data []byte) (Value, error) { return ParseString(string(data)) }

// ParseString is Parse for a string; the tree shares its memory.
func ParseString(text string) (Value, error) { return parse(parser{src: text}) }

// ParseVerbatim is Parse for text whose scalars, nulls included, are to be
// written again byte for byte. All of them are of kind Verbatim.
func ParseVerbatim(data []byte) (Value, error) {
	return parse(parser{src: string(data), verbatim: true})
}

func parse(p parser) (Value, error) {
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
	src      string
	pos      int
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
	if p.pos == len(p.src) {
		return Value{}, p.unexpected()
	}
	start := p.pos
	var v Value
	var err error
	switch c := p.src[p.pos]; {
	case c == '{':
		v, err = p.object(depth)
	case c == '[':
		v, err = p.array(depth)
	case c == '"':
		v.Kind = String
		v.Text, err = p.string()
	case c == 't':
		v, err = p.word("true", Bool)
	case c == 'f':
		v, err = p.word("false", Bool)
	case c == 'n':
		v, err = p.word("null", Null)
	case c == '-' || isDigit(c):
		v, err = p.number()
	default:
		err = p.unexpected()
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

func (p *parser) word(word string, kind Kind) (Value, error) {
	if !strings.HasPrefix(p.src[p.pos:], word) {
		return Value{}, p.unexpected()
	}
	p.pos += len(word)
	if kind == Null {
		return Value{}, nil
	}
	return Value{Kind: kind, Text: word}, nil
}

// number follows the grammar of RFC 8259: no leading zeros, digits on both
// sides of a point. An exponent beyond six digits is refused, so that every
// number has a canonical form that can be computed.
func (p *parser) number() (Value, error) {
	start := p.pos
	p.next('-')
	if !p.next('0') && p.digits() == 0 {
		return Value{}, p.unexpected()
	}
	if p.next('.') && p.digits() == 0 {
		return Value{}, p.unexpected()
	}
	if p.next('e') || p.next('E') {
		if !p.next('+') {
			p.next('-')
		}
		switch n := p.digits(); {
		case n == 0:
			return Value{}, p.unexpected()
		case n > maxExponentDigits:
			return Value{}, fmt.Errorf("number %.40s is out of range", p.src[start:p.pos])
		}
	}
	return Value{Kind: Number, Text: p.src[start:p.pos]}, nil
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) next(c byte) bool {
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) digits() int {
	start := p.pos
	for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		p.pos++
	}
	return p.pos - start
}

func (p *parser) unexpected() error { return fmt.Errorf("unexpected %s", p.here()) }

func (p *parser) here() string {
	if p.pos >= len(p.src) {
		return "end"
	}
	return strconv.Quote(p.src[p.pos : p.pos+1])
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
