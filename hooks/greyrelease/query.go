package greyrelease

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// placeholders are what can stand in a query, in the order in which they are told.
var placeholders = []string{"namespace", "name", "app", "version", "revision", "stableRevision"}

// placeholderList is what to write instead of an unknown one.
var placeholderList = "$(" + strings.Join(placeholders, "), $(") + ")"

// plainValue is what may be put into a query: nothing in it ends a string, begins
// another matcher or is an escape, in whatever quotes it stands. Every legal value
// is of this form; what is not was put into a record or a snapshot by hand.
var plainValue = regexp.MustCompile(`^[A-Za-z0-9_.:-]*$`)

// expandQuery replaces the placeholders of a query: $(name) by value("name"), $$( by
// $(. The error names what is wrong and the cure.
func expandQuery(query string, value func(name string) string) (string, error) {
	var out strings.Builder
	for rest := query; ; {
		at := strings.Index(rest, "$(")
		if at < 0 {
			out.WriteString(rest)
			return out.String(), nil
		}
		out.WriteString(rest[:at])
		if at > 0 && rest[at-1] == '$' {
			out.WriteString("(") // the first $ is there already
			rest = rest[at+2:]
			continue
		}
		name, after, closed := strings.Cut(rest[at+2:], ")")
		if !closed {
			return "", fmt.Errorf("the placeholder %q has no end: close it with \")\", or write $$( for a literal $(", cut(rest[at:]))
		}
		if !slices.Contains(placeholders, name) {
			return "", fmt.Errorf("the placeholder %q is unknown: use %s, or write $$( for a literal $(", cut("$("+name+")"), placeholderList)
		}
		with := value(name)
		if !plainValue.MatchString(with) {
			return "", fmt.Errorf("$(%s) is %q here, which cannot stand in a query", name, cut(with))
		}
		out.WriteString(with)
		rest = after
	}
}

// checkQuery says what is wrong with a query, as far as that shows without
// Prometheus, or "".
func checkQuery(query string) string {
	switch {
	case strings.TrimSpace(query) == "":
		return `must be PromQL, as in sum(rate(http_requests_total{code=~"5.."}[5m]))`
	case len(query) > maxQuery:
		return fmt.Sprintf("must be at most %d bytes: record what it computes by a rule in Prometheus, and ask for that", maxQuery)
	case strings.ContainsFunc(query, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f }):
		return "must not contain control characters"
	}
	if _, err := expandQuery(query, func(string) string { return "x" }); err != nil {
		return err.Error()
	}
	return ""
}
