// Package docs keeps the documents true: it writes the reference of the API from
// the CRD, which is made from the Go types, and its tests compare what the
// documents name (fields, phases, labels, commands, flags, files) with what there
// is.
package docs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is what is read of a schema in the CRD.
type schema struct {
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Required    []string          `json:"required"`
	Enum        []string          `json:"enum"`
	Pattern     string            `json:"pattern"`
	Minimum     *int64            `json:"minimum"`
	Maximum     *int64            `json:"maximum"`
	MaxLength   *int64            `json:"maxLength"`
	MaxItems    *int64            `json:"maxItems"`
	IntOrString bool              `json:"x-kubernetes-int-or-string"`
	Rules       []rule            `json:"x-kubernetes-validations"`
}

// rule is a CEL rule. What it says is in its message.
type rule struct {
	Message   string `json:"message"`
	FieldPath string `json:"fieldPath"`
}

type definition struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []struct {
			Name    string   `json:"name"`
			Columns []column `json:"additionalPrinterColumns"`
			Schema  struct {
				Root schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

type column struct {
	Name        string `json:"name"`
	JSONPath    string `json:"jsonPath"`
	Description string `json:"description"`
	Priority    int    `json:"priority"`
}

const intro = `# API reference

<!-- Made from manifests/00-crd.yaml by go test ./test/docs -update. Edit hooks/greyrelease/types.go, not this file. -->

`

const values = `
## Values

Every field follows the same rules:

- An absent field and a null one mean the same: the default that the table gives.
- A zero is a value. It is honoured or refused, never replaced by a default.
- A whole number may be written 5, 5.0 or 5e0. "5", 2.7 and 1e20 are refused.
- A percentage is a string of digits and a percent sign, "0%" to "100%".
- A version is a string: quote what looks like a number, because YAML has already made 1.1 of an unquoted 1.10.

What the API server cannot refuse, the hook does: the phase is then Invalid, what runs is kept, and the message
names the field and the cure.
`

// opaque are fields whose schema is that of Kubernetes and documented there.
var opaque = map[string]string{
	"spec.template":     "PodTemplateSpec",
	"status.conditions": "list of Condition",
}

// Reference writes the reference of the API from the CRD and from the Go files
// that hold the values of status.phase and of reasons of failure.
func Reference(crd []byte, types, record string) (string, error) {
	var d definition
	if err := yaml.Unmarshal(crd, &d); err != nil {
		return "", fmt.Errorf("cannot read CRD: %w", err)
	}
	if len(d.Spec.Versions) != 1 {
		return "", fmt.Errorf("cannot describe %d versions", len(d.Spec.Versions))
	}
	v := d.Spec.Versions[0]
	root := v.Schema.Root
	var b strings.Builder
	b.WriteString(intro)
	fmt.Fprintf(&b, "`%s/%s`, kind `%s`, plural `%s`, short name `%s`, %s, with the subresources `status` and `scale`.\n\n%s\n",
		d.Spec.Group, v.Name, d.Spec.Names.Kind, d.Spec.Names.Plural, strings.Join(d.Spec.Names.ShortNames, ", "),
		strings.ToLower(d.Spec.Scope), paragraph(root.Description))
	rules(&b, root, "")
	for _, part := range []string{"spec", "status"} {
		section(&b, part, root.Properties[part])
	}
	b.WriteString("\n## Columns\n\n`kubectl get gr` shows these, those marked with `-o wide` only.\n\n| column | field | meaning |\n|---|---|---|\n")
	for _, c := range v.Columns {
		name := c.Name
		if c.Priority > 0 {
			name += " (wide)"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", name, strings.TrimPrefix(c.JSONPath, "."), cmp.Or(c.Description, "Time since the creation"))
	}
	for _, t := range []struct{ title, column, source, typeName string }{
		{"Phases", "status.phase", types, "Phase"},
		{"Reasons of failure", "reason of the condition RolledBack", record, "Reason"},
	} {
		list, err := constants(t.source, t.typeName)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n| %s | meaning |\n|---|---|\n", t.title, t.column)
		for _, c := range list {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, sentence(c.doc))
		}
	}
	b.WriteString(values)
	return b.String(), nil
}

// section describes an object and, below it, the objects in it.
func section(b *strings.Builder, path string, s schema) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", path, paragraph(s.Description))
	type inner struct {
		path string
		schema
	}
	var below []inner
	for _, name := range order(s) {
		p := s.Properties[name]
		at := path + "." + name
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, kind(at, p), cell(p.Description, slices.Contains(s.Required, name), p))
		switch {
		case opaque[at] != "":
		case p.Items != nil && len(p.Items.Properties) > 0:
			below = append(below, inner{at + "[]", *p.Items})
		case len(p.Properties) > 0:
			below = append(below, inner{at, p})
		}
	}
	rules(b, s, path+".")
	for _, in := range below {
		section(b, in.path, in.schema)
	}
}

// order lists the required fields first, the others by name.
func order(s schema) []string {
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		rank := func(name string) int {
			if slices.Contains(s.Required, name) {
				return 0
			}
			return 1
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return names
}

// kind is the type of a field with its range.
func kind(path string, s schema) string {
	switch {
	case opaque[path] != "":
		return opaque[path]
	case s.IntOrString:
		return "number or percentage"
	case s.Items != nil && s.Items.Type == "object":
		return "list of objects" + most(s.MaxItems)
	case s.Items != nil:
		return "list of " + s.Items.Type + "s" + most(s.MaxItems)
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Format == "date-time":
		return "time"
	case s.Type != "integer":
		return s.Type + most(s.MaxLength)
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("integer, %d to %d", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("integer, from %d", *s.Minimum)
	}
	return "integer"
}

func most(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(", at most %d", *n)
}

func cell(description string, required bool, s schema) string {
	text := strings.ReplaceAll(paragraph(description), "|", `\|`)
	if required {
		text = "**Required.** " + text
	}
	if s.Pattern != "" && !s.IntOrString {
		text += " Pattern: `" + strings.ReplaceAll(s.Pattern, "|", `\|`) + "`."
	}
	return text
}

// rules are the checks of the API server that look at more than one field.
func rules(b *strings.Builder, s schema, prefix string) {
	if len(s.Rules) == 0 {
		return
	}
	b.WriteString("\nThe API server also checks:\n\n")
	for _, r := range s.Rules {
		field := ""
		if r.FieldPath != "" {
			field = "`" + prefix + strings.TrimPrefix(r.FieldPath, ".") + "` "
		}
		fmt.Fprintf(b, "- %s%s\n", field, r.Message)
	}
}

// sentence begins a text with a capital letter, unless it begins with a field.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, " ")
	if first == "" || first != strings.ToLower(first) {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// paragraph joins the lines of a description.
func paragraph(text string) string { return strings.Join(strings.Fields(text), " ") }
