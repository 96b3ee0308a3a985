package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folders are the versions that were captured, each with the SHA-256 of all its
// files. A folder whose sum differs was changed; clusters out there were not.
var folders = map[string]string{
	"v0.1": "2348656dd7ef69a24e6bdf87e8145dbf8f031c84bc7dc97cd5f35a60534871bd",
}

// sumOf is the SHA-256 over the names and contents of the files of a folder.
func sumOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %s\n", sum(data), e.Name())
	}
	return sum([]byte(all.String()))
}

func TestNothingCapturedWasChanged(t *testing.T) {
	entries, err := os.ReadDir(testdata)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(folders) {
		t.Errorf("want %d folders, got %v", len(folders), entries)
	}
	for _, e := range entries {
		if want, got := folders[e.Name()], sumOf(t, filepath.Join(testdata, e.Name())); want != got {
			t.Errorf("%s: want the sum %s, got %s", e.Name(), want, got)
		}
	}
}

// TestRequests: each request that a version answered in the middle of a release
// gets an answer that moves no template, no number and no pod.
func TestRequests(t *testing.T) {
	for version := range folders {
		paths, err := filepath.Glob(filepath.Join(testdata, version, "*.jsonl.gz"))
		if err != nil {
			t.Fatal(err)
		}
		atRest, count := 0, 0
		for _, path := range paths {
			moments, err := readLines[moment](path)
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range moments {
				count++
				if m.Then.Rest != "" {
					atRest++
				}
				differences, err := m.replay()
				if err != nil {
					t.Errorf("%s, line %d: %v", path, i+1, err)
				}
				for _, d := range differences {
					t.Errorf("%s, line %d: %s", path, i+1, d)
				}
			}
		}
		if count < 100 || atRest < 20 {
			t.Errorf("%s: want at least 100 requests and 20 at rest, got %d and %d", version, count, atRest)
		}
	}
}

// TestTemplates: what a user has in Git is the same revision, with the same pods,
// for every version.
func TestTemplates(t *testing.T) {
	for version := range folders {
		list, err := readLines[template](filepath.Join(testdata, version, templatesFile))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < 20 {
			t.Errorf("%s: want at least 20 templates, got %d", version, len(list))
		}
		for _, then := range list {
			now, err := then.release()
			if err != nil {
				t.Errorf("%s: %s: %v", version, then.About, err)
				continue
			}
			for _, d := range then.differences(now) {
				t.Errorf("%s: %s: %s", version, then.About, d)
			}
		}
	}
}
