package jsontree

import (
	"fmt"
	"strconv"
)

// scanner reads the pieces that JSON is made of. A tree shares the memory of its
// text, which therefore is a string; whoever looks for a few values in bytes need
// not copy all of them first.
type scanner[T string | []byte] struct {
	src T
	pos int
	// scratch is for a string with escapes.
	scratch []byte
}

// peek is the next byte, 0 at the end.
func (s *scanner[T]) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

func (s *scanner[T]) next(c byte) bool {
	if s.pos < len(s.src) && s.src[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *scanner[T]) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// word reads true, false or null.
func (s *scanner[T]) word(word string) error {
	for i := range len(word) {
		if s.pos+i == len(s.src) || s.src[s.pos+i] != word[i] {
			return s.unexpected()
		}
	}
	s.pos += len(word)
	return nil
}

// number follows the grammar of RFC 8259: no leading zeros, digits on both
// sides of a point. An exponent beyond six digits is refused, so that every
// number has a canonical form that can be computed.
func (s *scanner[T]) number() error {
	start := s.pos
	s.next('-')
	if !s.next('0') && s.digits() == 0 {
		return s.unexpected()
	}
	if s.next('.') && s.digits() == 0 {
		return s.unexpected()
	}
	if s.next('e') || s.next('E') {
		if !s.next('+') {
			s.next('-')
		}
		switch n := s.digits(); {
		case n == 0:
			return s.unexpected()
		case n > maxExponentDigits:
			return fmt.Errorf("number %.40s is out of range", string(s.src[start:s.pos]))
		}
	}
	return nil
}

func (s *scanner[T]) digits() int {
	start := s.pos
	for s.pos < len(s.src) && isDigit(s.src[s.pos]) {
		s.pos++
	}
	return s.pos - start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// string reads a string. What is between its quotes has escapes unless plain.
func (s *scanner[T]) string() (inner T, plain bool, err error) {
	if !s.next('"') {
		return inner, false, s.unexpected()
	}
	start := s.pos
	plain = true
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case inString[c]:
			s.pos++
		case c == '"':
			s.pos++
			return s.src[start : s.pos-1], plain, nil
		case c == '\\':
			n := escapeLength(s.src[s.pos:])
			if n == 0 {
				return inner, false, s.unexpected()
			}
			plain = false
			s.pos += n
		default:
			return inner, false, s.unexpected()
		}
	}
	return inner, false, s.unexpected()
}

// name reads the name of a member and the colon after it.
func (s *scanner[T]) name() (string, error) {
	s.space()
	name, err := s.text()
	if err != nil {
		return "", err
	}
	if s.space(); !s.next(':') {
		return "", s.unexpected()
	}
	return name, nil
}

// text is what a string means. Without escapes, the usual case, nothing of a text is
// copied.
func (s *scanner[T]) text() (string, error) {
	inner, plain, err := s.string()
	if err != nil || plain {
		return string(inner), err
	}
	s.scratch = appendUnquoted(s.scratch[:0], inner)
	return string(s.scratch), nil
}

// pass passes over a value and checks that it is one. Names may stand twice.
func (s *scanner[T]) pass(depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	s.space()
	switch s.peek() {
	case '{':
		s.pos++
		if s.space(); s.next('}') {
			return nil
		}
		for {
			s.space()
			if _, _, err := s.string(); err != nil {
				return err
			}
			if s.space(); !s.next(':') {
				return s.unexpected()
			}
			if err := s.pass(depth + 1); err != nil {
				return err
			}
			if s.space(); s.next('}') {
				return nil
			}
			if !s.next(',') {
				return s.unexpected()
			}
		}
	case '[':
		s.pos++
		if s.space(); s.next(']') {
			return nil
		}
		for {
			if err := s.pass(depth + 1); err != nil {
				return err
			}
			if s.space(); s.next(']') {
				return nil
			}
			if !s.next(',') {
				return s.unexpected()
			}
		}
	case '"':
		_, _, err := s.string()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner[T]) unexpected() error { return fmt.Errorf("unexpected %s", s.here()) }

func (s *scanner[T]) here() string {
	if s.pos >= len(s.src) {
		return "end"
	}
	return strconv.Quote(string(s.src[s.pos : s.pos+1]))
}
