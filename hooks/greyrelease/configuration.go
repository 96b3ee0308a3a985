package greyrelease

import (
	"fmt"
	"slices"
	"strings"

	"greyrelease.example.com/hooks/jsontree"
)

// maxNamed is how many ConfigMaps and Secrets a message names.
const maxNamed = 5

// configuration lists the ConfigMaps and Secrets that the pods of a template read, as
// "ConfigMap web-settings", sorted, each once. They are not part of a revision: a
// rollback finds them as they are now.
func configuration(template jsontree.Value) []string {
	spec, _ := template.Get("spec")
	var found []string
	note := func(kind string, in jsontree.Value, path ...string) {
		if name, ok := in.At(path...); ok && name.Kind == jsontree.String && name.Text != "" {
			found = append(found, kind+" "+name.Text)
		}
	}
	for _, v := range items(spec, "volumes") {
		note("ConfigMap", v, "configMap", "name")
		note("Secret", v, "secret", "secretName")
		projected, _ := v.Get("projected")
		for _, source := range items(projected, "sources") {
			note("ConfigMap", source, "configMap", "name")
			note("Secret", source, "secret", "name")
		}
	}
	for _, c := range slices.Concat(items(spec, "initContainers"), items(spec, "containers")) {
		for _, e := range items(c, "env") {
			note("ConfigMap", e, "valueFrom", "configMapKeyRef", "name")
			note("Secret", e, "valueFrom", "secretKeyRef", "name")
		}
		for _, e := range items(c, "envFrom") {
			note("ConfigMap", e, "configMapRef", "name")
			note("Secret", e, "secretRef", "name")
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func items(in jsontree.Value, name string) []jsontree.Value {
	list, ok := in.Get(name)
	if !ok || list.Kind != jsontree.Array {
		return nil
	}
	return list.Items()
}

// notRestored says what a rollback leaves as it is: by name what the template reads, and
// in general what it may read elsewhere.
func (a *answer) notRestored() string {
	names := configuration(a.desire.template)
	switch {
	case len(names) == 0:
		return "configuration outside the template is not restored"
	case len(names) == 1:
		return names[0] + " is not restored"
	case len(names) > maxNamed:
		return fmt.Sprintf("%s and %d more are not restored", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last] + " are not restored"
}
