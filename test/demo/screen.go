package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// screen is where the show is. On a terminal the picture stands below the lines
// that were written and moves; elsewhere there are only lines.
type screen struct {
	out  io.Writer
	live bool
	pen  pen
	// columns is the width of the terminal, 0 when it does not tell.
	columns func() int

	drawn []string // lines of the picture that stand on the terminal
	last  picture  // the last one that a line was written about
	next  *picture // one that may be worth a line
}

// openScreen finds out what the file can show.
func openScreen(f *os.File, lookup func(string) (string, bool)) *screen {
	s := &screen{out: f}
	_, rows, terminal := terminalSize(f)
	kind, _ := lookup("TERM")
	// A picture that scrolls away could not be drawn over.
	s.live = terminal && kind != "dumb" && (rows == 0 || rows >= pictureHeight)
	s.columns = func() int {
		columns, _, _ := terminalSize(f)
		return columns
	}
	s.pen = pen{color: s.live && !set(lookup, "NO_COLOR"), ascii: plainText(lookup)}
	if s.live {
		fmt.Fprint(s.out, hideCursor)
	}
	return s
}

func set(lookup func(string) (string, bool), name string) bool {
	value, _ := lookup(name)
	return value != ""
}

// plainText tells whether the locale says that only ASCII can be shown.
func plainText(lookup func(string) (string, bool)) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value, _ := lookup(name); value != "" {
			return !strings.Contains(strings.ToUpper(strings.ReplaceAll(value, "-", "")), "UTF8")
		}
	}
	return false
}

// pictureHeight is the number of rows that a picture needs with the lines around
// it, on a narrow terminal too.
const pictureHeight = 20

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K"
	clearRest  = "\x1b[J"
)

// leave lets the picture stand where it is. What is written from now on is below.
func (s *screen) leave() {
	s.settle()
	if s.live {
		s.drawn = nil
		s.write([]string{""})
	}
}

// close leaves the terminal as it was found.
func (s *screen) close() {
	if s.live {
		fmt.Fprint(s.out, showCursor)
	}
}

// width is the number of columns to write in. What is no terminal has no lines to
// wrap, so that commands can be copied from it.
func (s *screen) width() int {
	if !s.live {
		return 1 << 20
	}
	return min(max(cmp.Or(s.columns(), 80)-1, 40), 110)
}

// note writes lines that stay.
func (s *screen) note(format string, args ...any) {
	s.settle()
	s.write(wrap(fmt.Sprintf(format, args...), s.width()))
}

// title begins a story.
func (s *screen) title(text string) {
	s.settle()
	lines := []string{""}
	for _, line := range wrap(text, s.width()) {
		lines = append(lines, s.pen.paint(bold, line))
	}
	s.write(append(lines, ""))
}

// command shows a command line that is about to be carried out.
func (s *screen) command(at time.Time, line string) {
	s.settle()
	text := wrap("$ "+line, s.width()-10)
	for i := range text {
		text[i] = s.pen.paint(bold, text[i])
	}
	s.write(indent(at.Format(time.TimeOnly)+"  ", text))
}

// show shows a new picture.
func (s *screen) show(p picture) {
	if p.phase == "" {
		return
	}
	if s.next != nil && s.next.phase != p.phase {
		s.settle()
	}
	s.next = &p
	s.tick(p, p.at)
}

// tick shows a picture as it is at a later instant.
func (s *screen) tick(p picture, at time.Time) {
	if s.live && p.phase != "" {
		s.draw(nil, s.pen.panel(p, at, s.width()))
	}
}

// settle writes about the latest picture. It is called when that has stood for a
// moment: of what changes many times within one, only the last is worth a line,
// and each phase.
func (s *screen) settle() {
	if s.next == nil {
		return
	}
	p, last := *s.next, s.last
	s.last, s.next = p, nil
	at := p.at.Format(time.TimeOnly) + "  "
	news := p.phase != last.phase || p.batch != last.batch || p.target != last.target
	switch {
	case s.live && (news || headline(p.message) != headline(last.message)):
		text := wrap(headline(p.message), s.width()-22)
		s.write(append([]string{at + s.pen.phase(p.phase, 12) + text[0]}, indent(strings.Repeat(" ", 22), text[1:])...))
	case !s.live && (news || p.message != last.message):
		s.write(indent(at, []string{s.pen.line(p), p.message}))
	case !s.live && !slices.Equal(p.rows, last.rows):
		s.write([]string{at + s.pen.line(p)})
	}
}

// write adds lines above the picture.
func (s *screen) write(lines []string) {
	if s.live {
		s.draw(lines, s.drawn)
		return
	}
	fmt.Fprintln(s.out, strings.Join(lines, "\n"))
}

// draw writes lines over the picture that stands there, and the new picture below.
func (s *screen) draw(lines, picture []string) {
	var b strings.Builder
	if n := len(s.drawn); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", n)
	}
	for _, line := range append(append([]string(nil), lines...), picture...) {
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearRest)
	s.drawn = picture
	fmt.Fprint(s.out, b.String())
}
