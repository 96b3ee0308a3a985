package greyrelease

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
	"greyrelease.example.com/test/sim/apply"
)

// corpusTemplate is a file of testdata/templates: a template as a user writes
// it, and what an API server (Kubernetes 1.36) stores once a Deployment has
// been created with that template rendered for corpusIdentity. The stored ones
// were computed with Kubernetes' own defaults, conversion and protobuf.
type corpusTemplate struct {
	Name     string `json:"-"`
	About    string
	Template json.RawMessage
	Stored   json.RawMessage
}

var corpusIdentity = templateIdentity{Name: "web", App: "web", Hash: "0123456789", Version: "1.28.0"}

// dynamicRefuses are the templates that only server-side apply can keep.
var dynamicRefuses = map[string]bool{"two-protocols": true}

func corpus(t testing.TB) []corpusTemplate {
	t.Helper()
	paths, err := filepath.Glob("testdata/templates/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 15 {
		t.Fatalf("want at least 15 templates, got %d", len(paths))
	}
	templates := make([]corpusTemplate, len(paths))
	for i, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &templates[i]); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		templates[i].Name = strings.TrimSuffix(filepath.Base(path), ".json")
	}
	return templates
}

func (c corpusTemplate) render(t testing.TB) json.RawMessage {
	t.Helper()
	rendered, _, err := renderTemplate(parse(t, c.Template), corpusIdentity)
	if err != nil {
		t.Fatal(err)
	}
	return rendered.Text
}

// TestStoredTemplatesCoverTheWantedOnes: nothing an API server does to a
// template when it stores it looks like a change made by hand.
func TestStoredTemplatesCoverTheWantedOnes(t *testing.T) {
	for _, c := range corpus(t) {
		t.Run(c.Name, func(t *testing.T) {
			if got := covers(parse(t, c.render(t)), parse(t, c.Stored)); got != (difference{}) {
				t.Errorf("%s: want no difference, got %+v", c.About, got)
			}
		})
	}
}

// TestIdleDeploymentIsNeverWritten (AM-03, AM-06, AM-11): the Deployment is
// created and then synced again and again. In dynamic mode at most the first
// sync after the creation may write, and only the copy in the annotation,
// because the stored template is sent back from then on; in server-side mode
// the answer is the same bytes for ever, so that Metacontroller skips it.
func TestIdleDeploymentIsNeverWritten(t *testing.T) {
	for _, c := range corpus(t) {
		t.Run(c.Name+"/dynamic", func(t *testing.T) {
			if dynamicRefuses[c.Name] {
				if found := mustCollide(t, c.render(t), history.Dynamic); len(found) == 0 {
					t.Errorf("%s: want it refused", c.About)
				}
				return
			}
			idleDynamic(t, c)
		})
		t.Run(c.Name+"/server-side", func(t *testing.T) {
			want := c.render(t)
			if found := mustCollide(t, want, history.ServerSide); len(found) > 0 {
				t.Errorf("%s: want it accepted, got %v", c.About, found)
			}
			got := emitTemplate(rendered(t, want), c.Stored, "", history.ServerSide)
			if !bytes.Equal(want, got.Template) || got.difference != (difference{}) {
				t.Errorf("%s: want the wanted template and no difference, got %s %+v", c.About, got.Template, got.difference)
			}
		})
	}
}

func idleDynamic(t *testing.T, c corpusTemplate) {
	t.Helper()
	want := c.render(t)
	live, err := apply.Create(deploymentOf(t, want), map[string]any{"uid": "1"})
	if err != nil {
		t.Fatal(err)
	}
	stored := decode(t, c.Stored)
	live["spec"].(map[string]any)["template"] = stored
	for sync := range 10 {
		e := emitTemplate(rendered(t, want), encode(t, apply.Field(live, "spec", "template")),
			apply.Text(live, "metadata", "annotations", apply.LastApplied), history.Dynamic)
		if e.difference != (difference{}) {
			t.Fatalf("sync %d: want no difference, got %+v", sync, e.difference)
		}
		next, err := apply.Update(live, deploymentOf(t, e.Template))
		if err != nil {
			t.Fatal(err)
		}
		if !apply.Equal(stored, apply.Field(next, "spec", "template")) {
			t.Fatalf("sync %d: want the template untouched, got %s", sync, encode(t, apply.Field(next, "spec", "template")))
		}
		if sync > 0 && !apply.Equal(live, next) {
			t.Fatalf("sync %d: want no write, got one of %s", sync, encode(t, next))
		}
		live = next
	}
}

// TestUnknownTemplateOfADeploymentIsLeftAlone: the snapshot is gone, so that
// nobody knows what was wanted.
func TestUnknownTemplateOfADeploymentIsLeftAlone(t *testing.T) {
	for _, c := range corpus(t) {
		got := emitTemplate(history.Template{}, c.Stored, "", history.Dynamic)
		if !jsontree.Equal(parse(t, c.Stored), parse(t, got.Template)) {
			t.Errorf("%s: want %s, got %s", c.Name, c.Stored, got.Template)
		}
	}
}

func deploymentOf(t testing.TB, template json.RawMessage) map[string]any {
	t.Helper()
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web-0123456789"},
		"spec":     map[string]any{"replicas": int64(3), "template": decode(t, template)},
	}
}

func decode(t testing.TB, raw json.RawMessage) map[string]any {
	t.Helper()
	v, err := apply.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func parse(t testing.TB, raw json.RawMessage) jsontree.Value {
	t.Helper()
	v, err := jsontree.Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func rendered(t testing.TB, text json.RawMessage) history.Template {
	t.Helper()
	return history.Template{Text: text, Tree: parse(t, text)}
}

func mustCollide(t testing.TB, template json.RawMessage, mode history.Mode) []collision {
	t.Helper()
	return collisions(parse(t, template), mode)
}
