package manifests

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"greyrelease.example.com/hooks/greyrelease"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An overlay is the CompositeController of the base with more kinds and the hook
// that sends endpoints along, or says that pods come too, and nothing else.
func TestOverlays(t *testing.T) {
	routes := resource{"gateway.networking.k8s.io/v1", "httproutes"}
	ingresses := resource{"networking.k8s.io/v1", "ingresses"}
	secrets := resource{"v1", "secrets"}
	overlays := map[string][]resource{
		"all": {routes, ingresses}, "gateway-api": {routes}, "ingress": {ingresses}, "pods": nil, "secret-snapshots": {secrets},
	}
	pods := map[string]bool{"all": true, "pods": true}
	entries, err := os.ReadDir(filepath.Join(folder, "overlays"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(overlays) {
		t.Errorf("want %d overlays, got %d", len(overlays), len(entries))
	}
	for name, more := range overlays {
		var got compositeController
		if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join("overlays", name, "compositecontroller.yaml"))), &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := load[compositeController](t, "CompositeController")
		for _, kind := range more {
			child := want.Spec.ChildResources[0]
			child.resource = kind
			want.Spec.ChildResources = append(want.Spec.ChildResources, child)
		}
		if pods[name] {
			want.Annotations = map[string]string{greyrelease.AnnotationPods: "true"}
		}
		if name != "secret-snapshots" { // which looks at nothing beside children
			customize := *want.Spec.Hooks.Sync
			customize.Webhook.Path = "/customize"
			want.Spec.Hooks.Customize = &customize
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: want\n%+v\ngot\n%+v", name, want, got)
		}
		var kustomization struct{ Resources []string }
		if err := yaml.Unmarshal([]byte(read(t, filepath.Join("overlays", name, "kustomization.yaml"))), &kustomization); err != nil {
			t.Fatal(err)
		}
		if want := []string{"compositecontroller.yaml"}; !slices.Equal(want, kustomization.Resources) {
			t.Errorf("%s: want the resources %v, got %v", name, want, kustomization.Resources)
		}
	}
}

// A spec that asks for a kind of an overlay is told which one.
func TestMessagesNameOverlays(t *testing.T) {
	for more, overlay := range map[string]string{
		`"traffic":{"httpRoute":{"parentRefs":[{"name":"gw"}]},"ports":[{"port":80}]}`: "gateway-api",
		`"traffic":{"ingress":{},"ports":[{"port":80}]}`:                               "ingress",
		`"snapshotKind":"Secret"`:                                                      "secret-snapshots",
	} {
		body := `{"parent":{"metadata":{"name":"web","namespace":"default","generation":1},"spec":{"targetVersion":"1","template":{"spec":{"containers":[{"name":"a","image":"a"}]}},` + more + `}},` +
			`"children":{"Deployment.apps/v1":{},"ConfigMap.v1":{},"Service.v1":{}}}`
		request, err := greyrelease.DecodeSync([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := greyrelease.Sync(request, greyrelease.Measurements{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		status := response.Status.(*greyrelease.GreyReleaseStatus)
		path := "manifests/overlays/" + overlay
		if status.Phase != greyrelease.PhaseInvalid || !strings.Contains(status.Message, path) {
			t.Errorf("want Invalid with %s, got %s: %s", path, status.Phase, status.Message)
		}
		if _, err := os.Stat(filepath.Join("../..", path, "kustomization.yaml")); err != nil {
			t.Errorf("want the overlay that the message names, got %v", err)
		}
	}
}
