package kustomize

import (
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// The component for Secrets adds one kind to whatever CompositeController there is, and
// changes nothing else; on the base it is the overlay.
func TestSecretSnapshots(t *testing.T) {
	type kinds struct {
		Spec struct{ ChildResources []map[string]any }
	}
	for _, overlay := range []string{"", "all", "pods"} {
		without, with := own(t, overlay, "tls"), own(t, overlay, "tls", "secret-snapshots")
		var was, is kinds
		only(t, without, "CompositeController", &was)
		only(t, with, "CompositeController", &is)
		want := append(was.Spec.ChildResources, map[string]any{
			"apiVersion": "v1", "resource": "secrets", "updateStrategy": map[string]any{"method": "InPlace"},
		})
		if !reflect.DeepEqual(want, is.Spec.ChildResources) {
			t.Errorf("%s: want %v, got %v", overlay, want, is.Spec.ChildResources)
		}
		for _, r := range without.Resources() {
			other, err := with.GetById(r.OrgId())
			if err != nil {
				t.Fatal(err)
			}
			before, after := plain(t, r.MustYaml()), plain(t, other.MustYaml())
			if r.GetKind() == "CompositeController" {
				delete(before["spec"].(map[string]any), "childResources")
				delete(after["spec"].(map[string]any), "childResources")
			}
			if !reflect.DeepEqual(before, after) {
				t.Errorf("%s: want %s %s as it was, got %v", overlay, r.GetKind(), r.GetName(), after)
			}
		}
	}
	var component, overlay map[string]any
	only(t, own(t, "", "secret-snapshots"), "CompositeController", &component)
	text := build(t, filepath.Join(manifests, "overlays", "secret-snapshots")).Resources()[0].MustYaml()
	if err := yaml.Unmarshal([]byte(text), &overlay); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(component, overlay) {
		t.Errorf("want the component to make the overlay\n%v\ngot\n%v", overlay, component)
	}
}
