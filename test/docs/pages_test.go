package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the documents by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			found[name] = read(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "docs/api.md", "docs/design.md", "docs/operations.md", "docs/development.md"} {
		if found[name] == "" {
			t.Errorf("want the page %s, there is none", name)
		}
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	span    = regexp.MustCompile("`[^`\n]*`")
	strange = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are the headings of a page as links name them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := strange.ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(text, " ", "-")] = true
	}
	return found
}

func TestLinks(t *testing.T) {
	all := pages(t)
	checked := 0
	for name, page := range all {
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(fence.ReplaceAllString(page, ""), ""), -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(target, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, at)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, target)
				continue
			}
			if anchor != "" && !anchors(all[at])[anchor] {
				t.Errorf("%s: the link %s names no heading", name, target)
			}
		}
	}
	if checked < 20 {
		t.Errorf("want at least 20 links, found %d", checked)
	}
}

// The make targets and the folders of go commands that pages name are there.
func TestCommands(t *testing.T) {
	makefile := read(t, "Makefile")
	target := regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9-]+)")
	folder := regexp.MustCompile(`go (?:test|run|doc) (\./[a-z/]+)`)
	targets, folders := 0, 0
	for name, page := range pages(t) {
		for _, m := range target.FindAllStringSubmatch(page, -1) {
			targets++
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).MatchString(makefile) {
				t.Errorf("%s: there is no target for make %s", name, m[1])
			}
		}
		for _, m := range folder.FindAllStringSubmatch(page, -1) {
			folders++
			if files, err := filepath.Glob(filepath.Join(root, m[1], "*.go")); err != nil || len(files) == 0 {
				t.Errorf("%s: %s has no Go files", name, m[1])
			}
		}
	}
	if targets < 5 || folders < 3 {
		t.Errorf("want at least 5 targets and 3 folders, found %d and %d", targets, folders)
	}
}
