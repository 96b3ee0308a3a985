package greyrelease

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/history"
)

const ourLabels = `"greyrelease.example.com/name":"web","greyrelease.example.com/revision":"0123456789"`

func TestRenderTemplate(t *testing.T) {
	const nobodyTakesIt = "no container takes targetVersion, every image has a tag or digest of its own: " +
		"the version changes nothing but a label"
	for _, tt := range []struct {
		why, template, want string
		notes               []string
	}{
		{
			why:      "labels are added and the version taken",
			template: `{"spec":{"containers":[{"name":"web","image":"nginx"}]}}`,
			want:     `{"metadata":{"labels":{"app":"web",` + ourLabels + `}},"spec":{"containers":[{"image":"nginx:1.28.0","name":"web"}]}}`,
		},
		{
			why:      "user labels never change, app included (NM-07)",
			template: `{"metadata":{"labels":{"tier":"front","app":"shop"},"annotations":{"a/b":"c"}},"spec":{"containers":[{"image":"nginx"}]}}`,
			want:     `{"metadata":{"annotations":{"a/b":"c"},"labels":{"app":"shop",` + ourLabels + `,"tier":"front"}},"spec":{"containers":[{"image":"nginx:1.28.0"}]}}`,
		},
		{
			why:      "an empty app label is one",
			template: `{"metadata":{"labels":{"app":""}},"spec":{"containers":[{"image":"nginx"}]}}`,
			want:     `{"metadata":{"labels":{"app":"",` + ourLabels + `}},"spec":{"containers":[{"image":"nginx:1.28.0"}]}}`,
		},
		{
			why: "reserved labels are overwritten or dropped (NM-06)",
			template: `{"metadata":{"labels":{"pod-template-hash":"abc","greyrelease.example.com/revision":"mine","greyrelease.example.com/track":"stable"}},` +
				`"spec":{"containers":[{"image":"nginx"}]}}`,
			want: `{"metadata":{"labels":{"app":"web",` + ourLabels + `}},"spec":{"containers":[{"image":"nginx:1.28.0"}]}}`,
			notes: []string{
				"the label greyrelease.example.com/revision of spec.template is reserved and not taken",
				"the label greyrelease.example.com/track of spec.template is reserved and not taken",
				"the label pod-template-hash of spec.template is reserved and not taken",
			},
		},
		{
			why: "of the metadata only labels and annotations are taken (SE-06)",
			template: `{"metadata":{"name":"x","namespace":"kube-system","creationTimestamp":null,"ownerReferences":[{"uid":"1"}],"finalizers":[]},` +
				`"spec":{"containers":[{"image":"nginx"}]},"status":{}}`,
			want: `{"metadata":{"labels":{"app":"web",` + ourLabels + `}},"spec":{"containers":[{"image":"nginx:1.28.0"}]}}`,
			notes: []string{
				"spec.template.metadata.name is not taken",
				"spec.template.metadata.namespace is not taken",
				"spec.template.metadata.ownerReferences is not taken",
				"spec.template.status is not taken",
			},
		},
		{
			why:      "only images without a version take it, in init containers too",
			template: `{"spec":{"containers":[{"image":"r:5000/a"},{"image":"b:2"},{"image":"c@` + someDigest + `"},{"name":"none"}],"initContainers":[{"image":"d"}]}}`,
			want: `{"metadata":{"labels":{"app":"web",` + ourLabels + `}},"spec":{"containers":[{"image":"r:5000/a:1.28.0"},{"image":"b:2"},` +
				`{"image":"c@` + someDigest + `"},{"name":"none"}],"initContainers":[{"image":"d:1.28.0"}]}}`,
		},
		{
			why:      "no image takes the version",
			template: `{"spec":{"containers":[{"image":"b:2"}]}}`,
			want:     `{"metadata":{"labels":{"app":"web",` + ourLabels + `}},"spec":{"containers":[{"image":"b:2"}]}}`,
			notes:    []string{nobodyTakesIt},
		},
		{
			why:      "what the user wrote stays, nulls aside (AM-14)",
			template: `{"metadata":{"annotations":{}},"spec":{"volumes":[{"emptyDir":{},"name":"v"}],"nodeSelector":{},"affinity":null,"containers":[{"image":"a","args":["<&>"],"env":[{"name":"A","value":""}],"x":1e2}]}}`,
			want: `{"metadata":{"labels":{"app":"web",` + ourLabels + `}},"spec":{"containers":[{"args":["<&>"],"env":[{"name":"A","value":""}],"image":"a:1.28.0","x":100}],` +
				`"nodeSelector":{},"volumes":[{"emptyDir":{},"name":"v"}]}}`,
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			raw := json.RawMessage(tt.template)
			got, notes, err := renderTemplate(parse(t, raw), corpusIdentity)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Text) != tt.want {
				t.Errorf("want %s\ngot  %s", tt.want, got.Text)
			}
			if !slices.Equal(tt.notes, notes) {
				t.Errorf("want notes %q, got %q", tt.notes, notes)
			}
			if string(raw) != tt.template {
				t.Errorf("want the request untouched, got %s", raw)
			}
		})
	}
}

func TestRenderTemplateRefuses(t *testing.T) {
	for _, tt := range []struct{ why, template, want string }{
		{why: "absent", template: `null`, want: "spec.template: must be an object"},
		{why: "metadata", template: `{"metadata":[]}`, want: "spec.template.metadata: must be an object"},
		{why: "labels", template: `{"metadata":{"labels":"a"}}`, want: "spec.template.metadata.labels: must be an object"},
		{why: "annotations", template: `{"metadata":{"annotations":1}}`, want: "spec.template.metadata.annotations: must be an object"},
		{why: "spec", template: `{"spec":true}`, want: "spec.template.spec: must be an object"},
		{why: "containers", template: `{"spec":{"containers":{}}}`, want: "spec.template.spec.containers: must be a list"},
		{why: "a container", template: `{"spec":{"initContainers":[{},1]}}`, want: "spec.template.spec.initContainers[1]: must be an object"},
		{why: "an image", template: `{"spec":{"containers":[{"image":1.10}]}}`, want: "spec.template.spec.containers[0].image: must be a string"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if got, _, err := renderTemplate(parse(t, json.RawMessage(tt.template)), corpusIdentity); err == nil || err.Error() != tt.want {
				t.Errorf("want error %q, got %v and %s", tt.want, err, got.Text)
			}
		})
	}
}

// TestRenderTemplateWithADigest: the version may be a digest, which is no legal
// label value and stays out of the labels.
func TestRenderTemplateWithADigest(t *testing.T) {
	id := corpusIdentity
	id.Version = someDigest
	got, _, err := renderTemplate(parse(t, json.RawMessage(`{"spec":{"containers":[{"image":"r:5000/a"}]}}`)), id)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"labels":{"app":"web",` + ourLabels + `}},"spec":{"containers":[{"image":"r:5000/a@` + someDigest + `"}]}}`
	if string(got.Text) != want {
		t.Errorf("want %s, got %s", want, got.Text)
	}
}

// TestCostOfLargeTemplates (SP-05): the work grows with the template and no
// faster; 1000 references are far below 200 ms.
func TestCostOfLargeTemplates(t *testing.T) {
	cost := func(references int) time.Duration {
		var env, stored strings.Builder
		for i := range references {
			fmt.Fprintf(&env, `,{"name":"V%d","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}`, i)
			fmt.Fprintf(&stored, `,{"name":"V%d","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}`, i)
		}
		const template = `{"spec":{"containers":[{"image":"a","name":"a","env":[%s]}]}}`
		raw := json.RawMessage(fmt.Sprintf(template, env.String()[1:]))
		live := json.RawMessage(fmt.Sprintf(template, stored.String()[1:]))
		best := time.Hour
		for range 5 {
			start := time.Now()
			want, _, err := renderTemplate(parse(t, raw), corpusIdentity)
			if err != nil {
				t.Fatal(err)
			}
			mustCollide(t, want.Text, history.Dynamic)
			emitTemplate(want, live, "", history.Dynamic)
			best = min(best, time.Since(start))
		}
		return best
	}
	if got := cost(1000); got > 200*time.Millisecond {
		t.Errorf("want 1000 references below 200 ms, got %v", got)
	}
	if small, large := cost(1000), cost(10_000); large > 40*small {
		t.Errorf("want the cost to grow by 10, at most 40, got from %v to %v", small, large)
	}
}
