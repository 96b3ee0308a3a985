package scenarios

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// after plays a script and returns the cluster as it is then.
func after(t *testing.T, mode sim.Mode, script string) *Stage {
	t.Helper()
	story, err := Parse("# a test\n\n" + script)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStage(mode, 0)
	if _, err := s.Play(story); err != nil {
		t.Fatal(err)
	}
	return s
}

// onward plays more of a script on a cluster.
func (s *Stage) onward(t *testing.T, script string) {
	t.Helper()
	story, err := Parse("# a test\n\n" + script)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Play(story); err != nil {
		t.Fatal(err)
	}
}

// request returns the request that would be sent now, as a tree to change.
func (s *Stage) request(t *testing.T) map[string]any {
	t.Helper()
	s.onward(t, "poke 1 1s")
	return tree(t, s.Last.Body)
}

func tree(t *testing.T, data []byte) map[string]any {
	t.Helper()
	m, err := apply.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// reply is a decoded answer of the hook.
type reply struct {
	status   map[string]any
	children map[string]map[string]any // by kind and name
	resync   float64
	body     []byte
}

// ask sends a request to the hook, which must answer with 200.
func ask(t *testing.T, request map[string]any, now time.Time) reply {
	t.Helper()
	r, err := sim.Product(encode(t, request), now)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != 200 {
		t.Fatalf("want status 200, got %d: %s", r.Status, r.Body)
	}
	m := tree(t, r.Body)
	out := reply{status: apply.Object(m, "status"), children: map[string]map[string]any{}, body: r.Body}
	switch n := m["resyncAfterSeconds"].(type) {
	case int64:
		out.resync = float64(n)
	case float64:
		out.resync = n
	}
	for _, c := range apply.List(m, "children") {
		out.children[apply.Text(c, "kind")+" "+apply.Text(c, "metadata", "name")] = c.(map[string]any)
	}
	return out
}

// replicas is what the answer asks for of the Deployment of a revision; -1 when
// it is left out.
func (r reply) replicas(revision string) int64 {
	for _, c := range r.children {
		if apply.Text(c, "kind") == "Deployment" && apply.Text(c, "metadata", "labels", numberLabel) == revision {
			n, _ := apply.Field(c, "spec", "replicas").(int64)
			return n
		}
	}
	return -1
}

// deployment returns the Deployment of a revision in a request.
func deployment(t *testing.T, request map[string]any, revision string) map[string]any {
	t.Helper()
	for _, d := range apply.Object(request, "children", "Deployment.apps/v1") {
		if apply.Text(d, "metadata", "labels", numberLabel) == revision {
			return d.(map[string]any)
		}
	}
	t.Fatalf("no Deployment of revision %s in the request", revision)
	return nil
}

const midBatch = `create {replicas: 4, batches: [{replicas: 2}, {replicas: 3}]}
behave 2.0 ready=1h
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
run 10s
expect asked.2=1 phase=Progressing
`

func TestRM13MissingReplicasKeepWhatIsObserved(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 6}\nuntil phase=Healthy within 1m\nrun 1m")
	request := s.request(t)
	delete(apply.Object(request, "parent", "spec"), "replicas")
	if got := ask(t, request, s.Now()).replicas("1"); got != 6 {
		t.Errorf("want 6 replicas kept, got %d", got)
	}

	// An autoscaler moved the stable Deployment to 9, and a new version comes.
	apply.Object(deployment(t, request, "1"), "spec")["replicas"] = int64(9)
	apply.Object(request, "parent", "spec")["targetVersion"] = "2.0"
	if got := ask(t, request, s.Now()).replicas("1"); got != 9 {
		t.Errorf("want 9 replicas kept, got %d", got)
	}
}

func TestHE06ConditionsAreNoHealth(t *testing.T) {
	s := after(t, sim.Dynamic, midBatch)
	request := s.request(t)
	status := apply.Object(deployment(t, request, "2"), "status")
	delete(status, "availableReplicas")
	status["readyReplicas"] = int64(1)
	status["conditions"] = []any{
		map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
		map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
	}
	r := ask(t, request, s.Now())
	if r.replicas("1") != 4 || r.replicas("2") != 1 || r.status["phase"] != "Progressing" {
		t.Errorf("want 4 and 1 pods and phase Progressing, got %d, %d and %v", r.replicas("1"), r.replicas("2"), r.status["phase"])
	}
	if available := apply.Field(r.status, "availableReplicas"); available != int64(4) {
		t.Errorf("want 4 available pods, got %v", available)
	}
}

func TestHE11ChildrenWithoutStatusOrReplicas(t *testing.T) {
	s := after(t, sim.Dynamic, midBatch)
	request := s.request(t)
	d := deployment(t, request, "2")
	delete(d, "status")
	if r := ask(t, request, s.Now()); r.replicas("1") != 4 || r.replicas("2") != 1 {
		t.Errorf("without status: want 4 and 1 pods, got %d and %d", r.replicas("1"), r.replicas("2"))
	}
	delete(apply.Object(d, "spec"), "replicas")
	if r := ask(t, request, s.Now()); r.replicas("1") != 4 || r.replicas("2") != 1 {
		t.Errorf("without replicas, which means 1: want 4 and 1 pods, got %d and %d", r.replicas("1"), r.replicas("2"))
	}
	delete(d, "spec")
	if r := ask(t, request, s.Now()); r.replicas("1") != 4 || r.replicas("2") != 1 {
		t.Errorf("without a spec: want 4 and 1 pods, got %d and %d", r.replicas("1"), r.replicas("2"))
	}
}

func TestST08CountsAreObserved(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 2}\nuntil phase=Healthy within 1m\nrun 1m")
	request := s.request(t)
	apply.Object(request, "parent", "spec")["replicas"] = int64(3)
	r := ask(t, request, s.Now())
	if r.replicas("1") != 3 {
		t.Errorf("want 3 pods asked for, got %d", r.replicas("1"))
	}
	for _, name := range []string{"replicas", "readyReplicas", "availableReplicas", "updatedReplicas"} {
		if r.status[name] != int64(2) {
			t.Errorf("%s: want the 2 that are observed, got %v", name, r.status[name])
		}
	}
}

func TestST09FirstAnswerAfterAnEdit(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 2}\nuntil phase=Healthy within 1m\nrun 1m")
	request := s.request(t)
	apply.Object(request, "parent", "spec")["targetVersion"] = "2.0"
	apply.Object(request, "parent", "metadata")["generation"] = int64(9)
	r := ask(t, request, s.Now())
	want := map[string]string{"Ready": "False", "Reconciling": "True", "Stalled": "False"}
	for _, c := range apply.List(r.status, "conditions") {
		if status := want[apply.Text(c, "type")]; status != "" && status != apply.Text(c, "status") {
			t.Errorf("%s: want %s, got %s", apply.Text(c, "type"), status, apply.Text(c, "status"))
		}
	}
	if r.status["phase"] != "Progressing" || r.status["targetRevision"] != int64(1) {
		t.Errorf("want phase Progressing of the revision that is observed, 1, got %v of %v", r.status["phase"], r.status["targetRevision"])
	}
	if message := apply.Text(r.status, "message"); !strings.Contains(message, "going from 1.0 (revision 1) to 2.0 (revision 2)") {
		t.Errorf("want a message that names both revisions, got %q", message)
	}
}

func TestTR09SelectorsAreDisjoint(t *testing.T) {
	s := after(t, sim.Dynamic, `create
  replicas: 4
  batches: [{replicas: 2}]
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: nginx}]}}
behave 2.0 ready=1h
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
run 10s
`)
	r := ask(t, s.request(t), s.Now())
	var selectors []map[string]any
	for _, c := range r.children {
		if apply.Text(c, "kind") != "Deployment" {
			continue
		}
		selector := apply.Object(c, "spec", "selector", "matchLabels")
		labels := apply.Object(c, "spec", "template", "metadata", "labels")
		for name, value := range selector {
			if labels[name] != value {
				t.Errorf("selector has %s=%v, its pods %v", name, value, labels[name])
			}
		}
		if labels["app"] != "web" || labels["greyrelease.example.com/name"] != "web" {
			t.Errorf("want the shared labels app=web and greyrelease.example.com/name=web, got %v", labels)
		}
		selectors = append(selectors, selector)
	}
	const revision = "greyrelease.example.com/revision"
	if len(selectors) != 2 || selectors[0][revision] == selectors[1][revision] || selectors[0][revision] == nil {
		t.Errorf("want two selectors that differ in %s, got %v", revision, selectors)
	}
	if s := r.status["selector"]; s != "greyrelease.example.com/name=web" {
		t.Errorf("want a selector of all pods for autoscalers, got %v", s)
	}
}

func TestAM01ForeignObjectsAreKept(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 2}\nuntil phase=Healthy within 1m")
	request := s.request(t)
	maps := apply.Object(request, "children", "ConfigMap.v1")
	for _, name := range []string{"kube-root-ca.crt", "app-cfg", "web-rev-x", "web-rolloutx"} {
		maps["default/"+name] = map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"},
			"metadata": map[string]any{"name": name, "namespace": "default", "uid": name},
		}
	}
	apply.Object(request, "children", "Deployment.apps/v1")["default/other"] = map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": int64(3)},
		"metadata": map[string]any{"name": "other", "namespace": "default", "uid": "other"},
	}
	r := ask(t, request, s.Now())
	for _, name := range []string{"ConfigMap kube-root-ca.crt", "ConfigMap app-cfg", "ConfigMap web-rev-x", "ConfigMap web-rolloutx", "Deployment other"} {
		c := r.children[name]
		if c == nil {
			t.Errorf("%s is left out, so Metacontroller would delete it", name)
			continue
		}
		if c["data"] != nil || c["spec"] != nil {
			t.Errorf("%s: want nothing asked of it, got %v", name, c)
		}
	}
	if message := apply.Text(r.status, "message"); !strings.Contains(message, "ConfigMap app-cfg is no part of this release") {
		t.Errorf("want a message that names what is foreign, got %q", message)
	}
}

func TestCS05SameAnswersWhileACacheLags(t *testing.T) {
	s := after(t, sim.Dynamic, midBatch)
	shown := s.request(t)
	first := ask(t, shown, s.Now())
	hidden := tree(t, encode(t, shown))
	for key, d := range apply.Object(hidden, "children", "Deployment.apps/v1") {
		if apply.Text(d, "metadata", "labels", numberLabel) == "2" {
			delete(apply.Object(hidden, "children", "Deployment.apps/v1"), key)
		}
	}
	second, third := ask(t, hidden, s.Now()), ask(t, shown, s.Now())
	for _, revision := range []string{"1", "2"} {
		if a, b, c := first.replicas(revision), second.replicas(revision), third.replicas(revision); a != b || b != c {
			t.Errorf("revision %s: want the same size three times, got %d, %d and %d", revision, a, b, c)
		}
	}
	for name := range first.children {
		if second.children[name] == nil {
			t.Errorf("%s is not asked for while the cache lags", name)
		}
	}
	if len(second.children) != len(first.children) {
		t.Errorf("want the same %d children, got %d", len(first.children), len(second.children))
	}
}

func TestLC02FinalizingAsksForNothing(t *testing.T) {
	s := after(t, sim.Dynamic, midBatch)
	request := s.request(t)
	request["finalizing"] = true
	apply.Object(request, "parent", "metadata")["finalizers"] = []any{"foregroundDeletion"}
	apply.Object(request, "parent", "metadata")["deletionTimestamp"] = "2026-11-30T12:00:00Z"
	checkFinalized(t, request, s.Now())
	delete(deployment(t, request, "2"), "status")
	checkFinalized(t, request, s.Now())
}

func TestLC04FinalizingWithoutChildren(t *testing.T) {
	s := after(t, sim.Dynamic, midBatch)
	request := s.request(t)
	request["finalizing"] = true
	delete(deployment(t, request, "1"), "status")
	delete(deployment(t, request, "2"), "status")
	checkFinalized(t, request, s.Now())
	request["children"] = map[string]any{"ConfigMap.v1": map[string]any{}, "Deployment.apps/v1": map[string]any{}}
	checkFinalized(t, request, s.Now())
}

func checkFinalized(t *testing.T, request map[string]any, now time.Time) {
	t.Helper()
	r := ask(t, request, now)
	if !bytes.Contains(r.body, []byte(`"finalized":true`)) || len(r.children) != 0 || r.resync != 0 {
		t.Errorf("want finalized at once and nothing asked for, got %s", r.body)
	}
}

// A spec that changes before its first snapshot is observed leaves a number that
// the snapshot gives to the old content and the record to the new one.
func TestOneNumberForTwoContents(t *testing.T) {
	s := after(t, sim.Dynamic, `create {replicas: 4, targetVersion: "1.0"}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Healthy within 5m
run 1m`)
	request := s.request(t)
	record := apply.Object(request, "children", "ConfigMap.v1", "default/web-rollout", "data")
	record["record.json"] = strings.ReplaceAll(apply.Text(record, "record.json"), `"number":2,`, `"number":1,`)
	spec := apply.Object(request, "parent", "spec")

	spec["targetVersion"] = "1.0"
	r := ask(t, request, s.Now())
	if r.children["ConfigMap web-rev-3"] == nil {
		t.Errorf("want 1.0 kept anew as revision 3, got %v", slices.Sorted(maps.Keys(r.children)))
	}
	if got := apply.Text(r.children["ConfigMap web-rollout"], "data", "record.json"); !strings.Contains(got, `"target":{"number":3,`) {
		t.Errorf("want target 3, got %s", got)
	}

	// What users know as revision 1 is what the record calls so.
	spec["targetVersion"], spec["rollbackTo"] = "2.0", int64(1)
	r = ask(t, request, s.Now())
	if got := apply.Text(r.status, "targetVersion"); got != "2.0" {
		t.Errorf("want rollbackTo 1 to mean 2.0, got %s", got)
	}
	spec["rollbackTo"] = int64(7)
	r = ask(t, request, s.Now())
	if got := apply.Text(r.status, "message"); !strings.HasSuffix(got, "kept are 2 (2.0)") {
		t.Errorf("want only the revision offered whose number is its own, got %q", got)
	}
}

// With the record lost, each answer puts the number of new content into status.
// The next one must not take that for another's.
func TestNewContentKeepsItsNumberWhileTheRecordIsLost(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 4}\nuntil phase=Healthy within 1m\nrun 1m")
	request := s.request(t)
	delete(apply.Object(request, "children", "ConfigMap.v1"), "default/web-rollout")
	parent := apply.Object(request, "parent")
	apply.Object(parent, "spec")["targetVersion"] = "2.0"
	for range 3 {
		r := ask(t, request, s.Now())
		if n := apply.Field(r.status, "targetRevision"); n != int64(2) {
			t.Fatalf("want revision 2 again and again, got %v", n)
		}
		parent["status"] = r.status
	}
}

// Old caches in server-side mode can leave a content with a snapshot of another
// number than the record gives it. It is the only one there is.
func TestContentOfAnotherNumberIsKept(t *testing.T) {
	s := after(t, sim.ServerSide, "create {replicas: 4}\nuntil phase=Healthy within 1m\nrun 1m\nedit {targetVersion: \"2.0\", revisionHistoryLimit: 0}\nrun 2s")
	request := s.request(t)
	group := apply.Object(request, "children", "ConfigMap.v1")
	snapshot, ok := group["default/web-rev-2"].(map[string]any)
	if !ok {
		t.Fatalf("want a snapshot of revision 2, got %v", group)
	}
	delete(group, "default/web-rev-2")
	meta := apply.Object(snapshot, "metadata")
	meta["name"] = "web-rev-3"
	apply.Object(meta, "labels")["greyrelease.example.com/number"] = "3"
	group["default/web-rev-3"] = snapshot
	if r := ask(t, request, s.Now()); r.children["ConfigMap web-rev-3"] == nil {
		t.Errorf("want web-rev-3 kept, got %s", r.body)
	}
}
