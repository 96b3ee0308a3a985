package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

var middle = picture{
	at: time.Date(2026, 11, 30, 12, 0, 41, 0, time.UTC),
	status: status{
		name: "web", phase: greyrelease.PhaseProgressing, target: "1.28.0", stable: "1.27.5", batch: "2/3", weight: 18, ready: 11,
		message: "1.28.0 (revision 2): batch 2 of 3, 4 of 10 pods; to give up: " +
			"kubectl annotate gr web -n default greyrelease.example.com/command='abort 2.1' --overwrite",
	},
	rows: []row{
		{version: "1.27.5", number: 1, available: 9, leaving: 1},
		{version: "1.28.0", number: 2, available: 2, starting: 2},
	},
}

func TestPanel(t *testing.T) {
	want := `
------------------------------------------------------------------------------
  NAME     PHASE        TARGET    STABLE    BATCH   WEIGHT   READY    12:00:45
  web      Progressing  1.28.0    1.27.5    2/3     18%      11

  1.27.5   ## ## ## ## ## ## ## ## ## ..           9 available, 1 leaving
  1.28.0   ## ## -- --                             2 available, 2 starting

  1.28.0 (revision 2): batch 2 of 3, 4 of 10 pods; to give up: kubectl
  annotate gr web -n default greyrelease.example.com/command='abort 2.1'
  --overwrite


`
	got := pen{ascii: true}.panel(middle, middle.at.Add(4*time.Second), 78)
	for i := range got {
		got[i] = strings.TrimRight(got[i], " ")
	}
	if got := strings.Join(got, "\n") + "\n"; want != got {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9]+m")

// No line may be longer than the terminal is wide, or the next picture would not
// be drawn over it.
func TestPanelFitsTheTerminal(t *testing.T) {
	for _, width := range []int{40, 60, 79, 110} {
		var height int
		for _, p := range []pen{{}, {color: true}, {ascii: true}} {
			lines := p.panel(middle, middle.at, width)
			for _, line := range lines {
				if visible := escapes.ReplaceAllString(line, ""); len([]rune(visible)) > width {
					t.Errorf("width %d: %q has %d columns", width, visible, len([]rune(visible)))
				}
			}
			if height != 0 && height != len(lines) {
				t.Errorf("width %d: colour makes it %d lines instead of %d", width, len(lines), height)
			}
			height = len(lines)
		}
	}
}

func TestHeadline(t *testing.T) {
	for message, want := range map[string]string{
		middle.message: "batch 2 of 3, 4 of 10 pods",
		"1.28.0 (revision 2): batch 1 of 3, 1 of 10 pods; soaking until 2026-11-30T12:00:37Z; to go on at once: kubectl": "batch 1 of 3, 1 of 10 pods; soaking until 12:00:37",
		"1.28.0 (revision 2): batch 1 of 3, 1 of 10 pods; waiting for approval: kubectl annotate; to give up: kubectl":   "batch 1 of 3, 1 of 10 pods; waiting for approval",
		"1.28.0 (revision 2) is released": "1.28.0 is released",
		"":                                "",
	} {
		if got := headline(message); want != got {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// Of pictures within a moment only the last gets a line, and each phase.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, pen: pen{ascii: true}}
	p := middle
	p.message = "going"
	s.show(p)
	p.rows = []row{{version: "1.28.0", number: 2, available: 3, starting: 1}}
	s.show(p)
	p.phase = greyrelease.PhasePaused
	s.show(p)
	s.settle()
	s.settle()
	p.rows = []row{{version: "1.28.0", number: 2, available: 4}}
	s.show(p)
	s.note("Done in %d s.", 3)
	want := `12:00:41  Progressing  2/3   1.28.0 ###- (3 available, 1 starting)
          going
12:00:41  Paused       2/3   1.28.0 ###- (3 available, 1 starting)
          going
12:00:41  Paused       2/3   1.28.0 #### (4 available)
Done in 3 s.
`
	if got := out.String(); want != got {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

func TestWrap(t *testing.T) {
	want := []string{"a bb", "ccc", "dddddddd", "ä ö ü"}
	if got := wrap("a bb ccc\n dddddddd ä ö ü", 5); !slices.Equal(want, got) {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestPlainText(t *testing.T) {
	for _, tt := range []struct {
		why  string
		env  map[string]string
		want bool
	}{
		{"nothing is said, as in a bare container", map[string]string{}, false},
		{"UTF-8", map[string]string{"LANG": "en_US.UTF-8"}, false},
		{"utf8, as some spell it", map[string]string{"LANG": "C.utf8"}, false},
		{"ASCII", map[string]string{"LANG": "C"}, true},
		{"LC_ALL wins", map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "POSIX"}, true},
	} {
		lookup := func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }
		if got := plainText(lookup); tt.want != got {
			t.Errorf("%s: want %v, got %v", tt.why, tt.want, got)
		}
	}
}
