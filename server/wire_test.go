package main

import (
	"encoding/json"
	"strings"
	"testing"
)

const firstRequest = `{
	"controller": {"spec": {"childResources": [
		{"apiVersion": "apps/v1", "resource": "deployments"}, {"apiVersion": "v1", "resource": "configmaps"}]}},
	"parent": {
		"apiVersion": "greyrelease.example.com/v1", "kind": "GreyRelease",
		"metadata": {"name": "web", "namespace": "shop", "uid": "3aeab733-fc80-460d-9c64-bcb292977f13", "generation": 1},
		"spec": {"replicas": 3, "targetVersion": "1.0", "template": {"spec": {"containers": [{"name": "web", "image": "web"}]}}}
	},
	"children": {"Deployment.apps/v1": {}, "ConfigMap.v1": {}}, "related": {}, "finalizing": false
}`

// The service as it ships: the hook of GreyReleases behind both paths.
func TestTheHookOfGreyReleases(t *testing.T) {
	f := start(t, newHook(nil))

	got := f.post(t, firstRequest)
	if got.code != 200 {
		t.Fatalf("want 200, got %d %s", got.code, got.body)
	}
	var decoded struct {
		Status   struct{ Phase, Message string }
		Children []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(got.body), &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Status.Phase != "Pending" || len(decoded.Children) == 0 {
		t.Errorf("want phase Pending and a snapshot, got %s", got.body)
	}
	for _, child := range decoded.Children {
		if child.Kind != "ConfigMap" {
			t.Errorf("want no %s before the snapshot was seen", child.Kind)
		}
	}
	f.wantMetric(t, `greyrelease_transitions_total{from="",to="Pending"} 1`)
	if lines := f.lines(t); len(lines) != 1 || lines[0]["name"] != "web" || lines[0]["namespace"] != "shop" {
		t.Errorf("want one line about shop/web, got %v", lines)
	}

	got = f.post(t, strings.Replace(firstRequest, `"finalizing": false`, `"finalizing": true`, 1))
	if want := `{"status":null,"children":[],"finalized":true}`; got.code != 200 || want != got.body {
		t.Errorf("want 200 %s, got %d %s", want, got.code, got.body)
	}

	got = f.do(t, "POST", "/customize", nil, strings.NewReader(`{"parent":{"metadata":{"name":"web"}}}`))
	if want := `{"relatedResources":[]}`; got.code != 200 || want != got.body {
		t.Errorf("want 200 %s, got %d %s", want, got.code, got.body)
	}
	got = f.do(t, "POST", "/customize", nil, strings.NewReader(`{}`))
	if want := "cannot decode customize request: parent is missing\n"; got.code != 400 || want != got.body {
		t.Errorf("want 400 %s, got %d %s", want, got.code, got.body)
	}
	got = f.post(t, `{"parent":{}}`)
	if want := "cannot decode sync request: children is missing\n"; got.code != 400 || want != got.body {
		t.Errorf("want 400 %s, got %d %s", want, got.code, got.body)
	}
}
