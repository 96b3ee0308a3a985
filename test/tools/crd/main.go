// Crd prints the CustomResourceDefinition of GreyRelease, made from the Go types.
//
//	crd <folder of the product's module>
//
// The API server persists schema defaults when it reads an object. Kubernetes'
// own types carry some in the pod template (a port's protocol), and a later
// version of them may carry others; a regenerated CRD would then change the
// content of every release, and with it start one. So there is no default below
// spec.template. Descriptions go from there too: kubectl explain has them for
// pods, and with them the CRD would be too large for a client-side kubectl apply,
// which keeps a copy of it in an annotation.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

const header = "# Made from hooks/greyrelease/types.go by make generate. Edit that file, not this one.\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crd <folder of the product's module>")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crd:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, root string) error {
	definition, err := generate(root)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(definition)
	if err != nil {
		return fmt.Errorf("cannot encode the definition: %w", err)
	}
	_, err = io.Copy(w, bytes.NewReader(append([]byte(header), text...)))
	return err
}

// generate makes the definition from the types in the module at root.
func generate(root string) (*apiextensionsv1.CustomResourceDefinition, error) {
	pkgs, err := loader.LoadRootsWithConfig(&packages.Config{Dir: root}, "./hooks/greyrelease")
	if err != nil {
		return nil, fmt.Errorf("cannot load the types: %w", err)
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, fmt.Errorf("cannot register the markers: %w", err)
	}
	parser := &crd.Parser{
		Collector:                  &markers.Collector{Registry: registry},
		Checker:                    &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
		GenerateEmbeddedObjectMeta: true,
		// Limits of metrics have fractions. What API servers and controllers may make of a
		// number there, 5 or 5.0, is the same limit.
		AllowDangerousTypes: true,
	}
	crd.AddKnownTypes(parser)
	for _, pkg := range pkgs {
		parser.NeedPackage(pkg)
	}
	kind := schema.GroupKind{Group: "greyrelease.example.com", Kind: "GreyRelease"}
	parser.NeedCRDFor(kind, nil)
	// The checker leaves imports out that no type of ours needs, so errors of type
	// mean nothing here; a type that cannot be read is reported otherwise.
	if loader.PrintErrors(pkgs, packages.TypeError) {
		return nil, errors.New("cannot read the types, see above")
	}
	definition := parser.CustomResourceDefinitions[kind]
	if len(definition.Spec.Versions) != 1 {
		return nil, fmt.Errorf("cannot find one version of %s, got %d", kind, len(definition.Spec.Versions))
	}
	crd.FixTopLevelMetadata(definition)
	spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	template, batches := spec["template"], spec["batches"]
	if template.Properties == nil || batches.Items == nil {
		return nil, errors.New("cannot find spec.template and spec.batches in the schema")
	}
	for name, child := range template.Properties {
		template.Properties[name] = bare(child)
	}
	// controller-gen takes a minimum only for numbers, and a rule for a number that
	// may be text is beyond the budget inside a list.
	batches.Items.Schema.Properties["replicas"] = atLeast(1, batches.Items.Schema.Properties["replicas"])
	spec["maxSurge"] = atLeast(0, spec["maxSurge"])
	spec["maxUnavailable"] = atLeast(0, spec["maxUnavailable"])
	batches.XValidations = append(batches.XValidations, ascending(*batches.MaxItems))
	spec["batches"] = batches
	return &definition, nil
}

func atLeast(n float64, s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	s.Minimum = &n
	return s
}

// ascending is the rule that each of at most n batches is greater than the one
// before if both are of one type. Which of a number and a percentage is greater
// depends on replicas, which an autoscaler must be free to change.
//
// Percentages are looked up in a table, because a function on a string costs as
// much as its longest value, and before Kubernetes 1.34 no schema could bound the
// strings of a field that takes numbers too: most other forms of this rule, a
// comparison of the two types included, are beyond the budget there, and the
// whole definition is refused.
func ascending(n int64) apiextensionsv1.ValidationRule {
	var indexes, table []string
	for i := range n - 1 {
		indexes = append(indexes, strconv.FormatInt(i, 10))
	}
	for percent := range 101 {
		table = append(table, fmt.Sprintf("'%d%%':%d", percent, percent))
	}
	return apiextensionsv1.ValidationRule{
		Rule: "[{" + strings.Join(table, ",") + "}].all(percent, [" + strings.Join(indexes, ",") + "].all(i, i + 1 >= size(self)" +
			" || (self[i].replicas in percent) != (self[i + 1].replicas in percent)" +
			" || (self[i].replicas in percent ? percent[self[i].replicas] < percent[self[i + 1].replicas]" +
			" : int(self[i].replicas) < int(self[i + 1].replicas))))",
		Message: "sizes include all earlier batches, so each must be greater than the one before",
	}
}

// bare is s without descriptions and defaults. A list-map whose key would need a
// default, as protocol of ports, becomes an ordinary list: the API server accepts
// a key only if it is required or has a default.
func bare(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	s.Description = ""
	s.Default = nil
	for name, child := range s.Properties {
		s.Properties[name] = bare(child)
	}
	if s.Items != nil && s.Items.Schema != nil {
		*s.Items.Schema = bare(*s.Items.Schema)
		for _, key := range s.XListMapKeys {
			if !slices.Contains(s.Items.Schema.Required, key) {
				s.XListType, s.XListMapKeys = nil, nil
				break
			}
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		*s.AdditionalProperties.Schema = bare(*s.AdditionalProperties.Schema)
	}
	return s
}
