package manifests

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"greyrelease.example.com/hooks/greyrelease"
)

// A schema of the CRD, as far as paths go through it.
type schema struct {
	Type       string            `json:"type"`
	Format     string            `json:"format"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
}

// at is the schema at a path below s; elements of a list are looked into.
func (s schema) at(path []string) (schema, bool) {
	for _, part := range path {
		if s.Type == "array" {
			s = *s.Items
		}
		below, ok := s.Properties[part]
		if !ok {
			return schema{}, false
		}
		s = below
	}
	return s, true
}

// customResourceState is the configuration of kube-state-metrics, as far as we use it.
type customResourceState struct {
	Kind string `json:"kind"`
	Spec struct {
		Resources []struct {
			GroupVersionKind struct{ Group, Version, Kind string } `json:"groupVersionKind"`
			MetricNamePrefix string                                `json:"metricNamePrefix"`
			LabelsFromPath   map[string][]string                   `json:"labelsFromPath"`
			ErrorLogV        int                                   `json:"errorLogV"`
			Metrics          []struct {
				Name string `json:"name"`
				Help string `json:"help"`
				Each struct {
					Type     string   `json:"type"`
					Info     *measure `json:"info"`
					Gauge    *measure `json:"gauge"`
					StateSet *measure `json:"stateSet"`
				} `json:"each"`
			} `json:"metrics"`
		} `json:"resources"`
	} `json:"spec"`
}

type measure struct {
	Path           []string            `json:"path"`
	LabelsFromPath map[string][]string `json:"labelsFromPath"`
	ValueFrom      []string            `json:"valueFrom"`
	NilIsZero      bool                `json:"nilIsZero"`
	LabelName      string              `json:"labelName"`
	List           []string            `json:"list"`
}

// Every path leads to a field of the CRD, of a type that becomes the number or the label
// that it is used for. kube-state-metrics would silently leave out what is not there.
func TestStateMetricsFollowTheSchema(t *testing.T) {
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					Root schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "00-crd.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	root := crd.Spec.Versions[0].Schema.Root
	// The schema of a CRD leaves metadata to the API server.
	text := schema{Type: "string"}
	root.Properties["metadata"] = schema{Type: "object", Properties: map[string]schema{
		"name": text, "namespace": text, "generation": {Type: "integer"}, "creationTimestamp": {Type: "string", Format: "date-time"},
	}}
	var config customResourceState
	if err := yaml.UnmarshalStrict([]byte(read(t, "monitoring/customresourcestate.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	if config.Kind != "CustomResourceStateMetrics" || len(config.Spec.Resources) != 1 {
		t.Fatalf("want one resource, got %+v", config)
	}
	release := config.Spec.Resources[0]
	if got := release.GroupVersionKind; got.Group+"/"+got.Version != greyrelease.APIVersion || got.Kind != "GreyRelease" || crd.Spec.Versions[0].Name != got.Version {
		t.Errorf("want GreyReleases, got %+v", got)
	}
	follow := func(what string, from schema, path []string) schema {
		found, ok := from.at(path)
		if !ok {
			t.Errorf("%s: the CRD has no field %v", what, path)
		}
		return found
	}
	labels := func(what string, from schema, paths map[string][]string) {
		for label, path := range paths {
			if s := follow(what+", label "+label, from, path); s.Type != "string" && s.Type != "integer" && s.Type != "boolean" {
				t.Errorf("%s, label %s: want a value, got %q at %v", what, label, s.Type, path)
			}
		}
	}
	labels("all metrics", root, release.LabelsFromPath)
	for _, metric := range release.Metrics {
		var m *measure
		switch metric.Each.Type {
		case "Info":
			m = metric.Each.Info
		case "Gauge":
			m = metric.Each.Gauge
			value := follow(metric.Name, follow(metric.Name, root, m.Path), m.ValueFrom)
			condition := slices.Equal(m.Path, []string{"status", "conditions"}) && slices.Equal(m.ValueFrom, []string{"status"})
			switch {
			case value.Type == "integer" || value.Type == "boolean" || value.Format == "date-time" || condition:
			default:
				t.Errorf("%s: want a number, a truth or an instant, got %q %q", metric.Name, value.Type, value.Format)
			}
			if value.Format == "date-time" != strings.HasSuffix(metric.Name, "_time_seconds") && metric.Name != "created" {
				t.Errorf("%s: want _time_seconds for instants and nothing else, got %q", metric.Name, value.Format)
			}
		case "StateSet":
			m = metric.Each.StateSet
			if s := follow(metric.Name, root, m.Path); s.Type != "string" {
				t.Errorf("%s: want a string, got %q", metric.Name, s.Type)
			}
		}
		if m == nil {
			t.Errorf("%s: want a %s, got none", metric.Name, metric.Each.Type)
			continue
		}
		labels(metric.Name, follow(metric.Name, root, m.Path), m.LabelsFromPath)
		if metric.Help == "" || !strings.HasSuffix(metric.Help, ".") {
			t.Errorf("%s: want a sentence of help, got %q", metric.Name, metric.Help)
		}
		if metric.Name == "status_phase" {
			if want := phases(t); !slices.Equal(want, m.List) {
				t.Errorf("want the phases %v, got %v", want, m.List)
			}
		}
	}
	if len(release.Metrics) < 15 {
		t.Errorf("want at least 15 metrics, got %d", len(release.Metrics))
	}
}

// phases are the phases of the code, sorted.
func phases(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile(`Phase = "(\w+)"`).FindAllStringSubmatch(read(t, "../hooks/greyrelease/types.go"), -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}

// The rules are written down twice, for Prometheus and for its operator.
func TestPrometheusRuleHasTheRules(t *testing.T) {
	var plain any
	if err := yaml.Unmarshal([]byte(read(t, "monitoring/rules.yaml")), &plain); err != nil {
		t.Fatal(err)
	}
	var object struct {
		APIVersion, Kind string
		Metadata         any
		Spec             any
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "monitoring/prometheusrule.yaml")), &object); err != nil {
		t.Fatal(err)
	}
	if object.APIVersion != "monitoring.coreos.com/v1" || object.Kind != "PrometheusRule" || !reflect.DeepEqual(plain, object.Spec) {
		t.Errorf("want a PrometheusRule with the groups of rules.yaml, got\n%+v\nand\n%+v", plain, object.Spec)
	}
}

// Prometheus finds the hook's pods by the Service, and the policy lets it in.
func TestServiceMonitorMeetsTheService(t *testing.T) {
	var monitor struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string            `json:"name"`
			Namespace string            `json:"namespace"`
			Labels    map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Selector  struct{ MatchLabels map[string]string } `json:"selector"`
			Endpoints []struct{ Port, Interval string }       `json:"endpoints"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "monitoring/servicemonitor.yaml")), &monitor); err != nil {
		t.Fatal(err)
	}
	service := load[corev1.Service](t, "Service")
	if monitor.Metadata.Namespace != service.Namespace || !apilabels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(apilabels.Set(service.Labels)) {
		t.Errorf("want a selector that meets the Service %+v, got %+v", service.ObjectMeta, monitor)
	}
	if len(monitor.Spec.Endpoints) != 1 || !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == monitor.Spec.Endpoints[0].Port }) {
		t.Errorf("want a port of the Service, got %+v", monitor.Spec.Endpoints)
	}
}

// kube-state-metrics may list and watch, and nothing else.
func TestStateMetricsMayOnlyRead(t *testing.T) {
	documents := strings.Split(read(t, "monitoring/role.yaml"), "\n---\n")
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	if err := yaml.UnmarshalStrict([]byte(documents[0]), &role); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(documents[1]), &binding); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{greyrelease.Group}, Resources: []string{greyrelease.Resource}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}},
	}
	if !reflect.DeepEqual(want, role.Rules) {
		t.Errorf("want %v, got %v", want, role.Rules)
	}
	if binding.RoleRef.Name != role.Name || len(binding.Subjects) != 1 {
		t.Errorf("want a binding of %s, got %+v", role.Name, binding)
	}
	if entries, err := filepath.Glob(filepath.Join(folder, "monitoring", "*")); err != nil || len(entries) != 7 {
		t.Errorf("want 7 files, each looked at by a test, got %v, %v", entries, err)
	}
}
