package sim

import (
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim/apply"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// silent is a hook that wants nothing and changes nothing.
func silent([]byte, time.Time) (Reply, error) { return Reply{Status: 500}, nil }

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	tree, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

const deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 4
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec: {containers: [{name: web, image: "nginx:1"}]}
`

func create(t *testing.T, c *Cluster, text string) *Object {
	t.Helper()
	tree := parse(t, text)
	if err := c.Apply(tree); err != nil {
		t.Fatal(err)
	}
	ref, err := refOf(tree)
	if err != nil {
		t.Fatal(err)
	}
	return c.Server.Get(ref)
}

func TestGenerationsAndVersions(t *testing.T) {
	s := New(Options{}, silent).Server
	tree := parse(t, deploymentYAML)
	o, err := s.Create(user, tree)
	if err != nil {
		t.Fatal(err)
	}
	if o.Generation() != 1 || o.Text("metadata", "resourceVersion") != "1" || o.UID == "" {
		t.Errorf("want generation 1 and version 1, got %v", o.Tree["metadata"])
	}
	if _, err := s.Create(user, tree); !apierrors.IsAlreadyExists(err) {
		t.Errorf("want already exists, got %v", err)
	}
	labelled, err := s.Patch(user, o.Ref, map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}, "")
	if err != nil || labelled.Generation() != 1 || labelled.Version == o.Version {
		t.Errorf("want a new version of generation 1, got %v %v", labelled.Tree["metadata"], err)
	}
	scaled, err := s.Patch(user, o.Ref, map[string]any{"spec": map[string]any{"replicas": int64(2)}}, "scale")
	if err != nil || scaled.Generation() != 2 {
		t.Errorf("want generation 2, got %v %v", scaled.Tree["metadata"], err)
	}
	same, err := s.Patch(user, o.Ref, map[string]any{"spec": map[string]any{"replicas": int64(2)}}, "scale")
	if err != nil || same != scaled {
		t.Errorf("want no new version where nothing changes, got %v %v", same.Tree["metadata"], err)
	}
	if _, err := s.Update(user, o.Tree, ""); !apierrors.IsConflict(err) {
		t.Errorf("want a conflict with an old version, got %v", err)
	}
	status := with(scaled.Tree, "status", map[string]any{"replicas": int64(9)})
	status = with(status, "spec", map[string]any{})
	written, err := s.Update(controllerManager, status, "status")
	if err != nil || written.Int("status", "replicas") != 9 || written.Int("spec", "replicas") != 2 || written.Generation() != 2 {
		t.Errorf("want status alone written, got %v %v", written, err)
	}
	kept, err := s.Update(user, with(written.Tree, "status", nil), "")
	if err != nil || kept.Int("status", "replicas") != 9 {
		t.Errorf("want status kept by a write of the object, got %v %v", kept.Tree["status"], err)
	}
}

func TestManagedFieldsTellTheMode(t *testing.T) {
	s := New(Options{}, silent).Server
	tree := parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}`)
	applied, err := s.Apply(manager, tree)
	if err != nil {
		t.Fatal(err)
	}
	entry := apply.List(applied.Tree, "metadata", "managedFields")[0]
	if apply.Text(entry, "manager") != manager || apply.Text(entry, "operation") != "Apply" {
		t.Errorf("want an entry of metacontroller by Apply, got %v", entry)
	}
	again, err := s.Apply(manager, tree)
	if err != nil || again != applied {
		t.Errorf("want no new version by the same apply, got %v %v", again.Tree, err)
	}
	edited, err := s.Patch(user, applied.Ref, map[string]any{"data": map[string]any{"c": "d"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	entries := apply.List(edited.Tree, "metadata", "managedFields")
	if len(entries) != 2 || apply.Text(entries[1], "manager") != user || apply.Text(entries[1], "operation") != "Update" {
		t.Errorf("want a second entry of kubectl by Update, got %v", entries)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ why, from, to, want string }{
		{"the deadline has a default", "replicas: 4", "minReadySeconds: 600", "must be greater than minReadySeconds"},
		{"nothing could be replaced", "replicas: 4", "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}", "may not be 0 when `maxSurge` is 0"},
		{"the selector selects its pods", "matchLabels: {app: d}", "matchLabels: {app: e}", "`selector` does not match template `labels`"},
		{"names are labels", "name: web", "name: We_b", "RFC 1123"},
		{"numbers are numbers", "replicas: 4", "replicas: many", "cannot be handled as a Deployment"},
		{"annotations are limited together", "name: d}", "name: d, annotations: {a: " + strings.Repeat("x", 256<<10) + "}}", "Too long"},
		{"an object is limited", "app: d}}", "app: d}, annotations: {a: " + strings.Repeat("x", 250<<10) + "}}", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := New(Options{}, silent).Server
			_, err := s.Create(user, parse(t, strings.Replace(deploymentYAML, c.from, c.to, 1)))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("want it accepted, got %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
}

func TestSnapshotsAreImmutable(t *testing.T) {
	s := New(Options{}, silent).Server
	tree := parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, immutable: true, data: {a: b}}`)
	if _, err := s.Apply(manager, tree); err != nil {
		t.Fatal(err)
	}
	tree["data"] = map[string]any{"a": "c"}
	if _, err := s.Apply(manager, tree); err == nil || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("want it refused, got %v", err)
	}
}

func TestOneControllerPerObject(t *testing.T) {
	s := New(Options{}, silent).Server
	owner := func(uid string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid, "controller": true}
	}
	tree := parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`)
	if _, err := s.Create(user, apply.Claim(tree, owner("other"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(manager, apply.Claim(tree, owner("mine"))); err == nil || !strings.Contains(err.Error(), "Only one reference can have Controller set to true") {
		t.Errorf("want a second controller refused, got %v", err)
	}
	if _, err := s.Apply(manager, apply.Claim(parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: free}}`), owner("mine"))); err != nil {
		t.Errorf("want an object taken, got %v", err)
	}
}

func TestFinalizersHoldAnObject(t *testing.T) {
	s := New(Options{}, silent).Server
	o, err := s.Create(user, parse(t, strings.Replace(deploymentYAML, "name: d}", "name: d, finalizers: [example.com/hold]}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(user, o.Ref, o.UID, Background); err != nil {
		t.Fatal(err)
	}
	held := s.Get(o.Ref)
	if held == nil || !held.Deleting() || held.Generation() != 2 {
		t.Fatalf("want it marked, got %v", held)
	}
	if _, err := s.Patch(user, o.Ref, map[string]any{"metadata": map[string]any{"finalizers": nil}}, ""); err != nil {
		t.Fatal(err)
	}
	if s.Get(o.Ref) != nil {
		t.Error("want it gone with its last finalizer")
	}
	if err := s.Delete(user, o.Ref, "", Background); !apierrors.IsNotFound(err) {
		t.Errorf("want not found, got %v", err)
	}
}
