package main

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOrderOfKinds: children are managed by group, version and kind, and claimed in
// the order of the CompositeController.
func TestOrderOfKinds(t *testing.T) {
	orphan := `labels: {controller-uid: u1}`
	w := start(t, dynamicApply, "", parentText,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, uid: c1, `+orphan+`}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns, uid: d1, `+orphan+`}}`)
	w.answer = `{children: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: e}}, {apiVersion: v1, kind: Secret, metadata: {name: s}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: f}}]}`
	writes, err := w.pass()
	w.wantError("", err)
	w.want("update deployments d, update configmaps c, delete configmaps c, delete deployments d, "+
		"create configmaps f, create secrets s, create deployments e, update things/status thing", writes)
}

// TestKindsThatAreNoChildren are created all the same. One that there is not is an
// error that stops no other.
func TestKindsThatAreNoChildren(t *testing.T) {
	w := start(t, dynamicApply, "", parentText)
	w.answer = `{children: [{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}, {apiVersion: a.example.com/v1, kind: Nothing, metadata: {name: n}}, {apiVersion: v1, kind: Secret, metadata: {name: s}}]}`
	writes, err := w.pass()
	w.wantError("can't reconcile children for Thing ns/thing: discovery: can't find kind Nothing in apiVersion a.example.com/v1", err)
	w.want("create secrets s, create serviceaccounts robot, update things/status thing", writes)
}

// TestUpdateMethods changes a child of each method.
func TestUpdateMethods(t *testing.T) {
	for strategy, want := range map[string]string{
		dynamicApply:    "delete configmaps c, update deployments d, update things/status thing",
		serverSideApply: "patch configmaps c application/apply-patch+yaml, delete configmaps c, patch deployments d application/apply-patch+yaml, update things/status thing",
	} {
		t.Run(strategy, func(t *testing.T) {
			w := start(t, strategy, "", parentText,
				`{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, uid: patched, `+owned+`}}`,
				`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns, uid: s1, `+owned+`}}`,
				`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns, uid: d1, `+owned+`}}`)
			w.answer = `{children: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}, {apiVersion: v1, kind: Secret, metadata: {name: s}, data: {k: dg==}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {k: v}}]}`
			writes, err := w.pass()
			w.wantError("", err)
			w.want(want, writes)
		})
	}
}

// TestRecreateServerSide asks by a dry run whether anything would change.
func TestRecreateServerSide(t *testing.T) {
	const child = `{children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {k: v}}]}`
	for name, c := range map[string]struct {
		observed string
		answer   error
		want     string
		err      string
	}{
		"nothing would change":  {`uid: patched, ` + owned + `}, data: {k: v}`, nil, "", ""},
		"something would":       {`uid: patched, ` + owned + `}, data: {k: w}`, nil, ", delete configmaps c", ""},
		"another one by now":    {`uid: older, ` + owned + `}`, nil, "", "can't reconcile children for Thing ns/thing: generation or UID changed during dry run for server-side apply, expected generation 0 and UID older but got generation 0 and UID patched, this likely means the object was updated after we read it, retrying on next reconciliation loop to avoid unnecessary delete and recreate"},
		"it is not allowed":     {`uid: patched, ` + owned + `}`, apierrors.NewForbidden(schema.GroupResource{}, "c", nil), "", ""},
		"it cannot be said now": {`uid: patched, ` + owned + `}`, apierrors.NewInternalError(fmt.Errorf("boom")), "", "can't reconcile children for Thing ns/thing: dry run failed for server-side apply: Internal error occurred: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, serverSideApply, "", parentText, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, `+c.observed+`}`)
			w.answer = child
			if c.answer != nil {
				w.fails("patch", "configmaps", c.answer)
			}
			writes, err := w.pass()
			w.wantError(c.err, err)
			w.want("patch configmaps c application/apply-patch+yaml"+c.want+", update things/status thing", writes)
		})
	}
}

// TestLabelsOfChildren: an answer with labels that cannot be is carried out in no
// part, but its time to come back counts.
func TestLabelsOfChildren(t *testing.T) {
	for labels, want := range map[string]string{
		"{controller-uid: other}": "labels on desired child ConfigMap ns/c don't match parent selector",
		"{k: 5}":                  `invalid labels on desired child ConfigMap ns/c: .metadata.labels accessor error: contains non-string value in the map under key "k": 5 is of the type int64, expected string`,
		"{controller-uid: u1}":    "",
	} {
		w := start(t, dynamicApply, "", parentText)
		w.answer = `{resyncAfterSeconds: 0.001, children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: ` + labels + `}}]}`
		writes, err := w.pass()
		w.wantError(want, err)
		if want != "" {
			w.want("", writes)
		}
		key, _ := w.queue.Get()
		if want := "ns/thing"; key != want {
			t.Errorf("want %s to come back, got %s", want, key)
		}
		w.queue.Done(key)
	}
}

// TestStatusIsStamped with the generation that the hook saw.
func TestStatusIsStamped(t *testing.T) {
	w := start(t, dynamicApply, "", parentText)
	w.answer = `{status: {observedGeneration: 99, phase: Fine}}`
	writes, err := w.pass()
	w.wantError("", err)
	w.want("update things/status thing", writes)
	live, err := w.client.Resource(w.parent.resource).Namespace("ns").Get(t.Context(), "thing", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(live.Object["status"]); got != "map[observedGeneration:7 phase:Fine]" {
		t.Errorf("want observedGeneration 7, got %s", got)
	}
	w.client.ClearActions()
	if err := w.syncParent(t.Context(), live); err != nil {
		t.Error(err)
	}
	w.want("", w.writes())
}

// TestStatusThatCannotBeWritten: that the parent is gone or that others write it as
// well is swallowed, together with what went wrong before.
func TestStatusThatCannotBeWritten(t *testing.T) {
	things := schema.GroupResource{Group: "example.com", Resource: "things"}
	for name, c := range map[string]struct {
		err   error
		want  string
		tries int
	}{
		"conflict": {apierrors.NewConflict(things, "thing", nil), "", 4},
		"gone":     {apierrors.NewNotFound(things, "thing"), "", 1},
		"other":    {apierrors.NewInternalError(fmt.Errorf("boom")), "can't update status for Thing ns/thing: Internal error occurred: boom", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, dynamicApply, "", parentText)
			w.answer = `{status: {phase: Fine}, children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}`
			w.fails("create", "configmaps", apierrors.NewInternalError(fmt.Errorf("no")))
			w.fails("update", "things", c.err)
			writes, err := w.pass()
			w.wantError(c.want, err)
			if got := len(writes) - 1; got != c.tries {
				t.Errorf("want %d tries, got %d: %v", c.tries, got, writes)
			}
		})
	}
}

// TestSwallowedErrors: the hook is never told, and nothing is tried again.
func TestSwallowedErrors(t *testing.T) {
	maps := schema.GroupResource{Resource: "deployments"}
	for name, c := range map[string]struct {
		strategy, verb string
		err            error
		want           string
	}{
		"exists":                {dynamicApply, "create", apierrors.NewAlreadyExists(maps, "new"), ""},
		"gone":                  {dynamicApply, "update", apierrors.NewNotFound(maps, "d"), ""},
		"changed":               {dynamicApply, "update", apierrors.NewConflict(maps, "d", nil), ""},
		"conflict of an apply":  {serverSideApply, "patch", apierrors.NewConflict(maps, "d", nil), ""},
		"namespace is gone":     {dynamicApply, "create", apierrors.NewNotFound(maps, "new"), `can't reconcile children for Thing ns/thing: deployments "new" not found`},
		"child is gone (apply)": {serverSideApply, "patch", apierrors.NewNotFound(maps, "d"), `can't reconcile children for Thing ns/thing: deployments "d" not found`},
		"deleted before":        {dynamicApply, "delete", apierrors.NewNotFound(maps, "extra"), ""},
		"cannot be deleted":     {dynamicApply, "delete", apierrors.NewInternalError(fmt.Errorf("no")), `can't reconcile children for Thing ns/thing: can't delete Deployment ns/extra: Internal error occurred: no`},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, c.strategy, "", parentText,
				`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns, uid: d1, `+owned+`}}`,
				`{apiVersion: apps/v1, kind: Deployment, metadata: {name: extra, namespace: ns, uid: d2, `+owned+`}}`)
			w.answer = `{children: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}, {apiVersion: apps/v1, kind: Deployment, metadata: {name: new}}]}`
			w.fails(c.verb, "deployments", c.err)
			_, err := w.pass()
			w.wantError(c.want, err)
		})
	}
}
