package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

const finalizeHook = `    finalize: {version: v2, webhook: {url: URL}}`

func heldParent(finalizers, more string) string {
	return `{apiVersion: example.com/v1, kind: Thing, metadata: {name: thing, namespace: ns, uid: u1, generation: 7, finalizers: [` + finalizers + `]` + more + `}}`
}

// TestFinalizer: the finalizer is there exactly if there is a finalize hook, which
// is asked in the place of the sync hook once the parent goes.
func TestFinalizer(t *testing.T) {
	const (
		mine     = "metacontroller.io/compositecontroller-things"
		gone     = `, deletionTimestamp: "2026-11-30T12:00:00Z"`
		children = `{finalized: FINALIZED, status: {}, children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]}`
	)
	for name, c := range map[string]struct {
		spec, parent, finalized string
		want                    string // writes
		finalizing              bool
		left                    string // finalizers
	}{
		"no hook, none":                     {"", parentText, "false", "create configmaps c, update things/status thing", false, "[]"},
		"no hook any more":                  {"", heldParent(mine+", other", ""), "false", "update things thing, create configmaps c, update things/status thing", false, "[other]"},
		"no hook any more, parent goes":     {"", heldParent(mine+", other", gone), "false", "update things thing, update things/status thing", false, "[other]"},
		"new hook":                          {finalizeHook, parentText, "false", "update things thing, create configmaps c, update things/status thing", false, "[" + mine + "]"},
		"new hook, parent goes":             {finalizeHook, heldParent("other", gone), "false", "update things/status thing", true, "[other]"},
		"hook, parent goes":                 {finalizeHook, heldParent(mine, gone), "false", "create configmaps c, update things/status thing", true, "[" + mine + "]"},
		"hook, parent goes in foreground":   {finalizeHook, heldParent(mine+", foregroundDeletion", gone), "false", "update things/status thing", true, "[" + mine + " foregroundDeletion]"},
		"hook, parent goes, it is finished": {finalizeHook, heldParent(mine+", other", gone), "true", "update things thing, update things/status thing", true, "[other]"},
		"finished without a hook":           {"", parentText, "true", "create configmaps c, update things/status thing", false, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, dynamicApply, c.spec, c.parent)
			w.answer = strings.Replace(children, "FINALIZED", c.finalized, 1)
			writes, err := w.pass()
			w.wantError("", err)
			w.want(c.want, writes)
			if got := w.request["finalizing"]; got != c.finalizing {
				t.Errorf("want finalizing %v, got %v", c.finalizing, got)
			}
			live, err := w.client.Resource(w.parent.resource).Namespace("ns").Get(t.Context(), "thing", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(live.GetFinalizers()); got != c.left {
				t.Errorf("want finalizers %s, got %s", c.left, got)
			}
		})
	}
}

// TestFinishedStampsTheLiveGeneration: an answer that says finalized has the parent
// read anew, and its generation is the one that the status gets.
func TestFinishedStampsTheLiveGeneration(t *testing.T) {
	w := start(t, dynamicApply, "", parentText)
	w.answer = `{finalized: true, status: {}}`
	stale := w.cached(w.parent, "ns", "thing").DeepCopy()
	stale.SetGeneration(5)
	w.client.ClearActions()
	w.wantError("", w.syncParent(t.Context(), stale))
	live, err := w.client.Resource(w.parent.resource).Namespace("ns").Get(t.Context(), "thing", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(live.Object["status"]); got != "map[observedGeneration:7]" {
		t.Errorf("want observedGeneration 7, got %s", got)
	}
}

// TestClaims: what becomes of objects by owner and label.
func TestClaims(t *testing.T) {
	const other = `ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u2, controller: true}]`
	for name, c := range map[string]struct {
		parent, child string
		want          string // "" for no write
		seen          bool   // by the hook
		owners        string
	}{
		"mine":                         {parentText, owned, "", true, "u1:true"},
		"another's":                    {parentText, `labels: {controller-uid: u1}, ` + other, "", false, "u2:true"},
		"nobody's, my label":           {parentText, `labels: {controller-uid: u1}`, "update secrets s", true, "u1:true"},
		"nobody's, another label":      {parentText, `labels: {controller-uid: u3}`, "", false, ""},
		"nobody's, and it goes":        {parentText, `labels: {controller-uid: u1}, finalizers: [x], deletionTimestamp: "2026-11-30T12:00:00Z"`, "", false, ""},
		"mine, another label":          {parentText, strings.Replace(owned, "controller-uid: u1", "controller-uid: u3", 1), "update secrets s", false, ""},
		"mine, not controlled":         {parentText, `labels: {controller-uid: u1}, ownerReferences: [{apiVersion: example.com/v1, kind: Thing, name: thing, uid: u1}, {apiVersion: v1, kind: Pod, name: p, uid: u2}]`, "update secrets s", true, "u1:true u2:false"},
		"nobody's, the parent goes":    {heldParent("x", `, deletionTimestamp: "2026-11-30T12:00:00Z"`), `labels: {controller-uid: u1}`, "", false, ""},
		"mine, both go":                {heldParent("x", `, deletionTimestamp: "2026-11-30T12:00:00Z"`), owned, "", true, "u1:true"},
		"other label, the parent goes": {heldParent("x", `, deletionTimestamp: "2026-11-30T12:00:00Z"`), strings.Replace(owned, "controller-uid: u1", "controller-uid: u3", 1), "", false, "u1:true"},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, dynamicApply, "", c.parent, `{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns, uid: s1, `+c.child+`}}`)
			w.answer = `{children: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]}`
			observed, err := w.claim(t.Context(), w.cached(w.parent, "ns", "thing"))
			w.wantError("", err)
			w.want(c.want, w.writes())
			if got := len(observed[kindOf("v1", "Secret")]) == 1; got != c.seen {
				t.Errorf("want seen %v, got %v", c.seen, got)
			}
			live, err := w.client.Resource(w.children[2].resource).Namespace("ns").Get(t.Context(), "s", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var owners []string
			for _, ref := range live.GetOwnerReferences() {
				owners = append(owners, fmt.Sprintf("%s:%v", ref.UID, ref.Controller != nil && *ref.Controller))
			}
			if got := strings.Join(owners, " "); got != c.owners {
				t.Errorf("want owners %s, got %s", c.owners, got)
			}
		})
	}
}

// TestNoAdoptionForAnOldParent: the live parent decides, and is asked once.
func TestNoAdoptionForAnOldParent(t *testing.T) {
	orphan := func(name string) string {
		return `{apiVersion: v1, kind: Secret, metadata: {name: ` + name + `, namespace: ns, uid: ` + name + `1, labels: {controller-uid: u1}}}`
	}
	w := start(t, dynamicApply, "", parentText, orphan("a"), orphan("b"))
	live := w.cached(w.parent, "ns", "thing").DeepCopy()
	live.SetUID("u9")
	if err := w.client.Tracker().Update(w.parent.resource, live, "ns"); err != nil {
		t.Fatal(err)
	}
	old := live.DeepCopy()
	old.SetUID("u1")
	w.client.ClearActions()
	_, err := w.claim(t.Context(), old)
	if want := "can't claim Secret children: ["; !strings.HasPrefix(text(err), want) {
		t.Errorf("want an error that begins with %q, got %q", want, text(err))
	}
	if want := "can't adopt Secret ns/a (a1): can't recheck DeletionTimestamp: original Thing ns/thing is gone: got uid u9, wanted u1"; !strings.Contains(text(err), want) {
		t.Errorf("want an error with %q, got %q", want, text(err))
	}
	gets := 0
	for _, a := range w.client.Actions() {
		if a.GetVerb() == "get" {
			gets++
		}
	}
	if gets != 1 {
		t.Errorf("want 1 get, got %d", gets)
	}
}

// TestResyncPeriod: at least a second, at most the time of all caches.
func TestResyncPeriod(t *testing.T) {
	for seconds, want := range map[int32]time.Duration{-1: time.Hour, 0: time.Second, 5: 5 * time.Second, 7200: time.Hour} {
		c := &controller{operator: &operator{settings: settings{resync: time.Hour}}, composite: &composite{}}
		if seconds >= 0 {
			c.composite.Spec.ResyncPeriodSeconds = &seconds
		}
		if got := c.resyncPeriod(); got != want {
			t.Errorf("%d seconds: want %v, got %v", seconds, want, got)
		}
	}
}

// TestShown: a hook sees structures of the CompositeController that are empty.
func TestShown(t *testing.T) {
	w := start(t, dynamicApply, "", parentText)
	if _, err := w.pass(); err != nil {
		t.Error(err)
	}
	controller := w.request["controller"].(map[string]any)
	spec := controller["spec"].(map[string]any)
	if got, want := fmt.Sprint(spec["childResources"], controller["status"]), "[map[apiVersion:apps/v1 resource:deployments updateStrategy:map[method:InPlace statusChecks:map[]]] "+
		"map[apiVersion:v1 resource:configmaps updateStrategy:map[method:Recreate statusChecks:map[]]] map[apiVersion:v1 resource:secrets]] map[]"; got != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
	if w.raw.Object["status"] != nil {
		t.Error("want the object in the cache left alone")
	}
}

// TestNotDone: what the double does not do is refused and not passed over.
func TestNotDone(t *testing.T) {
	for field, want := range map[string]string{
		`hooks: {}`:                           "the double needs a sync hook",
		`generateSelector: false`:             "the double has generated selectors only",
		`parentResource: {labelSelector: {}}`: "the double has no selectors on parents",
		`childResources: [{updateStrategy: {method: RollingInPlace}}]`:                        "the double has no update method RollingInPlace",
		`hooks: {sync: {webhook: {url: u, etag: {enabled: true}}}}`:                           "the double has no etags",
		`hooks: {sync: {webhook: {url: u, basicAuth: {secretRef: {name: x, namespace: y}}}}}`: "the double has no basicAuth",
		`hooks: {sync: {webhook: {url: u}}, customize: {webhook: {path: /}}}`:                 "invalid webhook config: must specify either a full 'url', or both 'service' and 'path'",
		`hooks: {sync: {webhook: {path: /, service: {name: svc, namespace: ""}}}}`:            "invalid webhook config: 'service' must specify both 'name' and 'namespace'",
	} {
		cc := object(t, `{metadata: {name: things}, apiVersion: metacontroller.k8s.io/v1alpha1, kind: CompositeController, spec: {generateSelector: true, hooks: {sync: {webhook: {url: u}}}}}`)
		spec := cc.Object["spec"].(map[string]any)
		for name, value := range object(t, `{apiVersion: v1, kind: X, `+field+`}`).Object {
			spec[name] = value
		}
		_, err := decodeComposite(cc)
		if text(err) != want {
			t.Errorf("%s: want error %q, got %q", field, want, text(err))
		}
	}
}

// TestLifeOfAController: it starts, starts anew only with another spec, and stops,
// and tells of each.
func TestLifeOfAController(t *testing.T) {
	w := start(t, dynamicApply, "", parentText)
	recorder := record.NewFakeRecorder(100)
	w.workers = 1 // without any it is at its end at once
	o := &operator{settings: w.settings, client: w.client, mapper: kinds(), events: recorder, applied: newLastApplied(), running: map[string]*controller{}}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	cc := w.raw.DeepCopy()
	event := func(reason string) string { return fmt.Sprintf("Normal %s %[1]s controller: things", reason) }
	started, starting, stopped, stopping := event("Started"), event("Starting"), event("Stopped"), event("Stopping")
	steps := []struct {
		why    string
		change func()
		want   string
	}{
		{"new", func() { _ = store.Add(cc) }, started + "|" + starting},
		{"a label", func() { cc = cc.DeepCopy(); cc.SetLabels(map[string]string{"a": "b"}); _ = store.Update(cc) }, ""},
		{"another spec", func() {
			cc = cc.DeepCopy()
			_ = unstructured.SetNestedField(cc.Object, int64(60), "spec", "resyncPeriodSeconds")
			_ = store.Update(cc)
		}, started + "|" + starting + "|" + stopped + "|" + stopping},
		{"a kind that there is not", func() {
			cc = cc.DeepCopy()
			_ = unstructured.SetNestedSlice(cc.Object, []any{map[string]any{"apiVersion": "a.example.com/v1", "resource": "nothings"}}, "spec", "childResources")
			_ = store.Update(cc)
		}, stopped + "|" + stopping + "|Warning CreateError Cannot create new controller: can't create informer for child resource: " +
			"can't create client for nothings.a.example.com/v1 shared informer: discovery: can't find resource nothings in apiVersion a.example.com/v1"},
		{"gone", func() { _ = store.Delete(cc) }, ""},
	}
	for _, step := range steps {
		step.change()
		_ = o.reconcile(t.Context(), store, "things")
		if got := events(recorder, strings.Count(step.want, "|")+1); got != step.want {
			t.Errorf("%s: want %s\ngot  %s", step.why, step.want, got)
		}
	}
}

// events are those recorded, n at least unless there is none to come, sorted:
// a controller tells of its own start at its own time.
func events(recorder *record.FakeRecorder, n int) string {
	var list []string
	wait := 2 * time.Second
	for {
		if len(list) >= n {
			wait = 50 * time.Millisecond
		}
		select {
		case event := <-recorder.Events:
			list = append(list, event)
		case <-time.After(wait):
			slices.Sort(list)
			return strings.Join(list, "|")
		}
	}
}

func kindOf(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}
