package jsontree

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// string reads a string. Without escapes, the usual case, nothing is copied.
func (p *parser) string() (string, error) {
	p.pos++
	start := p.pos
	for i := start; i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c == '"':
			p.pos = i + 1
			return p.src[start:i], nil
		case c < ' ':
			p.pos = i
			return "", p.unexpected()
		case c == '\\' || c >= utf8.RuneSelf:
			return p.slowString(start, i)
		}
	}
	p.pos = len(p.src)
	return "", p.unexpected()
}

func (p *parser) slowString(start, i int) (string, error) {
	// No escape is shorter than what it stands for: one place is enough, but for
	// invalid UTF-8.
	var buf strings.Builder
	buf.Grow(p.stringEnd(i) - start)
	buf.WriteString(p.src[start:i])
	for i < len(p.src) {
		switch c := p.src[i]; {
		case c == '"':
			p.pos = i + 1
			return buf.String(), nil
		case c < ' ':
			p.pos = i
			return "", p.unexpected()
		case c == '\\':
			r, n := unescape(p.src[i:])
			if n == 0 {
				p.pos = i
				return "", p.unexpected()
			}
			buf.WriteRune(r)
			i += n
		case c < utf8.RuneSelf:
			run := i
			for i < len(p.src) && isPlain(p.src[i]) {
				i++
			}
			buf.WriteString(p.src[run:i])
		default:
			r, n := utf8.DecodeRuneInString(p.src[i:])
			buf.WriteRune(r)
			i += n
		}
	}
	p.pos = len(p.src)
	return "", p.unexpected()
}

// stringEnd is where the string ends that goes on at i.
func (p *parser) stringEnd(i int) int {
	for ; i < len(p.src) && p.src[i] != '"'; i++ {
		if p.src[i] == '\\' {
			i++
		}
	}
	return min(i, len(p.src))
}

// isPlain is true for an ASCII character that stands for itself in a string.
func isPlain(c byte) bool { return ' ' <= c && c < utf8.RuneSelf && c != '"' && c != '\\' }

// unescape decodes the escape that s begins with; n is 0 if it is none.
func unescape(s string) (r rune, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hex4(s[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	return rune(n), err == nil //nolint:gosec // four hex digits are at most 65535
}
