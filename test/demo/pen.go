package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"greyrelease.example.com/hooks/greyrelease"
)

// pen draws pictures as lines of text.
type pen struct {
	color bool
	ascii bool
}

// style is a way to set text off, as terminals call it.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "34"
	cyan   style = "36"
)

const reset = "\x1b[0m"

func (p pen) paint(s style, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + reset
}

// phase is a phase in its colour, padded.
func (p pen) phase(phase greyrelease.Phase, width int) string {
	color := cyan
	switch phase {
	case greyrelease.PhaseHealthy:
		color = green
	case greyrelease.PhasePaused:
		color = yellow
	case greyrelease.PhaseRollingBack, greyrelease.PhaseRolledBack, greyrelease.PhaseDegraded, greyrelease.PhaseInvalid:
		color = red
	case greyrelease.PhasePending, greyrelease.PhaseProgressing, greyrelease.PhasePromoting:
	}
	return p.paint(color, fmt.Sprintf("%-*s", width, phase))
}

// panel is a picture of several lines.
func (p pen) panel(pic picture, at time.Time, width int) []string {
	const columns = "  %-8s %s %-9s %-9s %-7s %-8s %s"
	lines := []string{
		"",
		p.rule(width),
		p.paint(faint, fmt.Sprintf(columns, "NAME", fmt.Sprintf("%-12s", "PHASE"), "TARGET", "STABLE", "BATCH", "WEIGHT", "READY")) +
			strings.Repeat(" ", max(1, width-74)) + at.Format(time.TimeOnly),
		fmt.Sprintf(columns, pic.name, p.phase(pic.phase, 12), dash(pic.target), dash(pic.stable), dash(pic.batch),
			fmt.Sprintf("%d%%", pic.weight), fmt.Sprint(pic.ready)),
		"",
	}
	rows := pic.shown()
	for _, r := range rows {
		// Room for 10 replicas and 3 more.
		rest := strings.Repeat(" ", int(3*max(0, 13-r.pods()-r.leaving)))
		lines = append(lines, fmt.Sprintf("  %-8s %s%s %s", r.version, p.bar(r, pic, 2), rest, p.counts(r)))
	}
	for range 2 - len(rows) {
		lines = append(lines, "")
	}
	lines = append(lines, "")
	text := wrap(pic.message, width-4)
	for len(text) < 5 {
		text = append(text, "")
	}
	lines = append(lines, indent("  ", text)...)
	for i := range lines {
		lines[i] = clip(lines[i], width)
	}
	return lines
}

func (p pen) rule(width int) string {
	if p.ascii {
		return strings.Repeat("-", width)
	}
	return p.paint(faint, strings.Repeat("─", width))
}

// shown are the rows worth a line: target, stable and what else has pods.
func (pic picture) shown() []row {
	var rows []row
	for _, r := range pic.rows {
		if r.version == pic.target || r.version == pic.stable || r.pods()+r.leaving > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// bar draws each pod as a cell.
func (p pen) bar(r row, pic picture, cell int) string {
	available, starting, leaving := "█", "░", "·"
	if p.ascii {
		available, starting, leaving = "#", "-", "."
	}
	color, waiting := green, yellow
	if r.version == pic.stable && r.version != pic.target {
		color = blue
	}
	if r.reason != "" {
		waiting = red
	}
	cells := func(text string, n int64) string {
		return strings.Repeat(strings.Repeat(text, cell)+strings.Repeat(" ", cell-1), int(n))
	}
	return p.paint(color, cells(available, r.available)) + p.paint(waiting, cells(starting, r.starting)) +
		p.paint(faint, cells(leaving, r.leaving))
}

// counts says in words what a bar shows.
func (p pen) counts(r row) string {
	var parts []string
	if r.available > 0 || r.pods()+r.leaving == 0 {
		parts = append(parts, fmt.Sprintf("%d available", r.available))
	}
	if r.starting > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", r.starting, cmp.Or(r.reason, "starting")))
	}
	if r.leaving > 0 {
		parts = append(parts, fmt.Sprintf("%d leaving", r.leaving))
	}
	return strings.Join(parts, ", ")
}

// line is a picture in one line.
func (p pen) line(pic picture) string {
	text := fmt.Sprintf("%-12s %-4s", pic.phase, dash(pic.batch))
	for _, r := range pic.shown() {
		text += fmt.Sprintf("  %s %s (%s)", r.version, p.bar(r, pic, 1), p.counts(r))
	}
	return strings.TrimSpace(text)
}

func dash(text string) string { return cmp.Or(text, "-") }

// details are parts of a message that a headline leaves out.
var details = regexp.MustCompile(`^[^ ]+ \(revision [0-9]+\): | \(revision [0-9]+\)|[0-9]{4}-[0-9]{2}-[0-9]{2}T|(:[0-9]{2})Z`)

// headline is what a message says first: what happens and what is waited for,
// without the commands.
func headline(message string) string {
	clauses := strings.SplitN(message, "; ", 3)
	text, _, _ := strings.Cut(clauses[0], ": kubectl")
	if len(clauses) > 1 && !strings.HasPrefix(clauses[1], "to ") {
		second, _, _ := strings.Cut(clauses[1], ": kubectl")
		text += "; " + second
	}
	return details.ReplaceAllString(text, "$1")
}

// wrap breaks a text between words into lines of at most width characters. A
// longer word stays whole.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// indent puts a text before the first line and as much room before the others.
func indent(before string, lines []string) []string {
	for i := range lines {
		lines[i] = before + lines[i]
		before = strings.Repeat(" ", len(before))
	}
	return lines
}

// clip cuts a line, which may hold painted words, to a width.
func clip(line string, width int) string {
	n, painted, escape := 0, false, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			painted, escape = true, true
		case escape:
			escape = r != 'm'
		default:
			if n++; n <= width {
				continue
			}
			if painted {
				return line[:i] + reset
			}
			return line[:i]
		}
	}
	return line
}
