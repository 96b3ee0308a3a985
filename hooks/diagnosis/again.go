package diagnosis

import (
	"slices"
	"strings"
	"unicode"
)

// said begins what a container said last.
const said = ", it said "

// Again is String, or the text of last time where nothing has changed but numbers in
// what the container said: lines of a log have a time in them, and each crash would be
// another text.
func (f *Finding) Again(last string) string {
	text := f.String()
	state, words, found := strings.Cut(text, said)
	lastState, lastWords, foundLast := strings.Cut(last, said)
	if found && foundLast && state == lastState && alike(words, lastWords) {
		return last
	}
	return text
}

// shorter is by how many words the end of one text may be shorter than that of
// another, because numbers in it are longer and less fits into maxText.
const shorter = 8

// alike tells whether two texts differ in nothing but words with digits in them.
func alike(a, b string) bool {
	x, y := skeleton(a), skeleton(b)
	if isCut(a) && isCut(b) {
		n := min(len(x), len(y)) - 1 // the first word may be cut through
		if n < 1 || max(len(x), len(y))-n > shorter {
			return false
		}
		x, y = x[len(x)-n:], y[len(y)-n:]
	}
	return slices.Equal(x, y)
}

// isCut tells whether a text in quotes began before.
func isCut(quoted string) bool { return len(quoted) > 4 && quoted[1:4] == "..." }

// skeleton are the words of a text, those with digits in them all the same.
func skeleton(text string) []string {
	words := strings.Fields(text)
	for i, word := range words {
		if strings.ContainsFunc(word, unicode.IsDigit) {
			words[i] = "0"
		}
	}
	return words
}
