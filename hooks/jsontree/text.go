package jsontree

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapeLength is how long the escape is that s begins with, 0 if it is none.
func escapeLength[T string | []byte](s T) int {
	switch {
	case len(s) < 2:
		return 0
	case s[1] != 'u':
		if strings.IndexByte(escapes, s[1]) < 0 {
			return 0
		}
		return 2
	case hex4(s) < 0:
		return 0
	}
	return 6
}

// escapes are the characters after a backslash, and escaped what they stand for.
const escapes, escaped = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

// unquote writes what stands between the quotes of a string that was read, without
// escapes. Unpaired surrogates become U+FFFD.
func unquote(into *strings.Builder, inner []byte) {
	for i := 0; i < len(inner); {
		switch c := inner[i]; {
		case c == '\\' && inner[i+1] == 'u':
			r := hex4(inner[i:])
			i += 6
			if utf16.IsSurrogate(r) {
				if r = utf16.DecodeRune(r, hex4(inner[i:])); r != utf8.RuneError {
					i += 6
				}
			}
			into.WriteRune(r)
		case c == '\\':
			into.WriteByte(escaped[strings.IndexByte(escapes, inner[i+1])])
			i += 2
		default:
			start := i
			for i < len(inner) && inner[i] != '\\' {
				i++
			}
			into.Write(inner[start:i])
		}
	}
}

// hex4 is the number of \u and four hex digits, -1 if s does not begin so.
func hex4[T string | []byte](s T) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}
