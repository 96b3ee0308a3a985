// Package purity checks that everything below hooks/ only computes: no clock, no
// randomness, no I/O, no logging, no goroutines. The hook is replayed, compared
// and run twice side by side on that promise, and linters miss the ways around
// it, such as metav1.Now.
package purity

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "greyrelease.example.com/"

// standard lists the packages of the standard library that only compute. What is
// not here is refused, so that a new import is a decision.
var standard = []string{
	"bytes", "cmp", "compress/gzip", "crypto/sha256", "encoding/base64", "encoding/hex", "encoding/json", "errors", "fmt",
	"hash", "io", "iter", "maps", "math", "math/bits", "reflect", "regexp", "slices", "sort", "strconv", "strings", "time",
	"unicode", "unicode/utf16", "unicode/utf8",
}

// libraries lists the other packages that may be imported, each with its own
// below it.
var libraries = []string{
	"k8s.io/api", "k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/types",
	"k8s.io/apimachinery/pkg/util/intstr", "k8s.io/apimachinery/pkg/util/json", "k8s.io/apimachinery/pkg/util/validation", "sigs.k8s.io/yaml",
}

// impure lists what must not be named of a package that is allowed otherwise.
var impure = map[string][]string{
	"time":                                 {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"},
	"fmt":                                  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"io":                                   {"Pipe"},
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"Now", "NowMicro"},
	// It calls the clock for a condition whose time is zero.
	"k8s.io/apimachinery/pkg/api/meta": {"SetStatusCondition"},
}

// mayNotImport are the arrows between our own packages that must not exist, by
// the folder below hooks/ that they would begin in. No package of hooks/ imports
// anything of ours outside of it.
var mayNotImport = map[string][]string{
	"rollout":   {"hooks"},
	"jsontree":  {"hooks"},
	"composite": {"hooks/greyrelease", "hooks/history", "hooks/rollout"},
	"history":   {"hooks/greyrelease"},
}

// Tree checks every Go file of the module at root that is below hooks/, except
// tests, and returns what is wrong, one finding a line.
func Tree(root fs.FS) ([]string, error) {
	var findings []string
	err := fs.WalkDir(root, "hooks", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		found, err := File(name, source)
		findings = append(findings, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot check the packages: %w", err)
	}
	return findings, nil
}

// File checks one file; name is its path in the module, as hooks/rollout/plan.go.
func File(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("cannot parse %s: %w", name, err)
	}
	c := &checker{files: files, imported: map[string]string{}}
	c.imports(name, file)
	ast.Inspect(file, c.node)
	return c.findings, nil
}

type checker struct {
	files    *token.FileSet
	imported map[string]string // name in this file -> import path
	findings []string
}

func (c *checker) found(at ast.Node, what string) {
	p := c.files.Position(at.Pos())
	c.findings = append(c.findings, fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, what))
}

func (c *checker) imports(name string, file *ast.File) {
	folder := strings.Split(name, "/")[1]
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			imported = spec.Path.Value
		}
		alias := path.Base(imported)
		if spec.Name != nil {
			alias = spec.Name.Name
		}
		if alias == "." || alias == "_" {
			c.found(spec, "imports "+imported+" as "+alias)
		}
		c.imported[alias] = imported
		if !c.allowed(folder, imported) {
			c.found(spec, "imports "+imported)
		}
	}
}

func (c *checker) allowed(folder, imported string) bool {
	ours, isOurs := strings.CutPrefix(imported, module)
	switch {
	case isOurs && !below(ours, "hooks"):
		return false
	case isOurs:
		return !slices.ContainsFunc(mayNotImport[folder], func(forbidden string) bool { return below(ours, forbidden) })
	case imported == "k8s.io/apimachinery/pkg/api/meta":
		return true // all of it but one function, see impure
	}
	return slices.Contains(standard, imported) ||
		slices.ContainsFunc(libraries, func(library string) bool { return below(imported, library) })
}

func below(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

func (c *checker) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.found(n, "starts a goroutine")
	case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
		c.found(n, "uses a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.found(n, "uses a channel")
		}
	case *ast.CallExpr:
		c.call(n)
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && slices.Contains(impure[c.imported[x.Name]], n.Sel.Name) {
			c.found(n, "uses "+x.Name+"."+n.Sel.Name)
		}
	}
	return true
}

// call finds what has no package in front: the builtin prints, and t.Local(),
// which reads the time zone of the process.
func (c *checker) call(n *ast.CallExpr) {
	switch f := n.Fun.(type) {
	case *ast.Ident:
		if f.Name == "print" || f.Name == "println" {
			c.found(n, "uses "+f.Name)
		}
	case *ast.SelectorExpr:
		if f.Sel.Name == "Local" && len(n.Args) == 0 {
			c.found(n, "uses Local()")
		}
	}
}
