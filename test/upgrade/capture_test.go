package upgrade

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
)

var captured = flag.String("capture", "", "version whose folder is to be captured from the current code; it must not exist yet")

const (
	testdata      = "testdata"
	templatesFile = "templates.jsonl"
	recordedFile  = "recorded.jsonl.gz"
)

// TestCapture tells every story that is there to be captured, so that a version
// can be captured at any time; with -capture it writes what it finds.
func TestCapture(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(testdata, *captured)
	if _, err := os.Stat(kept); *captured != "" && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is there (%v): what was captured once is never captured again", kept, err)
	}
	phases := map[string]bool{}
	for _, s := range stories {
		for _, mode := range []sim.Mode{sim.Dynamic, sim.ServerSide} {
			moments, err := tell(s.Name, s.Script, mode)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range moments {
				phases[m.Then.Status.Phase] = true
			}
			if err := writeLines(filepath.Join(dir, s.Name+"-"+string(mode)+".jsonl.gz"), true, moments); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, phase := range []string{"Pending", "Progressing", "Paused", "Promoting", "Healthy", "RollingBack", "RolledBack", "Degraded", "Invalid"} {
		if !phases[phase] {
			t.Errorf("want a request of phase %s, got none", phase)
		}
	}
	if err := writeLines(filepath.Join(dir, recordedFile), true, recordedMoments(t)); err != nil {
		t.Error(err)
	}
	if err := writeLines(filepath.Join(dir, templatesFile), false, madeTemplates(t)); err != nil {
		t.Error(err)
	}
	if *captured == "" || t.Failed() {
		return
	}
	if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	t.Logf("add to the list of folders:\n\t%q: %q,", *captured, sumOf(t, kept))
}

// recordedMoments are the requests of test/fixtures that came from a real cluster.
func recordedMoments(t *testing.T) []moment {
	t.Helper()
	paths, err := filepath.Glob("../fixtures/recorded/*.request.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("want recorded requests, got %d (%v)", len(paths), err)
	}
	var moments []moment
	for _, path := range paths {
		request, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(strings.TrimSuffix(path, ".request.json") + ".answer.json")
		if err != nil {
			t.Fatal(err)
		}
		var recorded struct{ Now time.Time }
		if err := json.Unmarshal(text, &recorded); err != nil {
			t.Fatal(err)
		}
		answer, err := sync(request, recorded.Now)
		if err != nil {
			t.Fatal(err)
		}
		then, err := outcomeOf(request, answer)
		if err != nil {
			t.Fatal(err)
		}
		server := strings.HasPrefix(filepath.Base(path), "server-side-")
		moments = append(moments, moment{Now: recorded.Now, ServerSide: server, Then: then, Request: request})
	}
	return moments
}

func madeTemplates(t *testing.T) []template {
	t.Helper()
	list, err := templates("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i], err = list[i].release(); err != nil {
			t.Fatal(err)
		}
	}
	return list
}
