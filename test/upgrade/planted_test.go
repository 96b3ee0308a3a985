package upgrade

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatAnUpgradeMayNotDo: each line is what a later version might do by
// accident to an answer, and has to be found. The moment is one in the middle of a
// release, at rest, with two Deployments.
func TestWhatAnUpgradeMayNotDo(t *testing.T) {
	for _, mode := range []string{"dynamic", "ssa"} {
		m := middle(t, mode)
		answer, err := sync(m.Request, m.Now)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct{ what, old, new, found string }{
			{"a label more on pods", `"labels":{"app":"web",`, `"labels":{"app":"web","by":"us",`, "the pods of web-"},
			{"another image", `"image":"nginx:1.0"`, `"image":"docker.io/library/nginx:1.0"`, "hash of the template"},
			{"another hash of the content", `"greyrelease.example.com/revision":"`, `"greyrelease.example.com/revision":"0`, "selector: want"},
			{"another number", `"greyrelease.example.com/number":"2"`, `"greyrelease.example.com/number":"3"`, "number: want"},
			{"another default", `"progressDeadlineSeconds":600`, `"progressDeadlineSeconds":300`, "settings: want"},
			{"a record that is not understood", `\"highest\":2`, `\"highest\":3`, "record: want"},
			{"another way to keep snapshots", `"spec.json":"`, `"spec.json":" `, "snapshots: want"},
			{"a batch skipped", `"currentBatch":1`, `"currentBatch":2`, "status: want"},
			{"a pod more", `"replicas":2,`, `"replicas":3,`, "at rest: want"},
		} {
			changed := bytes.ReplaceAll(answer, []byte(test.old), []byte(test.new))
			if bytes.Equal(changed, answer) {
				t.Fatalf("%s: the answer has no %s: %s", test.what, test.old, answer)
			}
			now, err := outcomeOf(m.Request, changed)
			if err != nil {
				t.Fatal(err)
			}
			list := m.Then.differences(now)
			names, err := restarted(m.Request, changed, m.ServerSide)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				list = append(list, "the pods of "+name+" would restart")
			}
			if got := strings.Join(list, "\n"); !strings.Contains(got, test.found) {
				t.Errorf("%s: %s: want %q found, got %q", mode, test.what, test.found, got)
			}
		}
	}
}

// middle is the first request at rest at a gate.
func middle(t *testing.T, mode string) moment {
	t.Helper()
	moments, err := readLines[moment](filepath.Join(testdata, "v0.1", "restarted-by-hand-"+mode+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range moments {
		if m.Then.Status.Phase == "Paused" && m.Then.Rest != "" {
			return m
		}
	}
	t.Fatalf("%s: want a request at rest at a gate, got none", mode)
	return moment{}
}

func TestWhatATemplateMayNotBecome(t *testing.T) {
	then := template{Hash: "1", Rendered: []byte(`{"a":1}`), Deployment: []byte(`{}`)}
	for _, now := range []template{
		{Hash: "2", Rendered: then.Rendered, Deployment: then.Deployment},
		{Hash: "1", Rendered: []byte(`{"a":2}`), Deployment: then.Deployment},
		{Hash: "1", Rendered: then.Rendered, Deployment: []byte(`{"b":1}`)},
	} {
		if got := then.differences(now); len(got) != 1 {
			t.Errorf("want one difference between %+v and %+v, got %v", then, now, got)
		}
	}
	if got := then.differences(then); len(got) != 0 {
		t.Errorf("want no difference, got %v", got)
	}
}
