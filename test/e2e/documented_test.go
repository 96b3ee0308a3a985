package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"greyrelease.example.com/test/e2e/cluster"

	"sigs.k8s.io/yaml"
)

// documented returns the commands of a section of a page in their order: the lines
// of its code blocks, and what begins with kubectl in its text. Stories run them as
// they stand, so that a page that goes wrong turns a story red.
func documented(t *testing.T, page, section string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(plane.Root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("want a section %q in %s, there is none", section, page)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	span := regexp.MustCompile("`(kubectl [^`]+)`")
	var commands []string
	block := false
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
		case block:
			commands = append(commands, line)
		default:
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				commands = append(commands, m[1])
			}
		}
	}
	return commands
}

// script runs lines in a folder, with the namespace of the story chosen.
func (s *story) script(folder string, lines ...string) string {
	s.Helper()
	out, err := plane.Script(s.ctx, folder, s.namespace, lines...)
	s.must(err)
	return out
}

// away runs lines of which the first stops the service in its namespace and the last
// starts it again; the service of this cluster follows. between gets the lines in
// the middle.
func (s *story) away(lines []string, between func(lines []string)) {
	s.Helper()
	first, last := lines[0], lines[len(lines)-1]
	const scale = "kubectl -n greyrelease-system scale deployment greyrelease --replicas="
	if first != scale+"0" || !strings.HasPrefix(last, scale) {
		s.Fatalf("want lines that begin and end with %sN, got %q", scale, lines)
	}
	s.script(plane.Dir, first)
	plane.End("greyrelease", false)
	// Also when something in between fails. The context of the test may have ended.
	defer func() {
		if err := plane.StartService(context.Background()); err != nil {
			s.Error(err)
		}
	}()
	between(lines[1 : len(lines)-1])
	s.script(plane.Dir, last)
}

// write writes objects to a file of YAML.
func (s *story) write(path string, objects ...object) {
	s.Helper()
	var text strings.Builder
	for _, o := range objects {
		document, err := yaml.Marshal(o)
		s.must(err)
		fmt.Fprintf(&text, "---\n%s", document)
	}
	s.must(os.WriteFile(path, []byte(text.String()), 0o600))
}

// dynamicOnly tells whether Metacontroller creates and updates, and so never
// touches an object of somebody else.
func dynamicOnly() bool { return *applyStrategy == cluster.DynamicApply }
