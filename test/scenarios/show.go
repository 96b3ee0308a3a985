package scenarios

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// width is where a message is wrapped.
const width = 104

// line is the state of the release on one line: the time since the start, the
// phase, the batch, and of each revision the pods asked for, ready and available.
func (s *Stage) line() string {
	return fmt.Sprintf("%9s  %s", s.Elapsed().Truncate(time.Second), s.state())
}

func (s *Stage) state() string {
	o := s.Server.Get(s.Release)
	if o == nil {
		return strings.TrimRight("no release  "+s.pods(), " ")
	}
	phase, progress := o.Text("status", "phase"), o.Text("status", "progress")
	if phase == "" {
		phase = "(no status)"
	}
	if progress == "" {
		progress = "-"
	}
	text := fmt.Sprintf("%-11s %4s  %s  weight %d", phase, progress, s.pods(), o.Int("status", "canaryWeight"))
	if apply.Object(o.Tree, "spec", "traffic") != nil {
		text += "  " + s.shares()
	}
	return text
}

func (s *Stage) pods() string {
	var list []string
	for _, d := range s.byNumber() {
		w := s.Workload(d.Ref)
		text := fmt.Sprintf("%s:%d/%d/%d", d.Label(numberLabel), w.Asked, w.Ready, w.Available)
		if d.Label(numberLabel) == "" {
			text = d.Name + text
		}
		if d.Deleting() {
			text += " (going)"
		} else if d.Controller() == nil && d.Label(numberLabel) != "" {
			text += " (ownerless)"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// byNumber returns the Deployments in the order of their revisions.
func (s *Stage) byNumber() []*sim.Object {
	list := s.Server.List(sim.Deployments)
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i].Label(numberLabel), list[j].Label(numberLabel)
		return len(a) < len(b) || len(a) == len(b) && a < b
	})
	return list
}

func (s *Stage) show() []string {
	lines := []string{s.line()}
	if o := s.Server.Get(s.Release); o != nil {
		lines = append(lines, wrap(o.Text("status", "message"))...)
	}
	return lines
}

// wrap puts each part of a message on a line of its own. The line that gives
// a command is shown as [promote 2.1@4].
func wrap(text string) []string {
	var lines []string
	text = printedCommands.ReplaceAllString(text, "[$1]")
	for _, part := range strings.SplitAfter(text, "; ") {
		line := ""
		for _, word := range strings.Fields(part) {
			if line != "" && len(line)+1+len(word) > width {
				lines = append(lines, "          "+line)
				line = "  "
			}
			line += " " + word
		}
		lines = append(lines, "          "+line)
	}
	return lines
}

func (s *Stage) conditions() []string {
	o := s.Server.Get(s.Release)
	if o == nil {
		return []string{"no release"}
	}
	var list []string
	for _, c := range apply.List(o.Tree, "status", "conditions") {
		list = append(list, fmt.Sprintf("%s=%s (%s)", apply.Text(c, "type"), apply.Text(c, "status"), apply.Text(c, "reason")))
	}
	return []string{strings.Join(list, ", ")}
}

func (s *Stage) history() []string {
	o := s.Server.Get(s.Release)
	if o == nil {
		return []string{"no release"}
	}
	var list []string
	for _, e := range apply.List(o.Tree, "status", "history") {
		text := fmt.Sprintf("revision %v (%s) %s", apply.Field(e, "revision"), apply.Text(e, "version"), apply.Text(e, "result"))
		if reason := apply.Text(e, "reason"); reason != "" {
			text += ": " + reason
		}
		list = append(list, text)
	}
	return list
}

func (s *Stage) writes() string {
	var list []string
	for kind, n := range s.newWrites() {
		list = append(list, fmt.Sprintf("%s %d", kind, n))
	}
	sort.Strings(list)
	return "writes: " + strings.Join(list, ", ")
}
