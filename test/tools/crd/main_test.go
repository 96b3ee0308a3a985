package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../../.."
	committed = root + "/manifests/00-crd.yaml"
)

// generated is made once, because loading the types takes a second.
var generated = sync.OnceValues(func() ([]byte, error) {
	var text bytes.Buffer
	err := write(&text, root)
	return text.Bytes(), err
})

func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	var d apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func schemaOf(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return d.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func TestCommittedDefinitionIsFresh(t *testing.T) {
	want, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("want %s as the types make it: run make generate", committed)
	}
}

// A client-side kubectl apply keeps the whole object in one annotation, and all
// annotations together may have 256 KiB.
func TestSize(t *testing.T) {
	text, err := json.Marshal(definition(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 250_000 {
		t.Errorf("want at most 250000 bytes of JSON, got %d", len(text))
	}
}

// each calls f for every schema in s with its path.
func each(path string, s apiextensionsv1.JSONSchemaProps, f func(path string, s apiextensionsv1.JSONSchemaProps)) {
	f(path, s)
	for name, child := range s.Properties {
		each(path+"."+name, child, f)
	}
	if s.Items != nil && s.Items.Schema != nil {
		each(path+"[]", *s.Items.Schema, f)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		each(path+"{}", *s.AdditionalProperties.Schema, f)
	}
}

// The one default of the schema is that of replicas: the API server would write
// any other into objects, and a default inside the template would be a release.
func TestDefaults(t *testing.T) {
	var got []string
	each("", *schemaOf(definition(t)), func(path string, s apiextensionsv1.JSONSchemaProps) {
		if s.Default != nil {
			got = append(got, path+"="+string(s.Default.Raw))
		}
	})
	if want := []string{".spec.replicas=1"}; !slices.Equal(want, got) {
		t.Errorf("want %v, got %v", want, got)
	}
}

// kubectl explain has something to say about every field of ours.
func TestDescriptions(t *testing.T) {
	schema := schemaOf(definition(t))
	each("", *schema, func(path string, s apiextensionsv1.JSONSchemaProps) {
		inside := strings.HasPrefix(path, ".spec.template.")
		item := strings.HasSuffix(path, "[]") || strings.HasSuffix(path, "{}") // described by its list or map
		switch {
		case inside && s.Description != "":
			t.Errorf("%s: want no description, got %q", path, s.Description)
		case !inside && !item && path != ".metadata" && s.Description == "":
			t.Errorf("%s: want a description, got none", path)
		}
		if strings.Contains(s.Description, "kubebuilder") {
			t.Errorf("%s: want no marker in the description, got %q", path, s.Description)
		}
	})
	for name, field := range schema.Properties["spec"].Properties {
		required := name == "targetVersion" || name == "template"
		if strings.Contains(field.Description, "Default: ") == required {
			t.Errorf("spec.%s: want its default said unless it is required, got %q", name, field.Description)
		}
	}
}

func TestListMapsHaveRequiredKeys(t *testing.T) {
	each("", *schemaOf(definition(t)), func(path string, s apiextensionsv1.JSONSchemaProps) {
		if strings.HasPrefix(path, ".spec.template.") && strings.HasSuffix(path, ".ports") && s.XListType != nil {
			t.Errorf("%s: want an ordinary list, got %s", path, *s.XListType)
		}
		for _, key := range s.XListMapKeys {
			if !slices.Contains(s.Items.Schema.Required, key) {
				t.Errorf("%s: want the key %s required, got %v", path, key, s.Items.Schema.Required)
			}
		}
	})
}

func TestNamesAndSubresources(t *testing.T) {
	d := definition(t)
	names := d.Spec.Names
	if d.Spec.Scope != "Namespaced" || names.Kind != "GreyRelease" || names.Plural != "greyreleases" || !slices.Equal(names.ShortNames, []string{"gr"}) {
		t.Errorf("want a namespaced GreyRelease, greyreleases, gr, got %s %+v", d.Spec.Scope, names)
	}
	v := d.Spec.Versions[0]
	if v.Name != "v1" || !v.Served || !v.Storage {
		t.Errorf("want v1 served and stored, got %s %t %t", v.Name, v.Served, v.Storage)
	}
	if v.Subresources == nil || v.Subresources.Status == nil || v.Subresources.Scale == nil {
		t.Fatalf("want the subresources status and scale, got %+v", v.Subresources)
	}
	scale := v.Subresources.Scale
	if scale.SpecReplicasPath != ".spec.replicas" || scale.StatusReplicasPath != ".status.replicas" ||
		scale.LabelSelectorPath == nil || *scale.LabelSelectorPath != ".status.selector" {
		t.Errorf("want scale to point at spec.replicas, status.replicas and status.selector, got %+v", scale)
	}
	var got []string
	for _, column := range v.AdditionalPrinterColumns {
		name := strings.ToUpper(column.Name)
		if column.Priority > 0 {
			name += " (wide)"
		}
		got = append(got, name+" "+column.JSONPath)
	}
	want := []string{
		"PHASE .status.phase", "TARGET .status.targetVersion", "STABLE .status.stableVersion", "BATCH .status.progress",
		"WEIGHT .status.canaryWeight", "READY .status.readyReplicas", "AGE .metadata.creationTimestamp", "MESSAGE (wide) .status.message",
	}
	if !slices.Equal(want, got) {
		t.Errorf("want the columns\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}
