package greyrelease

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func jsonNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// The hook reads every field that the API has, and says so where a value does not
// fit: no field of the schema is left to the API server alone.
func TestEveryFieldIsChecked(t *testing.T) {
	for _, name := range jsonNames(reflect.TypeFor[GreyReleaseSpec]()) {
		value, path := `{"x":1}`, "spec."+name
		if name == "template" {
			value = `5`
			if errs := validateTemplate(json.RawMessage(value), "default"); len(errs) != 1 || errs[0].Field != path {
				t.Errorf("%s: want one error there, got %q", name, texts(errs))
			}
			continue
		}
		_, errs := decodeSpec(specWith(t, fmt.Sprintf("%q:%s", name, value)))
		if len(errs) != 1 || errs[0].Field != path {
			t.Errorf("%s: want one error there, got %q", name, texts(errs))
		}
	}
	for _, name := range jsonNames(reflect.TypeFor[Batch]()) {
		_, errs := decodeSpec(specWith(t, fmt.Sprintf(`"batches":[{"replicas":1,%q:{"x":1}}]`, name)))
		if want := "spec.batches[0]." + name; len(errs) != 1 || errs[0].Field != want {
			t.Errorf("%s: want one error there, got %q", name, texts(errs))
		}
	}
}

// Columns and autoscalers read counts, so a zero is written; all else is left out
// while there is nothing to say.
func TestEmptyStatus(t *testing.T) {
	got, err := json.Marshal(GreyReleaseStatus{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"currentBatch":0,"totalBatches":0,"canaryWeight":0,"replicas":0,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0}`
	if want != string(got) {
		t.Errorf("want %s, got %s", want, got)
	}
}
