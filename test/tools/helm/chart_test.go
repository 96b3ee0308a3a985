// Package helm lints and renders the chart of manifests/helm, by the code of Helm, and
// compares it with what kustomize makes of the manifests beside it.
package helm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	manifests = "../../../manifests"
	folder    = manifests + "/helm"
)

type object = map[string]any

// load reads the chart. Helm says on the log that it follows links, which is meant here:
// the CRD and the alerts are those of the manifests.
func load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// render is what helm install would apply, by kind and name.
func render(t *testing.T, values object) (map[string]object, error) {
	t.Helper()
	loaded := load(t)
	options := chartutil.ReleaseOptions{Name: "greyrelease", Namespace: "greyrelease-system", IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]object{}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		for _, document := range strings.Split(text, "\n---\n") {
			var o object
			if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			if len(o) > 0 {
				objects[identity(o)] = o
			}
		}
	}
	return objects, nil
}

func identity(o object) string {
	return fmt.Sprint(o["kind"], " ", o["metadata"].(object)["name"])
}

// kustomized is what kubectl apply -k would, of the base and then of the folders, each
// in place of what has its name.
func kustomized(t *testing.T, folders ...string) map[string]object {
	t.Helper()
	objects := map[string]object{}
	for _, folder := range append([]string{"."}, folders...) {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(manifests, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range built.Resources() {
			var o object
			if err := yaml.Unmarshal([]byte(r.MustYaml()), &o); err != nil {
				t.Fatal(err)
			}
			objects[identity(o)] = o
		}
	}
	// The namespace is that of the release, which Helm makes itself.
	delete(objects, "Namespace greyrelease-system")
	return objects
}

func compare(t *testing.T, what string, want, got map[string]object) {
	t.Helper()
	if want, got := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(want, got) {
		t.Errorf("%s: want the objects %q, got %q", what, want, got)
	}
	for name := range want {
		if !reflect.DeepEqual(want[name], got[name]) {
			t.Errorf("%s: %s: want\n%v\ngot\n%v", what, name, text(t, want[name]), text(t, got[name]))
		}
	}
}

func text(t *testing.T, o object) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text[:min(len(text), 4000)])
}

// The chart makes the objects of the manifests, for each overlay, and changes nothing in
// them but that the CRD stays behind.
func TestChartMakesTheManifests(t *testing.T) {
	for overlay, values := range map[string]object{
		"":                 nil,
		"gateway-api":      {"gatewayAPI": true},
		"ingress":          {"ingress": true},
		"pods":             {"pods": true},
		"secret-snapshots": {"secretSnapshots": true},
		"all":              {"gatewayAPI": true, "ingress": true, "pods": true},
	} {
		got, err := render(t, object{"image": object{"tag": "dev"}, "overlays": values})
		if err != nil {
			t.Fatal(err)
		}
		var folders []string
		if overlay != "" {
			folders = []string{filepath.Join("overlays", overlay)}
		}
		want := kustomized(t, folders...)
		crd := want["CustomResourceDefinition greyreleases.greyrelease.example.com"]["metadata"].(object)
		annotations, _ := crd["annotations"].(object)
		if annotations == nil {
			annotations = object{}
			crd["annotations"] = annotations
		}
		annotations["helm.sh/resource-policy"] = "keep"
		compare(t, overlay, want, got)
	}
	overlays, err := os.ReadDir(filepath.Join(manifests, "overlays"))
	if err != nil {
		t.Fatal(err)
	}
	if len(overlays) != 5 {
		t.Errorf("want a value for each overlay, there are %d", len(overlays))
	}
}

// What is for the Prometheus Operator is that of manifests/monitoring.
func TestChartMakesTheMonitoring(t *testing.T) {
	base, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := render(t, object{"monitoring": object{"serviceMonitor": true, "prometheusRule": true}})
	if err != nil {
		t.Fatal(err)
	}
	for name := range base {
		delete(all, name)
	}
	want := kustomized(t, "monitoring")
	maps.DeleteFunc(want, func(name string, _ object) bool {
		return name != "ServiceMonitor greyrelease" && name != "PrometheusRule greyrelease"
	})
	compare(t, "monitoring", want, all)
}

// Each value does what it says.
func TestValues(t *testing.T) {
	got, err := render(t, object{
		"image":               object{"repository": "registry.example.com/greyrelease", "pullPolicy": "Always"},
		"imagePullSecrets":    []any{object{"name": "registry"}},
		"replicas":            3,
		"args":                []any{"--log-level=debug"},
		"resources":           object{"limits": object{"memory": "1Gi"}},
		"nodeSelector":        object{"kubernetes.io/os": "linux"},
		"tolerations":         []any{object{"operator": "Exists"}},
		"metacontroller":      object{"namespace": "mc"},
		"crd":                 object{"install": false},
		"rbac":                object{"aggregate": false},
		"podDisruptionBudget": object{"enabled": false},
		"monitoring":          object{"serviceMonitor": true, "labels": object{"release": "prometheus"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CompositeController greyrelease", "Deployment greyrelease", "NetworkPolicy greyrelease", "Service greyrelease", "ServiceMonitor greyrelease"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(want, names) {
		t.Errorf("want the objects %q, got %q", want, names)
	}
	for name, parts := range map[string][]string{
		"Deployment greyrelease": {
			"image: registry.example.com/greyrelease:v0.1.0\n", "imagePullPolicy: Always\n", "imagePullSecrets:\n      - name: registry\n", "replicas: 3\n",
			"- --max-buffered=128Mi\n        - --log-level=debug\n", "memory: 1Gi\n", "nodeSelector:\n        kubernetes.io/os: linux\n", "tolerations:\n      - operator: Exists\n",
		},
		"NetworkPolicy greyrelease":  {"kubernetes.io/metadata.name: mc\n"},
		"ServiceMonitor greyrelease": {"release: prometheus\n"},
	} {
		for _, part := range parts {
			if made := text(t, got[name]); !strings.Contains(made, part) {
				t.Errorf("%s: want %q, got\n%s", name, part, made)
			}
		}
	}
	got, err = render(t, object{"networkPolicy": object{"enabled": false}})
	if err != nil {
		t.Fatal(err)
	}
	if _, there := got["NetworkPolicy greyrelease"]; there {
		t.Error("want no NetworkPolicy, there is one")
	}
}

// A value that does not exist or is of another kind is refused.
func TestValuesAreChecked(t *testing.T) {
	for _, test := range []struct {
		values object
		want   string
	}{
		{object{"replica": 3}, "replica"},
		{object{"image": object{"version": "1"}}, "version"},
		{object{"replicas": 0}, "replicas"},
		{object{"replicas": "2"}, "replicas"},
		{object{"overlays": object{"gatewayApi": true}}, "gatewayApi"},
		{object{"args": []any{"log-level=debug"}}, "args"},
	} {
		if _, err := render(t, test.values); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: want an error about %s, got %v", test.values, test.want, err)
		}
	}
}

// Each value has a comment above it, and the schema knows it.
func TestValuesAreDocumented(t *testing.T) {
	lines := strings.Split(string(read(t, folder+"/values.yaml")), "\n")
	name := regexp.MustCompile(`^ *([A-Za-z]+):(.*)$`)
	documented := 0
	for i, line := range lines {
		match := name.FindStringSubmatch(line)
		within := regexp.MustCompile(`^ +(requests|limits|cpu|memory):`).MatchString(line)
		group := match != nil && match[2] == "" && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "#")
		if match == nil || within || group {
			continue
		}
		documented++
		if !strings.HasPrefix(strings.TrimSpace(lines[i-1]), "#") {
			t.Errorf("%s: want a comment above, got %q", match[1], lines[i-1])
		}
	}
	if documented < 20 {
		t.Errorf("want at least 20 values, got %d", documented)
	}
	var values, schema object
	for path, into := range map[string]*object{"values.yaml": &values, "values.schema.json": &schema} {
		if err := yaml.Unmarshal(read(t, folder+"/"+path), into); err != nil {
			t.Fatal(err)
		}
	}
	properties := schema["properties"].(object)
	for name, value := range values {
		property, ok := properties[name].(object)
		if !ok {
			t.Errorf("want %s in the schema", name)
			continue
		}
		below, ok := property["properties"].(object)
		if group, isGroup := value.(object); ok && isGroup && !slices.Equal(slices.Sorted(maps.Keys(group)), slices.Sorted(maps.Keys(below))) {
			t.Errorf("%s: want %v in the schema, got %v", name, group, below)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestLint(t *testing.T) {
	linter := lint.All(folder, object{}, "greyrelease-system", true)
	for _, message := range linter.Messages {
		// It only advises an icon.
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
	// A folder without a chart is one that it complains about.
	if bad := lint.All(t.TempDir(), object{}, "greyrelease-system", true); bad.HighestSeverity != support.ErrorSev {
		t.Errorf("want an error for a folder without a chart, got %v", bad.Messages)
	}
}

// The chart, the service that it installs and what the pages install are of one version.
func TestVersionsAreInStep(t *testing.T) {
	metadata := load(t).Metadata
	if "v"+metadata.Version != metadata.AppVersion {
		t.Errorf("want the version of the chart v%s, got %s", metadata.Version, metadata.AppVersion)
	}
	readme := string(read(t, "../../../README.md"))
	for _, version := range regexp.MustCompile(`(?:VERSION=|greyrelease:)(v[0-9.]+[0-9])`).FindAllStringSubmatch(readme, -1) {
		if version[1] != metadata.AppVersion {
			t.Errorf("README.md: want %s, got %s", metadata.AppVersion, version[0])
		}
	}
}
