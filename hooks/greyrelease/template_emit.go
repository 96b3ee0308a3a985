package greyrelease

import (
	"bytes"
	"encoding/json"
	"strings"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
)

// emission is the template to answer with for an existing Deployment.
type emission struct {
	Template json.RawMessage
	// difference is what the live template has that was not asked for. What is
	// Changed is put right by answering with Template, unless something changes
	// it back at once, as an admission webhook or a server that does not know
	// the field; what is Added stays.
	difference
}

// emitTemplate picks the template to answer with for a Deployment that exists,
// so that an idle release causes no write and no pod is ever replaced but to
// undo a change made by hand.
//
// want is the revision's template.json, empty if its snapshot is gone; live is
// the Deployment's spec.template; lastApplied is the value of its annotation
// metacontroller.k8s.io/last-applied-configuration.
//
// In server-side mode it is want. Dynamic apply would write on every sync what
// the API server stores in another form (500m for 0.5, a default filled into a
// list that is replaced whole): there it is want if that changes nothing, else
// the live template if it covers want, else want. What was applied last counts,
// because dynamic apply removes what it finds there and not in the answer: the
// restart annotation of a template that was once sent back live must not go,
// or all pods restart.
func emitTemplate(want history.Template, live json.RawMessage, lastApplied string, mode history.Mode) emission {
	if bytes.Equal(want.Text, live) {
		return emission{Template: want.Text}
	}
	stored, err := jsontree.Parse(live)
	if err != nil {
		return emission{Template: want.Text}
	}
	if len(want.Text) == 0 {
		return emission{Template: jsontree.Canonical(stored)}
	}
	e := emission{Template: want.Text, difference: covers(want.Tree, stored)}
	if mode == history.ServerSide || e.Changed != "" {
		return e
	}
	// Canonical, for older API servers store a creationTimestamp of null.
	back := jsontree.Canonical(stored)
	if !applied(lastApplied, back) && mergesToItself(stored, lastTemplate(lastApplied, want), want.Tree) {
		return e
	}
	if history.Fits(back, mode) == nil {
		e.Template = back
	}
	return e
}

// applied is a quick look whether the template was applied last, and stands in
// the annotation as it is: quotes within strings are escaped there, so that the
// text can't be a part of anything else. Then to apply it again changes nothing.
func applied(lastApplied string, template []byte) bool {
	return strings.Contains(lastApplied, `"template":`+string(template))
}

// lastTemplate is spec.template of the Deployment that was applied last, null
// if there is none. Often that is what is wanted now.
func lastTemplate(lastApplied string, want history.Template) jsontree.Value {
	if applied(lastApplied, want.Text) {
		return want.Tree
	}
	last, err := jsontree.ParseString(lastApplied)
	if err != nil {
		return jsontree.Value{}
	}
	template, _ := last.At("spec", "template")
	return template
}
