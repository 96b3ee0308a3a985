package scenarios

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// repeated asks n times, a second apart, and checks that every answer has the
// same bytes.
func repeated(t *testing.T, request map[string]any, now time.Time, n int) reply {
	t.Helper()
	first := ask(t, request, now)
	for i := range n {
		if r := ask(t, request, now.Add(time.Duration(i)*time.Second)); !bytes.Equal(r.body, first.body) {
			t.Fatalf("answer %d differs\nwant %s\n got %s", i+2, first.body, r.body)
		}
	}
	return first
}

func TestAM15AnswersHaveOneOrder(t *testing.T) {
	var ports, env strings.Builder
	for i := range 30 {
		if i < 10 {
			fmt.Fprintf(&ports, "{name: p%d, containerPort: %d}, ", i, 8000+i)
		}
		fmt.Fprintf(&env, "{name: E%d, value: v%d}, ", i, i)
	}
	s := after(t, sim.Dynamic, `create
  replicas: 4
  batches: [{replicas: 2, approval: true}]
  template: {metadata: {labels: {a: b, c: d, e: f}, annotations: {g: h, i: j}}, spec: {containers: [{name: web, image: nginx, ports: [`+ports.String()+`], env: [`+env.String()+`]}]}}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Paused within 1m
run 1m
`)
	request := s.request(t)
	first := ask(t, request, s.Now())
	for range 200 {
		if r := ask(t, request, s.Now()); !bytes.Equal(r.body, first.body) {
			t.Fatalf("want the same bytes\n%s\ngot\n%s", first.body, r.body)
		}
	}
}

func TestTI06NothingChangesWithTime(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 4}\nuntil phase=Healthy within 1m\nrun 1m")
	request := s.request(t)
	first := ask(t, request, s.Now())
	for _, d := range []time.Duration{time.Second, time.Hour, 365 * 24 * time.Hour} {
		if r := ask(t, request, s.Now().Add(d)); !bytes.Equal(r.body, first.body) {
			t.Errorf("%v later: want\n%s\ngot\n%s", d, first.body, r.body)
		}
	}
	if first.resync != 0 {
		t.Errorf("want no look at the clock, got one in %v s", first.resync)
	}
}

// RM-05: the plan's steps are capped at the replicas.
func TestRM05StepsLargerThanTheReplicas(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 1, batchSize: 2, canaryWeight: 100}\nuntil phase=Healthy within 1m\nedit {targetVersion: \"2.0\"}\nuntil phase=Healthy within 1m\nrun 1m")
	if r := repeated(t, s.request(t), s.Now(), 20); r.resync != 0 || r.replicas("2") != 1 {
		t.Errorf("want 1 pod and no look at the clock, got %d and one in %v s", r.replicas("2"), r.resync)
	}
}

func TestRB01SameAnswerAfterARollback(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 2, progressDeadlineSeconds: 60}\nbehave 2.0 hang\nuntil phase=Healthy within 1m\nedit {targetVersion: \"2.0\"}\nuntil phase=RolledBack within 5m\nrun 1m")
	r := repeated(t, s.request(t), s.Now(), 50)
	if r.resync != 0 || r.children["ConfigMap web-rev-3"] != nil || r.replicas("2") != 0 || r.replicas("1") != 2 {
		t.Errorf("want 2 and 0 pods, no snapshot and no look at the clock, got %s", r.body)
	}
}

func TestIV04SameAnswerToAnInvalidSpec(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 2}\nuntil phase=Healthy within 1m\nrun 1m")
	request := s.request(t)
	apply.Object(request, "parent", "spec")["batchSize"] = int64(0)
	apply.Object(request, "parent", "metadata")["generation"] = int64(9)
	first := ask(t, request, s.Now())
	apply.Object(request, "parent")["status"] = first.status
	if r := repeated(t, request, s.Now(), 100); r.resync != 0 || r.status["phase"] != "Invalid" {
		t.Errorf("want phase Invalid and no look at the clock, got %v and one in %v s", r.status["phase"], r.resync)
	}
}

// AM-09: an answer that waits for an instant says so, and never looks later.
func TestAM09WaitsAreAnnounced(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 2, batches: [{replicas: 1, soakSeconds: 300}]}\nuntil phase=Healthy within 1m\nedit {targetVersion: \"2.0\"}\nuntil phase=Paused within 1m\nrun 1m")
	request := s.request(t)
	want := ask(t, request, s.Now()).resync
	if want < 230 || want > 245 {
		t.Fatalf("want a look when the soak of 300 s is over, in about 240 s, got one in %v s", want)
	}
	for i := range 200 {
		now := s.Now().Add(time.Duration(i) * time.Second)
		if r := ask(t, request, now); r.resync != want {
			t.Fatalf("%d s later: want a look in %v s, got %v", i, want, r.resync)
		}
		want--
	}
}

// LC-09: nothing that tools put on the release is on its children.
func TestLC09ToolsLabelsStayOnTheRelease(t *testing.T) {
	s := after(t, sim.Dynamic, `create {replicas: 2}
metadata
  labels: {app.kubernetes.io/instance: argo, kustomize.toolkit.fluxcd.io/name: apps, helm.toolkit.fluxcd.io/name: web, team: red}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", meta.helm.sh/release-name: web, argocd.argoproj.io/tracking-id: x}
until phase=Healthy within 1m
`)
	for name, c := range ask(t, s.request(t), s.Now()).children {
		meta := apply.Object(c, "metadata")
		for _, field := range []string{"labels", "annotations"} {
			for key := range apply.Object(meta, field) {
				if !strings.HasPrefix(key, "greyrelease.example.com/") {
					t.Errorf("%s has %s %s", name, field, key)
				}
			}
		}
	}
}

func TestAM14NoEmptyObjects(t *testing.T) {
	s := after(t, sim.Dynamic, midBatch)
	for name, c := range ask(t, s.request(t), s.Now()).children {
		text := string(encode(t, c))
		for _, empty := range []string{"null", `"status"`, `"resources":{}`, `"strategy":{}`, `creationTimestamp`} {
			if strings.Contains(text, empty) {
				t.Errorf("%s has %s: %s", name, empty, text)
			}
		}
	}
}
