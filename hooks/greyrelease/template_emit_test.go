package greyrelease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/test/sim/apply"
)

// child is a Deployment under dynamic apply, with the API server's part played
// by a function that stores a template.
type child struct {
	t      *testing.T
	want   json.RawMessage
	live   map[string]any
	store  func(template map[string]any)
	writes int
}

// corpusChild is the Deployment of a template of the corpus, just created.
func corpusChild(t *testing.T, name string) *child {
	t.Helper()
	for _, c := range corpus(t) {
		if c.Name != name {
			continue
		}
		want := c.render(t)
		live, err := apply.Create(deploymentOf(t, want), map[string]any{"uid": "1"})
		if err != nil {
			t.Fatal(err)
		}
		live["spec"].(map[string]any)["template"] = decode(t, c.Stored)
		return &child{t: t, want: want, live: live, store: func(map[string]any) {}}
	}
	t.Fatalf("no template %s", name)
	return nil
}

func (c *child) template() map[string]any { return apply.Object(c.live, "spec", "template") }

func (c *child) edit(change func(template map[string]any)) {
	c.live = apply.CloneMap(c.live)
	change(c.template())
}

func (c *child) sync() emission {
	c.t.Helper()
	e := emitTemplate(rendered(c.t, c.want), encode(c.t, c.template()),
		apply.Text(c.live, "metadata", "annotations", apply.LastApplied), history.Dynamic)
	next, err := apply.Update(c.live, deploymentOf(c.t, e.Template))
	if err != nil {
		c.t.Fatal(err)
	}
	c.store(apply.Object(next, "spec", "template"))
	if !apply.Equal(c.live, next) {
		c.writes++
	}
	c.live = next
	return e
}

func containers(template map[string]any) []any { return apply.List(template, "spec", "containers") }

const restartedAt = "kubectl.kubernetes.io/restartedAt"

func restart(template map[string]any) {
	metadata := template["metadata"].(map[string]any)
	annotations := apply.CloneMap(apply.Object(metadata, "annotations"))
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[restartedAt] = "2026-11-30T12:00:00Z"
	metadata["annotations"] = annotations
}

// TestRolloutRestartSurvives: pods that were restarted with kubectl are not
// restarted again by the annotation's removal, whether the wanted or the live
// template is sent.
func TestRolloutRestartSurvives(t *testing.T) {
	for _, name := range []string{"plain", "quantities", "tolerations"} {
		t.Run(name, func(t *testing.T) {
			c := corpusChild(t, name)
			c.sync()
			for range 3 {
				c.edit(restart)
				for range 3 {
					if e := c.sync(); e.difference != (difference{}) {
						t.Errorf("want no difference, got %+v", e.difference)
					}
				}
			}
			if apply.Text(c.template(), "metadata", "annotations", restartedAt) == "" {
				t.Errorf("want the restart kept, got %s", encode(t, c.template()))
			}
			if c.writes > 2 {
				t.Errorf("want at most 2 writes, got %d", c.writes)
			}
		})
	}
}

// TestLastAppliedLiveTemplateIsSentAgain: a template that was once sent back
// live, by another version of the service perhaps, has the restart annotation
// in the copy of what was applied. To send the wanted one would remove it.
func TestLastAppliedLiveTemplateIsSentAgain(t *testing.T) {
	c := corpusChild(t, "plain")
	c.edit(restart)
	var err error
	if c.live, err = apply.Update(c.live, deploymentOf(t, encode(t, c.template()))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.sync()
	}
	if c.writes != 0 || apply.Text(c.template(), "metadata", "annotations", restartedAt) == "" {
		t.Errorf("want no write and the restart kept, got %d and %s", c.writes, encode(t, c.template()))
	}
}

// TestHandEdits: what somebody changed is named and put right, once.
func TestHandEdits(t *testing.T) {
	container := func(template map[string]any) map[string]any { return containers(template)[0].(map[string]any) }
	for _, tt := range []struct {
		why, template string
		edit          func(template map[string]any)
		want          difference
		writes        int
	}{
		{
			why: "another image", template: "plain",
			edit: func(tpl map[string]any) { container(tpl)["image"] = "web:evil" },
			want: difference{Changed: "spec.containers[0].image"}, writes: 1,
		},
		{
			why: "another image where the live template is sent otherwise", template: "tolerations",
			edit: func(tpl map[string]any) { container(tpl)["image"] = "web:evil" },
			want: difference{Changed: "spec.containers[0].image"}, writes: 3,
		},
		{
			why: "a variable removed", template: "env-from",
			edit: func(tpl map[string]any) { container(tpl)["env"] = container(tpl)["env"].([]any)[1:] },
			want: difference{Changed: "spec.containers[0].env"}, writes: 1,
		},
		{
			why: "our label removed", template: "plain",
			edit: func(tpl map[string]any) { delete(apply.Object(tpl, "metadata", "labels"), history.RevisionLabel) },
			want: difference{Changed: "metadata.labels[greyrelease.example.com/revision]"}, writes: 1,
		},
		{
			why: "an argument added: the list is replaced whole", template: "env-from",
			edit: func(tpl map[string]any) {
				container(tpl)["args"] = append(apply.List(container(tpl), "args"), "--debug")
			},
			want: difference{Changed: "spec.containers[0].args"}, writes: 1,
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			c := corpusChild(t, tt.template)
			before := encode(t, c.template())
			c.store = func(template map[string]any) {
				clear(template)
				for k, v := range decode(t, before) {
					template[k] = v
				}
			}
			c.sync()
			c.edit(tt.edit)
			if e := c.sync(); e.difference != tt.want || !bytes.Equal(c.want, e.Template) {
				t.Errorf("want %+v and the wanted template, got %+v and %s", tt.want, e.difference, e.Template)
			}
			for range 5 {
				if e := c.sync(); e.difference != (difference{}) {
					t.Errorf("want it healed, got %+v", e.difference)
				}
			}
			if c.writes != tt.writes {
				t.Errorf("want %d writes, got %d", tt.writes, c.writes)
			}
		})
	}
}

// TestAddedItemsStay: a sidecar that a webhook adds to Deployments is reported
// and not fought over.
func TestAddedItemsStay(t *testing.T) {
	for _, name := range []string{"plain", "tolerations"} {
		t.Run(name, func(t *testing.T) {
			c := corpusChild(t, name)
			c.edit(func(tpl map[string]any) {
				tpl["spec"].(map[string]any)["containers"] = append(containers(tpl), map[string]any{"name": "sidecar", "image": "envoy:1"})
			})
			for range 5 {
				if e := c.sync(); e.difference != (difference{Added: "spec.containers"}) {
					t.Errorf("want the container reported as added, got %+v", e.difference)
				}
			}
			if len(containers(c.template())) != 2 || c.writes > 1 {
				t.Errorf("want the sidecar kept with at most one write, got %s and %d writes", encode(t, c.template()), c.writes)
			}
		})
	}
}

// TestEmitTemplateInServerSideMode: the answer never depends on what is live,
// for there is no lock that would keep a stale copy from being written.
func TestEmitTemplateInServerSideMode(t *testing.T) {
	c := corpusChild(t, "quantities")
	c.edit(func(tpl map[string]any) { containers(tpl)[0].(map[string]any)["image"] = "web:evil" })
	got := emitTemplate(rendered(t, c.want), encode(t, c.template()), "", history.ServerSide)
	if want := (difference{Changed: "spec.containers[0].image"}); got.difference != want || !bytes.Equal(c.want, got.Template) {
		t.Errorf("want %+v and the wanted template, got %+v and %s", want, got.difference, got.Template)
	}
}

// TestLiveTemplateThatDoesNotFit: with its defaults filled in a template of 200
// KiB can grow beyond what the annotation holds. Then the wanted one is sent, a
// needless write being better than a refused one.
func TestLiveTemplateThatDoesNotFit(t *testing.T) {
	var ports, stored strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&ports, `,{"containerPort":%d}`, i+1)
		fmt.Fprintf(&stored, `,{"containerPort":%d,"protocol":"TCP"}`, i+1)
	}
	const template = `{"spec":{"containers":[{"name":"web","ports":[%s]}],"tolerations":[{"key":"k"%s}]}}`
	want := json.RawMessage(fmt.Sprintf(template, ports.String()[1:], `,"value":""`))
	live := json.RawMessage(fmt.Sprintf(template, stored.String()[1:], ``))
	got := emitTemplate(rendered(t, want), live, "", history.Dynamic)
	if got.difference != (difference{}) || !bytes.Equal(want, got.Template) {
		t.Errorf("want the wanted template, got %d bytes and %+v", len(got.Template), got.difference)
	}
}

func TestEmitTemplateOfAGarbledAnnotation(t *testing.T) {
	c := corpusChild(t, "tolerations")
	live := encode(t, c.template())
	for _, annotation := range []string{"", "{", "[]", `{"spec":[]}`, `{"spec":{"template":[]}}`} {
		if got := emitTemplate(rendered(t, c.want), live, annotation, history.Dynamic); got.difference != (difference{}) || bytes.Equal(c.want, got.Template) {
			t.Errorf("annotation %q: want the live template, got %s", annotation, got.Template)
		}
	}
}

func BenchmarkEmitTemplate(b *testing.B) {
	for _, c := range corpus(b) {
		switch c.Name {
		case "plain", "lifecycle-and-probes", "projected-volumes":
		default:
			continue
		}
		want := c.render(b)
		desired := deploymentOf(b, want)
		created, err := apply.Create(desired, map[string]any{"uid": "1"})
		if err != nil {
			b.Fatal(err)
		}
		last := apply.Text(created, "metadata", "annotations", apply.LastApplied)
		live := encode(b, decode(b, c.Stored))
		b.Run(c.Name, func(b *testing.B) {
			b.SetBytes(int64(len(want) + len(live)))
			b.ReportAllocs()
			for b.Loop() {
				emitTemplate(history.Template{Text: want, Tree: parse(b, want)}, live, last, history.Dynamic)
			}
		})
		b.Run(c.Name+"/floor", func(b *testing.B) {
			b.SetBytes(int64(len(want) + len(live)))
			b.ReportAllocs()
			for b.Loop() {
				var w, l any
				if json.Unmarshal(want, &w) != nil || json.Unmarshal(live, &l) != nil {
					b.Fatal("cannot decode")
				}
			}
		})
	}
}
