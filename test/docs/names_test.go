package docs

import (
	"bytes"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/hooks/history"

	"sigs.k8s.io/yaml"
)

// all returns what the pattern's first group finds, sorted, each once.
func all(pattern, text string) []string {
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// part is what stands between two lines of a page.
func part(t *testing.T, page, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+from+"\n")
	text, _, ok2 := strings.Cut(rest, "\n"+to)
	if !ok || !ok2 {
		t.Fatalf("want a part between %q and %q, there is none", from, to)
	}
	return text
}

func compare(t *testing.T, what string, want, got []string) {
	t.Helper()
	if !slices.Equal(want, got) {
		t.Errorf("%s: want %q, got %q", what, want, got)
	}
}

func TestPhases(t *testing.T) {
	list, err := constants(read(t, "hooks/greyrelease/types.go"), "Phase")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range list {
		want = append(want, c.value)
	}
	slices.Sort(want)
	compare(t, "phases in README.md", want, all("(?m)^\\| `([A-Z][A-Za-z]+)` \\|", part(t, read(t, "README.md"), "## Phases", "## Commands")))
}

func TestResults(t *testing.T) {
	list, err := constants(read(t, "hooks/rollout/record.go"), "Result")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 5 {
		t.Fatalf("want at least 5 results, got %d", len(list))
	}
	line := regexp.MustCompile("(?m)^\\| `result` .*$").FindString(read(t, "docs/api.md"))
	for _, c := range list {
		if !strings.Contains(line, c.value) {
			t.Errorf("want %s in the meaning of result, got %s", c.value, line)
		}
	}
}

// Labels and annotations in the pages are those of the code.
func TestLabelsAndAnnotations(t *testing.T) {
	known := []string{
		greyrelease.LabelName, greyrelease.LabelRevision, greyrelease.LabelNumber, greyrelease.LabelTrack,
		greyrelease.AnnotationVersion, greyrelease.AnnotationDecision, greyrelease.AnnotationFailed, greyrelease.AnnotationCommand,
		greyrelease.AnnotationChannel, greyrelease.AnnotationPods, greyrelease.AnnotationSnapshots, history.SecretType,
	}
	const group = "greyrelease.example.com/"
	for name, page := range pages(t) {
		for _, found := range all(`greyrelease\.example\.com/([a-z0-9]+)`, page) {
			if found != "v1" && !slices.Contains(known, group+found) {
				t.Errorf("%s: the code knows no %s%s", name, group, found)
			}
		}
	}
	for _, label := range known {
		if !strings.Contains(read(t, "docs/design.md"), "`"+label+"`") {
			t.Errorf("docs/design.md does not explain %s", label)
		}
	}
}

// Fields that pages name are fields of the CRD.
func TestFields(t *testing.T) {
	var d definition
	if err := yaml.Unmarshal([]byte(read(t, "manifests/00-crd.yaml")), &d); err != nil {
		t.Fatal(err)
	}
	properties := d.Spec.Versions[0].Schema.Root.Properties
	checked := 0
	for name, page := range pages(t) {
		for _, part := range []string{"spec", "status"} {
			for _, field := range all("`"+part+`\.([a-zA-Z]+)`, page) {
				checked++
				if _, ok := properties[part].Properties[field]; !ok {
					t.Errorf("%s: there is no field %s.%s", name, part, field)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("want at least 10 fields, found %d", checked)
	}
}

// The table of flags says what --help says.
func TestFlags(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "greyrelease.example.com/server", "--help")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	help, err := command.Output()
	if err != nil {
		t.Fatalf("cannot ask the service for help: %v: %s", err, stderr.String())
	}
	var want []string
	flags := regexp.MustCompile(`(?s)  --([a-z-]+)(?: [a-z]+  \(([A-Z_]+)\))?\n {8}(.*?)\n(?:  -|$)`)
	for rest := string(help); ; {
		m := flags.FindStringSubmatchIndex(rest)
		if m == nil {
			break
		}
		row := "| `--" + rest[m[2]:m[3]] + "` |"
		if m[4] >= 0 {
			text := rest[m[6]:m[7]]
			_, value, _ := strings.Cut(text, "(default ")
			row += " `" + rest[m[4]:m[5]] + "` | `" + strings.TrimSuffix(value, ")") + "` |"
		}
		want = append(want, row)
		rest = rest[m[7]:]
	}
	if len(want) < 10 {
		t.Fatalf("want at least 10 flags, found %d in\n%s", len(want), help)
	}
	table := part(t, read(t, "docs/operations.md"), "### Flags", "### Logs")
	for _, row := range want {
		if !strings.Contains(table, "\n"+row) {
			t.Errorf("docs/operations.md: want the row %s", row)
		}
	}
	if rows := strings.Count(table, "\n| `--"); rows != len(want) {
		t.Errorf("docs/operations.md: want %d flags, got %d", len(want), rows)
	}
}

func TestMetrics(t *testing.T) {
	const metric = `((?:greyrelease|go|process)_[a-z_]+)`
	compare(t, "metrics in docs/operations.md", all(`"`+metric+`"`, read(t, "server/metrics.go")),
		all("`"+metric+"`", part(t, read(t, "docs/operations.md"), "### Metrics", "## Metacontroller")))
}

// The invariants in the pages are those of the package rollout, word for word.
func TestInvariants(t *testing.T) {
	var want []string
	text := part(t, read(t, "hooks/rollout/doc.go"), "// # Invariants", "package rollout")
	text = regexp.MustCompile(`(?m)^//[ \t]*`).ReplaceAllString(text, "")
	for _, m := range regexp.MustCompile(`(?m)^(I[0-9]+)\s+((?:.*\n)(?:[^I\n].*\n)*)`).FindAllStringSubmatch(text+"\n", -1) {
		want = append(want, "| "+m[1]+" | "+paragraph(m[2])+" |")
	}
	if len(want) != 13 {
		t.Fatalf("want 13 invariants, got %d in\n%s", len(want), text)
	}
	page := read(t, "docs/design.md")
	for _, row := range want {
		if !strings.Contains(page, "\n"+row+"\n") {
			t.Errorf("docs/design.md: want the row %s", row)
		}
	}
}
