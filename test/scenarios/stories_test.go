package scenarios

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"greyrelease.example.com/test/sim"
)

var (
	update  = flag.Bool("update", false, "write what the stories print into their files")
	stories = flag.String("stories", "testdata", "the directory with the stories")
)

var modes = []sim.Mode{sim.Dynamic, sim.ServerSide}

func TestStories(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(*stories, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			tell(t, file)
		})
	}
}

func tell(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	story, err := Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	want := make([][]string, len(story.Blocks))
	for i, b := range story.Blocks {
		want[i] = b.Want
	}
	for _, mode := range modes {
		if len(story.Modes) > 0 && !slices.Contains(story.Modes, string(mode)) {
			continue
		}
		got, err := NewStage(mode, story.Slow, story.Kinds...).Play(story)
		if err != nil {
			t.Errorf("%s in mode %s: %v", file, mode, err)
			continue
		}
		if *update {
			if err := os.WriteFile(file, []byte(story.Format(got)), 0o600); err != nil {
				t.Fatal(err)
			}
			*story, want = reread(t, file), got
			continue
		}
		for i, b := range story.Blocks {
			if !slices.Equal(want[i], got[i]) {
				t.Errorf("%s:%d: in mode %s\n%s", file, b.Line, mode, difference(want[i], got[i]))
			}
		}
	}
}

func reread(t *testing.T, file string) Story {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	story, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return *story
}

func difference(want, got []string) string {
	var b strings.Builder
	for i := range max(len(want), len(got)) {
		w, g := at(want, i), at(got, i)
		if w == g {
			fmt.Fprintf(&b, "      %s\n", w)
			continue
		}
		fmt.Fprintf(&b, "want: %s\n got: %s\n", w, g)
	}
	return b.String()
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
