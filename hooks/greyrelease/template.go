package greyrelease

import (
	"fmt"
	"strings"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
)

// Labels of pods that a template may try to set.
const (
	podHashLabel = "pod-template-hash" // belongs to Kubernetes' Deployment controller
	podAppLabel  = "app"
)

// templateIdentity is what a rendered template gets from its release and
// revision.
type templateIdentity struct {
	Name    string // of the release
	App     string // appName, for pods without an app label of their own
	Hash    string // of the revision
	Version string // a tag or a digest
}

// renderTemplate makes the pod template of a new revision from the one the
// user wrote. It adds the labels that tell the release's pods apart and the
// version to each image that leaves it open; of the metadata only labels and
// annotations are taken. Everything else stays as it was written, and nothing
// is filled in. The text is canonical JSON.
//
// The notes are for the user: what of the template was not taken as written,
// and that no container takes the version. An error is a template of the wrong
// shape, with the path.
func renderTemplate(template jsontree.Value, id templateIdentity) (rendered history.Template, notes []string, err error) {
	tree, notes, err := fillTemplate(template, id)
	if err != nil {
		return history.Template{}, nil, err
	}
	// Read again, for the text lacks the nulls.
	rendered.Text = jsontree.Canonical(tree)
	rendered.Tree, err = jsontree.Parse(rendered.Text)
	return rendered, notes, err
}

// fillTemplate is renderTemplate without the text.
func fillTemplate(template jsontree.Value, id templateIdentity) (rendered jsontree.Value, notes []string, err error) {
	if template.Kind != jsontree.Object {
		return jsontree.Value{}, nil, fmt.Errorf("spec.template: must be an object")
	}
	r := renderer{id: id}
	metadata, err := r.metadata(template)
	if err != nil {
		return jsontree.Value{}, nil, err
	}
	spec, err := r.spec(template)
	if err != nil {
		return jsontree.Value{}, nil, err
	}
	for _, m := range template.Members() {
		if m.Name != "metadata" && m.Name != "spec" {
			r.note("spec.template.%s is not taken", m.Name)
		}
	}
	return jsontree.Value{}.With("metadata", metadata).With("spec", spec), r.notes, nil
}

type renderer struct {
	id    templateIdentity
	notes []string
}

func (r *renderer) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *renderer) metadata(template jsontree.Value) (jsontree.Value, error) {
	const path = "spec.template.metadata"
	from, err := objectAt(path, template, "metadata")
	if err != nil {
		return jsontree.Value{}, err
	}
	labels, err := objectAt(path+".labels", from, "labels")
	if err != nil {
		return jsontree.Value{}, err
	}
	annotations, err := objectAt(path+".annotations", from, "annotations")
	if err != nil {
		return jsontree.Value{}, err
	}
	for _, m := range from.Members() {
		if m.Name != "labels" && m.Name != "annotations" && !m.Value.IsEmpty() {
			r.note("%s.%s is not taken", path, m.Name)
		}
	}
	into := jsontree.Value{}.With("labels", r.labels(labels))
	if !annotations.IsEmpty() {
		into = into.With("annotations", annotations)
	}
	return into, nil
}

// labels keeps the user's labels with their values, but for those that belong
// to us or to the Deployment controller.
func (r *renderer) labels(labels jsontree.Value) jsontree.Value {
	for _, m := range labels.Members() {
		if m.Name == podHashLabel || strings.HasPrefix(m.Name, history.Prefix) {
			labels = labels.Without(m.Name)
			r.note("the label %s of spec.template is reserved and not taken", m.Name)
		}
	}
	if app, ok := labels.Get(podAppLabel); !ok || app.Kind == jsontree.Null {
		labels = labels.With(podAppLabel, jsontree.Text(r.id.App))
	}
	return labels.
		With(history.Prefix+"name", jsontree.Text(r.id.Name)).
		With(history.RevisionLabel, jsontree.Text(r.id.Hash))
}

func (r *renderer) spec(template jsontree.Value) (jsontree.Value, error) {
	const path = "spec.template.spec"
	spec, err := objectAt(path, template, "spec")
	if err != nil {
		return jsontree.Value{}, err
	}
	takers := 0
	for _, list := range []string{"containers", "initContainers"} {
		containers, ok := spec.Get(list)
		if !ok || containers.Kind == jsontree.Null {
			continue
		}
		if containers.Kind != jsontree.Array {
			return jsontree.Value{}, fmt.Errorf("%s.%s: must be a list", path, list)
		}
		items := make([]jsontree.Value, len(containers.Items()))
		for i, c := range containers.Items() {
			var took bool
			if items[i], took, err = r.container(fmt.Sprintf("%s.%s[%d]", path, list, i), c); err != nil {
				return jsontree.Value{}, err
			}
			if took {
				takers++
			}
		}
		spec = spec.With(list, jsontree.List(items))
	}
	if takers == 0 {
		r.note("no container takes targetVersion, every image has a tag or digest of its own: " +
			"the version changes nothing but a label")
	}
	return spec, nil
}

func (r *renderer) container(path string, c jsontree.Value) (rendered jsontree.Value, took bool, err error) {
	if c.Kind != jsontree.Object {
		return c, false, fmt.Errorf("%s: must be an object", path)
	}
	ref, ok := c.Get("image")
	switch {
	case !ok || ref.Kind == jsontree.Null:
		return c, false, nil // the API server asks for it
	case ref.Kind != jsontree.String:
		return c, false, fmt.Errorf("%s.image: must be a string", path)
	case !takesVersion(ref.Text):
		return c, false, nil
	}
	return c.With("image", jsontree.Text(withVersion(ref.Text, r.id.Version))), true, nil
}

// objectAt reads an object; an absent or null one is empty.
func objectAt(path string, in jsontree.Value, name string) (jsontree.Value, error) {
	v, _ := in.Get(name)
	if v.Kind != jsontree.Object && v.Kind != jsontree.Null {
		return v, fmt.Errorf("%s: must be an object", path)
	}
	return v, nil
}
