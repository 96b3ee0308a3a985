package jsontree

import (
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// inString are the bytes that stand for themselves in a string, those of other
// characters than ASCII among them.
var inString = func() (is [256]bool) {
	for c := ' '; c < 256; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

// escapes are what may follow a backslash, by what it stands for.
var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escapeLength is how long the escape is that s begins with, 0 if it is none.
func escapeLength[T string | []byte](s T) int {
	switch {
	case len(s) < 2:
		return 0
	case escapes[s[1]] != 0:
		return 2
	case hex4(s) >= 0:
		return 6
	}
	return 0
}

// appendUnquoted appends what stands between the quotes of a string that was read,
// without escapes. Unpaired surrogates become U+FFFD.
func appendUnquoted[T string | []byte](dst []byte, inner T) []byte {
	// No escape is shorter than what it stands for.
	dst = slices.Grow(dst, len(inner))
	for i := 0; i < len(inner); {
		start := i
		for i < len(inner) && inner[i] != '\\' {
			i++
		}
		if dst = append(dst, inner[start:i]...); i == len(inner) {
			break
		}
		if c := escapes[inner[i+1]]; c != 0 {
			dst = append(dst, c)
			i += 2
			continue
		}
		r := hex4(inner[i:])
		i += 6
		if utf16.IsSurrogate(r) {
			if r = utf16.DecodeRune(r, hex4(inner[i:])); r != utf8.RuneError {
				i += 6
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
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
