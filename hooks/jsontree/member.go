package jsontree

import (
	"bytes"
	"fmt"
)

// ParseMember reads one member of an object and passes over the others without
// building them: a snapshot is opened for one of two long texts, a template for
// a label. What is passed over is looked at only as far as that takes, so that
// the text must be known to be JSON.
func ParseMember(text []byte, name string) (member Value, found bool, err error) {
	p := apart{scanner[[]byte]{src: text}}
	if p.space(); !p.next('{') {
		_, err := Parse(text)
		return Value{}, false, err // what is no object has no members
	}
	for p.space(); !p.next('}'); p.space() {
		f, err := p.field()
		switch {
		case err == nil && f.Name == name && found:
			err = fmt.Errorf("name %q stands twice in one object", name)
		case err == nil && f.Name == name:
			found = true
			member, err = Parse(f.Raw)
		}
		if err != nil {
			return Value{}, false, fmt.Errorf("cannot read JSON at offset %d: %w", p.pos, err)
		}
	}
	return member, found, nil
}

// Field is one name of an object and the text of its value.
type Field struct {
	Name string
	Raw  []byte
}

// Fields takes an object apart and leaves the values as they are written; ok is
// false if the text is no object. Like ParseMember it looks only as far as that
// takes, so that the text must be known to be JSON. A name can stand twice.
func Fields(text []byte) (fields []Field, ok bool) {
	p := apart{scanner[[]byte]{src: text}}
	if p.space(); !p.next('{') {
		return nil, false
	}
	fields = make([]Field, 0, min(bytes.Count(text, []byte{','})+1, 16))
	for p.space(); !p.next('}'); p.space() {
		f, err := p.field()
		if err != nil {
			return nil, false
		}
		fields = append(fields, f)
	}
	return fields, true
}

// apart takes objects apart.
type apart struct{ scanner[[]byte] }

// field reads a member of an object, and the comma after it.
func (p *apart) field() (Field, error) {
	name, err := p.name()
	if err != nil {
		return Field{}, err
	}
	p.space()
	start := p.pos
	p.skip()
	f := Field{Name: name, Raw: bytes.TrimRight(p.src[start:p.pos], " \t\r\n")}
	if p.space(); !p.next(',') && p.peek() != '}' {
		return Field{}, p.unexpected()
	}
	return f, nil
}

// skip passes over one value.
func (p *apart) skip() {
	for depth := 0; p.pos < len(p.src); {
		switch p.src[p.pos] {
		case '"':
			p.skipString()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return // the end of a number or a word, and of the object around it
			}
			if depth == 0 {
				p.pos++
				return
			}
		case ',':
			if depth == 0 {
				return
			}
		}
		p.pos++
	}
}

func (p *apart) skipString() {
	for p.pos++; p.pos < len(p.src); p.pos++ {
		switch p.src[p.pos] {
		case '\\':
			p.pos++
		case '"':
			p.pos++
			return
		}
	}
	p.pos = len(p.src)
}
