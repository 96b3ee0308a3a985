package purity

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// direct are the modules that the product may require, and linked those that come into
// the program with them. Another one is a decision: a security reviewer reads this list.
var (
	direct = []string{"github.com/go-chi/chi/v5", "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"}
	linked = []string{
		"github.com/fxamacker/cbor/v2", "github.com/go-chi/chi/v5", "github.com/go-logr/logr", "github.com/json-iterator/go",
		"github.com/modern-go/concurrent", "github.com/modern-go/reflect2", "github.com/x448/float16", "go.yaml.in/yaml/v2",
		"golang.org/x/net", "golang.org/x/text", "gopkg.in/inf.v0", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/klog/v2",
		"k8s.io/kube-openapi", "k8s.io/utils", "sigs.k8s.io/json", "sigs.k8s.io/randfill", "sigs.k8s.io/structured-merge-diff/v6",
	}
)

const root = "../.."

// allowed tells whether a package is of the standard library, ours, or of a module of the
// list.
func allowed(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") || below(imported, strings.TrimSuffix(module, "/")) ||
		slices.ContainsFunc(direct, func(m string) bool { return below(imported, m) })
}

func TestRequirements(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) v\S+$`).FindAllStringSubmatch(string(text), -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	if !slices.Equal(direct, got) {
		t.Errorf("want the requirements %v, got %v", direct, got)
	}
	if strings.Contains(string(text), "replace ") {
		t.Error("want no module replaced")
	}
}

// Every file of the product's module, tests included, imports nothing else. Folders with
// a go.mod of their own are other modules.
func TestImports(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != root || strings.HasPrefix(d.Name(), ".") && name != root || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !allowed(imported) {
				t.Errorf("%s imports %s, which is in no module of the list", name, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("want at least 100 files, found %d", files)
	}
}

// What the program is linked from.
func TestLinked(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./server")
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("cannot list what is linked: %v", err)
	}
	got := strings.Fields(string(out))
	got = slices.DeleteFunc(got, func(m string) bool { return m+"/" == module })
	slices.Sort(got)
	if got := slices.Compact(got); !slices.Equal(linked, got) {
		t.Errorf("want the modules %v, got %v", linked, got)
	}
}

// The check finds what it should.
func TestAllowed(t *testing.T) {
	for imported, want := range map[string]bool{
		"net/http": true, "greyrelease.example.com/hooks/rollout": true, "k8s.io/api/core/v1": true, "github.com/go-chi/chi/v5/middleware": true,
		"k8s.io/client-go/rest": false, "k8s.io/apiserver": false, "github.com/go-chi/chi": false, "github.com/prometheus/client_golang/prometheus": false,
		"golang.org/x/net/http2": false, "greyrelease.example.com.evil.org/x": false,
	} {
		if got := allowed(imported); want != got {
			t.Errorf("%s: want %v, got %v", imported, want, got)
		}
	}
}

// The licence is in the repository, and named in the image.
func TestLicence(t *testing.T) {
	for path, want := range map[string]string{
		"LICENSE": "Apache License\n                           Version 2.0, January 2004", "Dockerfile": `org.opencontainers.image.licenses="Apache-2.0"`, "README.md": "Apache License 2.0",
	} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: want %q", path, want)
		}
	}
}
