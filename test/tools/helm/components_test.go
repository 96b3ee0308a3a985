package helm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// own is what kubectl apply -k would apply of a kustomization of somebody's own: the
// manifests with an overlay, and components on top of that.
func own(t *testing.T, overlay string, components []string) map[string]object {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(manifests)); err != nil {
		t.Fatal(err)
	}
	write := func(folder string, fields object) {
		t.Helper()
		text, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, folder, "kustomization.yaml"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	chosen := object{"resources": []string{"../manifests"}}
	if overlay != "" {
		path := filepath.Join(dir, "manifests", "overlays", overlay, "compositecontroller.yaml")
		chosen["patches"] = []object{{"patch": string(read(t, path))}}
	}
	write("chosen", chosen)
	var paths []string
	for _, component := range components {
		paths = append(paths, filepath.Join("..", "manifests", "components", component))
	}
	write("own", object{"resources": []string{"../chosen"}, "components": paths})
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]object{}
	for _, r := range built.Resources() {
		var o object
		if err := yaml.Unmarshal([]byte(r.MustYaml()), &o); err != nil {
			t.Fatal(err)
		}
		objects[identity(o)] = o
	}
	delete(objects, "Namespace greyrelease-system")
	return objects
}

// The chart makes what the components make of the manifests, alone, together, and with
// overlays.
func TestChartMakesTheComponents(t *testing.T) {
	on := object{"enabled": true}
	prometheus := object{"url": "http://prometheus-operated.monitoring:9090"}
	used := map[string]bool{}
	for _, row := range []struct {
		overlay    string
		components []string
		values     object
	}{
		{"", []string{"tls"}, object{"tls": on}},
		{"", []string{"tls", "mtls"}, object{"tls": on, "mtls": on}},
		{"", []string{"tls", "token"}, object{"tls": on, "token": on}},
		{"", []string{"prometheus"}, object{"prometheus": prometheus}},
		{"", []string{"secret-snapshots"}, object{"overlays": object{"secretSnapshots": true}}},
		{"gateway-api", []string{"tls", "tls/customize"}, object{"tls": on, "overlays": object{"gatewayAPI": true}}},
		{
			"all", []string{"prometheus", "tls", "tls/customize", "mtls", "token", "secret-snapshots"},
			object{
				"tls": on, "mtls": on, "token": on, "prometheus": prometheus,
				"overlays": object{"gatewayAPI": true, "ingress": true, "pods": true, "secretSnapshots": true},
			},
		},
	} {
		values := object{"image": object{"tag": "dev"}}
		for name, value := range row.values {
			values[name] = value
		}
		got, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		want := own(t, row.overlay, row.components)
		for _, component := range row.components {
			used[component] = true
		}
		// The CRD stays behind, and is compared elsewhere.
		const crd = "CustomResourceDefinition greyreleases.greyrelease.example.com"
		delete(want, crd)
		delete(got, crd)
		compare(t, strings.Join(append([]string{row.overlay}, row.components...), " "), want, got)
	}
	entries, err := os.ReadDir(filepath.Join(manifests, "components"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !used[entry.Name()] {
			t.Errorf("want the component %s compared", entry.Name())
		}
	}
}

// Names of what is mounted can be one's own, and what makes no sense is refused.
func TestComponentValues(t *testing.T) {
	on := func(more object) object {
		more["enabled"] = true
		return more
	}
	got, err := render(t, object{
		"tls": on(object{"secret": "a", "authority": "b"}), "mtls": on(object{"secret": "c", "authority": "d"}), "token": on(object{"secret": "e"}),
		"prometheus": object{"url": "https://thanos.observability:10902", "namespace": "observability", "port": 10902}, "args": []any{"--log-level=debug"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"Deployment greyrelease":          {"secretName: a\n", "name: d\n", "secretName: e\n", "- --prometheus-url=https://thanos.observability:10902\n", "accepted\n        - --log-level=debug\n"},
		"CompositeController greyrelease": {"name: b\n", "name: c\n", "name: e\n"},
		"NetworkPolicy greyrelease":       {"kubernetes.io/metadata.name: observability\n", "port: 10902\n"},
	} {
		for _, part := range parts {
			if made := text(t, got[name]); !strings.Contains(made, part) {
				t.Errorf("%s: want %q, got\n%s", name, part, made)
			}
		}
	}
	for _, test := range []struct {
		values object
		want   string
	}{
		{object{"mtls": object{"enabled": true}}, "need tls.enabled"},
		{object{"token": object{"enabled": true}}, "need tls.enabled"},
		{object{"tls": object{"enabled": "yes"}}, "enabled"},
		{object{"tls": object{"secret": ""}}, "secret"},
		{object{"token": object{"secrets": "e"}}, "secrets"},
		{object{"prometheus": object{"url": "prometheus:9090"}}, "url"},
		{object{"prometheus": object{"port": 0}}, "port"},
	} {
		if _, err := render(t, test.values); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: want an error about %s, got %v", test.values, test.want, err)
		}
	}
	// Without any of them nothing is mounted.
	plain, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text(t, plain["Deployment greyrelease"]), "\n")
	if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "olume") || strings.Contains(line, "fsGroup") }) {
		t.Errorf("want no volumes, got %s", strings.Join(lines, "\n"))
	}
}
