package jsontree

import (
	"strconv"
	"strings"
)

// maxExponentDigits bounds an exponent to ±999999.
const maxExponentDigits = 6

// plainDigits is how many digits a number may have before the zeros at its
// end are written as an exponent. 21 is the limit JavaScript and RFC 8785 use;
// every 64-bit integer has fewer.
const plainDigits = 21

// Canonical is the canonical text of v: names sorted, no space, null members
// of objects dropped (null means absent; nulls in arrays stay), numbers by
// value (5, 5.0 and 50e-1 are all 5), strings with the fewest escapes and
// without the HTML ones. Empty objects, arrays and strings stay: `emptyDir: {}`
// means something.
func Canonical(v Value) []byte { return AppendCanonical(nil, v) }

// AppendCanonical appends the canonical text of v to dst.
func AppendCanonical(dst []byte, v Value) []byte {
	switch v.Kind {
	case Null:
		return append(dst, "null"...)
	case Bool, Verbatim:
		return append(dst, v.Text...)
	case Number:
		return appendNumber(dst, v.Text)
	case String:
		return AppendString(dst, v.Text)
	case Array:
		dst = append(dst, '[')
		for i, item := range v.Items() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendCanonical(dst, item)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		first := true
		for _, m := range v.Members() {
			if m.Value.Kind == Null {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(AppendString(dst, m.Name), ':')
			dst = AppendCanonical(dst, m.Value)
		}
		return append(dst, '}')
	}
	return dst
}

// AppendCompact appends a text that is known to be JSON without the white space between
// its pieces; all else stays as it is written.
func AppendCompact(dst, text []byte) []byte {
	s := apart{scanner[[]byte]{src: text}}
	kept := 0
	for s.pos < len(text) {
		switch text[s.pos] {
		case '"':
			s.skipString()
		case ' ', '\t', '\n', '\r':
			dst = append(dst, text[kept:s.pos]...)
			s.space()
			kept = s.pos
		default:
			s.pos++
		}
	}
	return append(dst, text[kept:]...)
}

// AppendString appends s as a JSON string with the fewest escapes.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if at := strings.IndexByte("\"\\\b\f\n\r\t", c); at >= 0 {
			dst = append(dst, '\\', `"\bfnrt`[at])
			continue
		}
		dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return append(append(dst, s[start:]...), '"')
}

// Number is the canonical form of a number.
func (v Value) Number() string {
	if isPlainInteger(v.Text) {
		return v.Text
	}
	return string(appendNumber(nil, v.Text))
}

// appendNumber appends the canonical form of a number: the digits without
// zeros around them and where the point stands decide, nothing is rounded.
//
//	5.0, 5e0, 50e-1  -> 5        -0      -> 0
//	1.50             -> 1.5      1e30    -> 1e30
//	0.00025          -> 0.00025  2.5e-9  -> 25e-10
func appendNumber(dst []byte, text string) []byte {
	if isPlainInteger(text) {
		return append(dst, text...)
	}
	mantissa, negative := strings.CutPrefix(text, "-")
	exponent := 0
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(mantissa[i+1:]) // the parser saw to it that it fits
		mantissa = mantissa[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	kept := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(kept)
	if kept == "" {
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	point := len(kept) + exponent // how many digits stand before the point
	switch {
	case exponent == 0:
		return append(dst, kept...)
	case exponent > 0 && point <= plainDigits:
		dst = append(dst, kept...)
		return append(dst, strings.Repeat("0", exponent)...)
	case exponent < 0 && point > 0:
		dst = append(dst, kept[:point]...)
		return append(append(dst, '.'), kept[point:]...)
	case exponent < 0 && point > -6:
		dst = append(dst, "0."...)
		dst = append(dst, strings.Repeat("0", -point)...)
		return append(dst, kept...)
	}
	return strconv.AppendInt(append(append(dst, kept...), 'e'), int64(exponent), 10)
}

// isPlainInteger is true for 0 and for integers of at most plainDigits digits
// without point and exponent, which are canonical as they stand; -0 is not.
func isPlainInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if len(digits) > plainDigits || text == "-0" {
		return false
	}
	for i := range len(digits) {
		if !isDigit(digits[i]) {
			return false
		}
	}
	return true
}
