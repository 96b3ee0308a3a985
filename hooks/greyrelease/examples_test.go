package greyrelease

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The examples are the first thing that people apply: each opens with its story,
// sets only fields that exist and passes every check of the hook.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("want examples, got %v %v", files, err)
	}
	releases := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s: want it to open with what will happen, got %.40q", file, text)
		}
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     json.RawMessage
		}
		if err := yaml.Unmarshal(text, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if object.Kind != Kind {
			continue
		}
		releases++
		var release GreyRelease
		if err := yaml.UnmarshalStrict(text, &release); err != nil {
			t.Errorf("%s: want only fields that exist, got %v", file, err)
		}
		errs := validateName(object.Metadata.Name)
		spec, specErrs := decodeSpec(object.Spec)
		errs = append(errs, specErrs...)
		errs = append(errs, validateTemplate(spec.Template, "default")...)
		if len(errs) > 0 {
			t.Errorf("%s: want no errors, got\n%s", file, texts(errs))
		}
	}
	if releases < 12 {
		t.Errorf("want at least 12 releases among the examples, got %d", releases)
	}
}
