package diagnosis

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxText is how many bytes are kept of a text: of what a container said last the
// end, of what the scheduler says the beginning.
const maxText = 200

// piece is how many bytes are looked at for them: twice as much, because spaces may
// be about to go.
const piece = 2 * maxText

// Text is a text that comes from elsewhere: its beginning and its end, on one line
// and without control characters. No more of it is kept in memory.
type Text struct{ Head, Tail string }

// UnmarshalJSON reads a string. Of 4 KiB of last words, which each of many pods may
// have, only both ends are decoded.
func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) < 2 || data[0] != '"' {
		return json.Unmarshal(data, new(string)) // null, or what is no string
	}
	start, end, cut := ends(data[1 : len(data)-1])
	if head := line(unquoted(start)); cut {
		*t = Text{Head: upTo(head), Tail: from(line(unquoted(end)))}
	} else {
		*t = short(head)
	}
	return nil
}

// ends are the first and the last bytes of what stands between the quotes of a JSON
// string: as much as gives a piece each. Escapes are not cut through. Where the string
// is no longer than a piece, start is all of it and cut is false.
func ends(inner []byte) (start, end []byte, cut bool) {
	if len(inner) <= piece {
		return inner, nil, false
	}
	total := 0
	for i := 0; i < len(inner); i += token(inner[i:]) {
		total++
	}
	if total <= piece {
		return inner, nil, false
	}
	n := 0
	for i := 0; i < len(inner); i += token(inner[i:]) {
		if n == piece {
			start = inner[:i]
		}
		if n == total-piece {
			end = inner[i:]
		}
		n++
	}
	return start, end, true
}

// token is how long what comes next is: an escape, or a byte.
func token(inner []byte) int {
	switch {
	case inner[0] != '\\':
		return 1
	case len(inner) > 1 && inner[1] == 'u':
		return min(6, len(inner))
	}
	return min(2, len(inner))
}

// unquoted is what stands between the quotes of a JSON string, which the decoder has
// checked. Where a character was cut through, its rest is not printable, and goes.
func unquoted(inner []byte) string {
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	out := make([]byte, 0, len(inner))
	for len(inner) > 0 {
		n := token(inner)
		switch {
		case n == 1:
			out = append(out, inner[0])
		case n == 6:
			r := escaped(inner)
			if second := escaped(inner[n:]); utf16.IsSurrogate(r) && utf16.IsSurrogate(second) {
				r = utf16.DecodeRune(r, second)
				n = 12
			}
			out = utf8.AppendRune(out, r)
		case inner[1] == '"' || inner[1] == '\\' || inner[1] == '/':
			out = append(out, inner[1])
		default:
			out = append(out, '\n') // the others are kinds of space
		}
		inner = inner[n:]
	}
	return string(out)
}

// escaped is the character of \u and four digits, or that of none.
func escaped(inner []byte) rune {
	if len(inner) < 6 || inner[0] != '\\' || inner[1] != 'u' {
		return utf8.RuneError
	}
	n, err := strconv.ParseUint(string(inner[2:6]), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// short is a text of which all is there.
func short(text string) Text {
	if len(text) <= maxText {
		return Text{Head: text, Tail: text}
	}
	return Text{Head: upTo(text), Tail: from(text)}
}

// bounded is a text that is no message, as a reason: it may be of any length too.
func bounded(text string) string {
	if len(text) <= maxText {
		return line(text)
	}
	return upTo(line(text[:min(len(text), piece)]))
}

// upTo is the beginning of a text that goes on.
func upTo(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "") + "..."
}

// from is the end of a text that began before.
func from(text string) string {
	return "..." + strings.ToValidUTF8(text[max(0, len(text)-maxText):], "")
}

// line makes one line of a text, without what would move a cursor or colour a screen.
func line(text string) string {
	out := make([]byte, 0, len(text))
	space := false
	for _, r := range text {
		if r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			space = true
			continue
		}
		if space && len(out) > 0 {
			out = append(out, ' ')
		}
		space = false
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}
