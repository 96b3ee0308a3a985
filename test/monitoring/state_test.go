package monitoring

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-state-metrics/v2/pkg/customresourcestate"
	"k8s.io/kube-state-metrics/v2/pkg/metric"
	generator "k8s.io/kube-state-metrics/v2/pkg/metric_generator"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

const root = "../.."

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// families are the metrics that kube-state-metrics makes of the configuration.
func families(t *testing.T) []generator.FamilyGenerator {
	t.Helper()
	var config customresourcestate.Metrics
	var file struct {
		Kind string                          `json:"kind"`
		Spec customresourcestate.MetricsSpec `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(read(t, "manifests/monitoring/customresourcestate.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	config.Spec = file.Spec
	resource := config.Spec.Resources[0]
	for i := range resource.Metrics {
		// As kube-state-metrics does when it has read its file.
		resource.Metrics[i].Each.Type = metric.Type(strings.ToLower(string(resource.Metrics[i].Each.Type)))
	}
	factory, err := customresourcestate.NewCustomResourceMetrics(resource)
	if err != nil {
		t.Fatal(err)
	}
	return factory.MetricFamilyGenerators()
}

// recorded are all releases of the fixtures, with the status that the hook answered, by
// the name of the fixture.
func recorded(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "test/fixtures/*.request.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*unstructured.Unstructured{}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".request.json")
		var request struct{ Parent map[string]any }
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(text, &request) != nil || request.Parent == nil {
			continue // it is about requests that are none
		}
		text, err = os.ReadFile(filepath.Join(root, "test/fixtures", name+".answer.json"))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Answer any }
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, _ := answer.Answer.(map[string]any)
		if status, ok := body["status"].(map[string]any); ok {
			request.Parent["status"] = status
			found[name] = &unstructured.Unstructured{Object: request.Parent}
		}
	}
	if len(found) < 100 {
		t.Fatalf("want at least 100 recorded releases, got %d", len(found))
	}
	return found
}

// expose is what a scrape of kube-state-metrics shows of one release.
func expose(families []generator.FamilyGenerator, release *unstructured.Unstructured) []string {
	var lines []string
	for _, family := range families {
		made := family.Generate(release)
		lines = append(lines, slices.Collect(strings.Lines(string(made.ByteSlice())))...)
	}
	return lines
}

// A rollback, a gate and a release that was invalid from the first, as they are scraped.
func TestSeries(t *testing.T) {
	families, releases := families(t), recorded(t)
	for _, name := range []string{"rolled-back", "paused-approval", "invalid-version-missing"} {
		if releases[name] == nil {
			t.Fatalf("want the fixture %s, there is none", name)
		}
		got := strings.Join(expose(families, releases[name]), "")
		got = strings.NewReplacer(`customresource_group="greyrelease.example.com",customresource_kind="GreyRelease",customresource_version="v1",`, "").Replace(got)
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != got {
			t.Errorf("%s: want\n%s\ngot\n%s", name, want, got)
		}
	}
}

// Prometheus refuses a scrape in which one series comes twice, and one release of such a
// kind would take the metrics of all others with it.
func TestEverySeriesIsThereOnce(t *testing.T) {
	families := families(t)
	for name, release := range recorded(t) {
		seen := map[string]bool{}
		for _, line := range expose(families, release) {
			series := line[:strings.LastIndex(line, " ")]
			if seen[series] {
				t.Errorf("%s: want each series once, got %s again", name, series)
			}
			seen[series] = true
		}
		if len(seen) < 10 {
			t.Errorf("%s: want at least 10 series, got %d", name, len(seen))
		}
	}
}

// A version that failed, was tried again and failed again, with its commands, is in the
// history four times.
func TestTriesOfOneVersionAreApart(t *testing.T) {
	release := recorded(t)["rolled-back"]
	entry := func(result, started, finished string) map[string]any {
		return map[string]any{"revision": int64(2), "version": "2.0", "result": result, "startedAt": started, "finishedAt": finished}
	}
	if err := unstructured.SetNestedSlice(release.Object, []any{
		entry("RolledBack", "2026-11-30T13:00:03Z", "2026-11-30T13:02:11Z"),
		entry("Command", "2026-11-30T14:00:00Z", "2026-11-30T14:00:00Z"),
		entry("Command", "2026-11-30T14:00:30Z", "2026-11-30T14:00:30Z"),
		entry("RolledBack", "2026-11-30T14:00:00Z", "2026-11-30T14:02:11Z"),
	}, "status", "history"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range expose(families(t), release) {
		if strings.HasPrefix(line, "kube_greyrelease_status_history_finished_time_seconds{") {
			seen[line[:strings.LastIndex(line, " ")]] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("want 4 series, got %q", slices.Collect(maps.Keys(seen)))
	}
}

// vocabulary is what can be asked for: the labels of each metric, and the values that
// were seen of each.
type vocabulary map[string]map[string]map[string]bool

var sample = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? \S+\s*$`)
var pair = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)

func (v vocabulary) learn(line string) error {
	match := sample.FindStringSubmatch(line)
	if match == nil {
		return fmt.Errorf("cannot read %q", line)
	}
	// Prometheus adds these to whatever it scrapes.
	labels := v[match[1]]
	if labels == nil {
		labels = map[string]map[string]bool{"instance": {}, "job": {}}
		v[match[1]] = labels
	}
	for _, p := range pair.FindAllStringSubmatch(match[2], -1) {
		if labels[p[1]] == nil {
			labels[p[1]] = map[string]bool{}
		}
		labels[p[1]][p[2]] = true
	}
	return nil
}

// known is the vocabulary of all recorded releases and of the service.
func known(t *testing.T) vocabulary {
	t.Helper()
	v := vocabulary{}
	families := families(t)
	for _, release := range recorded(t) {
		for _, line := range expose(families, release) {
			if err := v.learn(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	for line := range strings.Lines(string(read(t, "server/testdata/metrics.golden"))) {
		if !strings.HasPrefix(line, "#") {
			if err := v.learn(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	return v
}
