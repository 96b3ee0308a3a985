// Package kustomize builds the folders that users apply with kubectl apply -k, by
// the code that kubectl has for it.
package kustomize

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	manifests = "../../../manifests"
	published = "https://github.com/metacontroller/metacontroller/manifests/production?ref=v4.17.2"
)

func build(t *testing.T, dir string) resmap.ResMap {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// metacontroller builds a folder for Metacontroller with a copy of what that
// refers to.
func metacontroller(t *testing.T, folder string) resmap.ResMap {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "production"), os.DirFS("testdata/production")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"metacontroller", "metacontroller-restricted"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(manifests, name))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "metacontroller", "kustomization.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), published) != 1 {
		t.Fatalf("want %s, got\n%s", published, text)
	}
	text = []byte(strings.Replace(string(text), published, "../production", 1))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return build(t, filepath.Join(dir, folder))
}

// The flags are added to those that Metacontroller ships, and nothing else of it
// changes.
func TestMetacontrollerGetsItsRates(t *testing.T) {
	base, patched := build(t, "testdata/production"), metacontroller(t, "metacontroller")
	if base.Size() != patched.Size() {
		t.Fatalf("want %d objects, got %d", base.Size(), patched.Size())
	}
	changed := 0
	for i, was := range base.Resources() {
		is := patched.Resources()[i]
		if was.MustString() == is.MustString() {
			continue
		}
		changed++
		before, after := args(t, was.MustYaml()), args(t, is.MustYaml())
		want := slices.Concat(before, []string{"--client-go-qps=200", "--client-go-burst=400", "--workers=20", "--zap-log-level=info"})
		if !slices.Equal(want, after) {
			t.Errorf("want the arguments %v, got %v", want, after)
		}
		// The last of two counts, so it has to be ours.
		if level := slices.IndexFunc(after, func(arg string) bool { return strings.HasPrefix(arg, "--zap-log-level=") }); after[level] == "--zap-log-level=info" {
			t.Error("want a base that sets a log level: without one, drop ours")
		}
	}
	if changed != 1 {
		t.Errorf("want one object changed, got %d", changed)
	}
}

func args(t *testing.T, text string) []string {
	t.Helper()
	var set struct {
		Kind string
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Args []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &set); err != nil {
		t.Fatal(err)
	}
	if set.Kind != "StatefulSet" || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("want the StatefulSet with one container, got %s", text)
	}
	return set.Spec.Template.Spec.Containers[0].Args
}

// What kubectl apply -k manifests applies: every object, in an order in which each
// finds what it needs, with the image that kustomization.yaml names.
func TestManifestsBuild(t *testing.T) {
	built := build(t, manifests)
	var kinds []string
	for _, r := range built.Resources() {
		kinds = append(kinds, r.GetKind())
		if r.GetKind() == "Deployment" && !strings.Contains(r.MustYaml(), "image: greyrelease:dev\n") {
			t.Errorf("want the image greyrelease:dev, got %s", r.MustYaml())
		}
	}
	want := []string{
		"CustomResourceDefinition", "Namespace", "ClusterRole", "ClusterRole", "Deployment", "Service",
		"PodDisruptionBudget", "NetworkPolicy", "CompositeController",
	}
	if !slices.Equal(want, kinds) {
		t.Errorf("want %v, got %v", want, kinds)
	}
}

// An overlay is the CompositeController alone; as a patch of the base, which is how a
// kustomization of one's own uses it, it changes nothing else.
func TestOverlaysBuild(t *testing.T) {
	for _, name := range []string{"all", "gateway-api", "ingress", "pods", "secret-snapshots"} {
		overlay := build(t, filepath.Join(manifests, "overlays", name))
		if overlay.Size() != 1 {
			t.Fatalf("%s: want one object, got %d", name, overlay.Size())
		}
		want := plain(t, overlay.Resources()[0].MustYaml())
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(manifests)); err != nil {
			t.Fatal(err)
		}
		own := filepath.Join(dir, "own")
		if err := os.Mkdir(own, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(own, os.DirFS(filepath.Join(manifests, "overlays", name))); err != nil {
			t.Fatal(err)
		}
		text := "resources:\n- ../manifests\npatches:\n- path: compositecontroller.yaml\n"
		if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		base, patched := build(t, manifests), build(t, own)
		for i, was := range base.Resources() {
			is := patched.Resources()[i]
			switch {
			case was.GetKind() != "CompositeController" && was.MustString() != is.MustString():
				t.Errorf("%s: want %s %s as it was, got another", name, was.GetKind(), was.GetName())
			case was.GetKind() == "CompositeController" && !reflect.DeepEqual(want, plain(t, is.MustYaml())):
				t.Errorf("%s: want\n%v\ngot\n%s", name, want, is.MustYaml())
			}
		}
	}
}

func plain(t *testing.T, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// The folder for monitoring: the files that it takes in are those that are checked
// elsewhere, under names that kube-state-metrics and Grafana can be told.
func TestMonitoringBuilds(t *testing.T) {
	built := build(t, filepath.Join(manifests, "monitoring"))
	var got []string
	for _, r := range built.Resources() {
		got = append(got, r.GetKind()+" "+r.GetName())
		if r.GetKind() != "ConfigMap" {
			continue
		}
		for name, text := range r.GetDataMap() {
			if want, err := os.ReadFile(filepath.Join(manifests, "monitoring", name)); err != nil || string(want) != text {
				t.Errorf("want %s as it is, got %v\n%s", name, err, text)
			}
		}
	}
	want := []string{
		"ClusterRole greyrelease-kube-state-metrics", "ClusterRoleBinding greyrelease-kube-state-metrics",
		"ConfigMap greyrelease-customresourcestate", "ConfigMap greyrelease-dashboard",
		"PrometheusRule greyrelease", "ServiceMonitor greyrelease",
	}
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("want %v, got %v", want, got)
	}
}

// Metacontroller without an administrator's rights: its role becomes a sum of ours, and
// nothing else differs from the other folder but the role that is added.
func TestRestrictedMetacontroller(t *testing.T) {
	base, restricted := metacontroller(t, "metacontroller"), metacontroller(t, "metacontroller-restricted")
	if want, got := base.Size()+1, restricted.Size(); want != got {
		t.Fatalf("want %d objects, got %d", want, got)
	}
	sum := map[string]any{"clusterRoleSelectors": []any{map[string]any{"matchLabels": map[string]any{label: "true"}}}}
	for i, was := range base.Resources() {
		is := restricted.Resources()[i]
		if was.GetKind() != "ClusterRole" || was.GetName() != "metacontroller" {
			if was.MustString() != is.MustString() {
				t.Errorf("want %s %s as it was, got %s", was.GetKind(), was.GetName(), is.MustString())
			}
			continue
		}
		role := plain(t, is.MustYaml())
		if _, any := role["rules"]; any || !reflect.DeepEqual(sum, role["aggregationRule"]) {
			t.Errorf("want the sum %v and no rules of its own, got %v", sum, role)
		}
	}
	// A file for each overlay, under its name, with rules that name what they allow.
	overlays, err := os.ReadDir(filepath.Join(manifests, "overlays"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"base"}
	for _, overlay := range overlays {
		names = append(names, overlay.Name())
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(manifests, "metacontroller-restricted", name+".yaml"))
		if err != nil {
			t.Errorf("want the rights for %s: %v", name, err)
			continue
		}
		role := plain(t, string(text))
		labels := role["metadata"].(map[string]any)["labels"].(map[string]any)
		if role["kind"] != "ClusterRole" || labels[label] != "true" {
			t.Errorf("%s: want a ClusterRole that is added, got %v", name, role)
		}
		if strings.Contains(string(text), "*") {
			t.Errorf("%s: want rights named one by one, got\n%s", name, text)
		}
		// Each kind of the CompositeController can be written, and nothing else is.
		controller := filepath.Join(manifests, "overlays", name, "compositecontroller.yaml")
		if name == "base" {
			controller = filepath.Join(manifests, "40-compositecontroller.yaml")
		}
		want := children(t, controller)
		if name != "base" {
			for kind := range children(t, filepath.Join(manifests, "40-compositecontroller.yaml")) {
				delete(want, kind)
			}
		}
		got := map[string]bool{}
		for _, rule := range role["rules"].([]any) {
			if !slices.Contains(rule.(map[string]any)["verbs"].([]any), any("delete")) {
				continue
			}
			for _, group := range rule.(map[string]any)["apiGroups"].([]any) {
				for _, resource := range rule.(map[string]any)["resources"].([]any) {
					got[fmt.Sprintf("%s/%s", group, resource)] = true
				}
			}
		}
		if !maps.Equal(want, got) {
			t.Errorf("%s: want the kinds %v, got %v", name, want, got)
		}
	}
}

const label = "greyrelease.example.com/aggregate-to-metacontroller"

// children are the kinds of a CompositeController's children, as "apps/deployments".
func children(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var controller struct {
		Spec struct {
			ChildResources []struct{ APIVersion, Resource string }
		}
	}
	if err := yaml.Unmarshal(text, &controller); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, child := range controller.Spec.ChildResources {
		group, _, named := strings.Cut(child.APIVersion, "/")
		if !named {
			group = "" // v1
		}
		found[group+"/"+child.Resource] = true
	}
	return found
}
