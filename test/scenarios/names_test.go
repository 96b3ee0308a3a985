package scenarios

import (
	"os"
	"strings"
	"testing"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// NM-01: with the longest legal name every name and label value is legal; a
// longer one is refused with the limit in the message.
func TestNM01NamesOfChildren(t *testing.T) {
	for length, legal := range map[int]bool{1: true, 40: true, 52: true, 53: false, 57: false, 63: false, 253: false} {
		s := NewStage(sim.Dynamic, 0)
		s.Release = sim.Release(strings.Repeat("w", length))
		s.onward(t, "create {replicas: 1}\nrun 10s\nedit {targetVersion: \"2.0\"}\nrun 10s")
		want := "Healthy"
		if !legal {
			want = "Invalid"
		}
		if phase, _ := s.value("phase"); phase != want {
			t.Errorf("%d characters: want phase %s, got %s", length, want, s.show())
		}
		if message, _ := s.value("message"); !legal && !strings.Contains(message, "52") {
			t.Errorf("%d characters: want the limit in the message, got %q", length, message)
		}
		for _, k := range []*sim.Kind{sim.ConfigMaps, sim.Deployments} {
			for _, o := range s.Server.List(k) {
				checkLabels(t, o)
			}
		}
	}
}

func checkLabels(t *testing.T, o *sim.Object) {
	t.Helper()
	if errs := validation.IsDNS1123Subdomain(o.Name); len(errs) > 0 {
		t.Errorf("%s: %v", o.Ref, errs)
	}
	for _, path := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}} {
		for name, value := range apply.Object(o.Tree, path...) {
			if errs := validation.IsValidLabelValue(value.(string)); len(errs) > 0 {
				t.Errorf("%s: label %s: %v", o.Ref, name, errs)
			}
		}
	}
	// ReplicaSets add their hash to the Deployment's name and pods five more characters.
	if o.Kind == sim.Deployments {
		if n := len(o.Name); n > 63 {
			t.Errorf("%s has %d characters", o.Ref, n)
		}
	}
}

// UX-06: what "kubectl get" shows of a release is there in each phase.
func TestUX06ColumnsAreNeverEmpty(t *testing.T) {
	data, err := os.ReadFile("../../manifests/00-crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				AdditionalPrinterColumns []struct{ Name, JSONPath string }
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
		names = append(names, c.Name)
	}
	if got, want := strings.Join(names, " "), "Phase Target Stable Batch Weight Ready Age Message"; got != want {
		t.Errorf("want the columns %s, got %s", want, got)
	}
	const begin = "create {replicas: 4, batches: [{replicas: 1, approval: true}], progressDeadlineSeconds: 60}\nbehave 3.0 hang\nuntil phase=Healthy within 1m\n"
	for phase, script := range map[string]string{
		"Healthy":     begin,
		"Progressing": begin + "edit {targetVersion: \"3.0\"}\nrun 5s",
		"Paused":      begin + "edit {targetVersion: \"2.0\"}\nrun 5s",
		"RolledBack":  begin + "edit {targetVersion: \"3.0\"}\nrun 5m",
		"Invalid":     begin + "edit {batches: [{replicas: 0}]}\nrun 5s",
	} {
		s := after(t, sim.Dynamic, script)
		if got, _ := s.value("phase"); got != phase {
			t.Errorf("want phase %s, got %s", phase, got)
		}
		o, err := s.Parent()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			path := strings.Split(strings.TrimPrefix(c.JSONPath, "."), ".")
			if v := apply.Field(o.Tree, path...); v == nil || v == "" {
				t.Errorf("%s: column %s (%s) is empty", phase, c.Name, c.JSONPath)
			}
		}
	}
	// The very first status has a phase already.
	s := after(t, sim.Dynamic, "create {replicas: 4}\nrun 6ms")
	if phase, _ := s.value("phase"); phase != "Pending" {
		t.Errorf("want phase Pending after the first sync, got %q", phase)
	}
}
