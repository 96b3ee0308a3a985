package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func pod(namespace, name string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

func TestRelatedRules(t *testing.T) {
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	here, elsewhere := pod("a", "x", map[string]string{"app": "web"}), pod("b", "x", map[string]string{"app": "web"})
	for name, c := range map[string]struct {
		version string
		rule    relatedRule
		obj     *unstructured.Unstructured
		want    string
	}{
		"label":                               {v1, relatedRule{LabelSelector: labelled}, here, "true"},
		"other label":                         {v1, relatedRule{LabelSelector: labelled}, pod("a", "x", nil), "false"},
		"label, other namespace":              {v1, relatedRule{LabelSelector: labelled}, elsewhere, "false"},
		"label, other namespace, v2":          {v2, relatedRule{LabelSelector: labelled}, elsewhere, "true"},
		"all":                                 {v1, relatedRule{}, here, "true"},
		"all, other namespace":                {v1, relatedRule{}, elsewhere, "false"},
		"all, other namespace, v2":            {v2, relatedRule{}, elsewhere, "true"},
		"name":                                {v1, relatedRule{Names: []string{"x", "y"}}, pod("a", "y", nil), "true"},
		"other name":                          {v1, relatedRule{Names: []string{"x", "y"}}, pod("a", "z", nil), "false"},
		"name, other namespace":               {v1, relatedRule{Names: []string{"x"}}, elsewhere, "false"},
		"name, other namespace, v2":           {v2, relatedRule{Names: []string{"x"}}, elsewhere, "true"},
		"namespace of the parent":             {v1, relatedRule{Namespace: "a"}, here, "true"},
		"foreign namespace":                   {v1, relatedRule{Namespace: "b"}, elsewhere, "requested related object namespace b differs from parent object namespace a"},
		"foreign namespace, v2":               {v2, relatedRule{Namespace: "b"}, elsewhere, "true"},
		"foreign namespace, object here, v2":  {v2, relatedRule{Namespace: "b"}, here, "false"},
		"foreign namespace and labels, v2":    {v2, relatedRule{Namespace: "b", LabelSelector: labelled}, elsewhere, "true"},
		"foreign namespace, other labels, v2": {v2, relatedRule{Namespace: "b", LabelSelector: labelled}, pod("b", "x", nil), "false"},
		"selector of namespaces needs v2":     {v1, relatedRule{NamespaceSelector: labelled}, here, "namespaceSelector is not supported for namespaced parent in v1 hook version"},
		"an operator that there is not":       {v2, relatedRule{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}, here, `"Like" is not a valid label selector operator`},
		"labels and names cannot be combined": {v2, relatedRule{LabelSelector: labelled, Names: []string{"x"}}, here, "related rule cannot have both names and labelSelector/namespaceSelector specified"},
		"namespaces selected twice":           {v2, relatedRule{Namespace: "a", NamespaceSelector: labelled}, here, "related rule cannot have both namespace and namespaceSelector specified"},
	} {
		t.Run(name, func(t *testing.T) {
			z := &customize{c: &controller{parent: kind{namespaced: true}, composite: &composite{}}}
			z.c.composite.Spec.Hooks.Customize = &hook{Version: c.version}
			selects, err := z.selector(c.rule, kind{namespaced: true}, pod("a", "parent", nil), false)
			got, _, _ := strings.Cut(text(err), ": &")
			if err == nil {
				got = fmt.Sprint(selects(c.obj))
			}
			if got != c.want {
				t.Errorf("want %s, got %s", c.want, got)
			}
		})
	}
}

// TestNamesAreListedEverywhere: under v1, names without a namespace are looked for
// in all namespaces, and only the request leaves out what is elsewhere.
func TestNamesAreListedEverywhere(t *testing.T) {
	z := &customize{c: &controller{parent: kind{namespaced: true}, composite: &composite{}}}
	z.c.composite.Spec.Hooks.Customize = &hook{Version: v1}
	parent := pod("a", "parent", nil)
	selects, err := z.selector(relatedRule{Names: []string{"x"}}, kind{namespaced: true}, parent, true)
	if err != nil {
		t.Fatal(err)
	}
	found := objects{}
	for _, u := range []*unstructured.Unstructured{pod("a", "x", nil), pod("b", "x", nil), pod("a", "y", nil)} {
		u.SetAPIVersion("v1")
		u.SetKind("Pod")
		if selects(u) {
			found.add(u)
		}
	}
	for _, c := range []struct{ version, want string }{{v1, "[x]"}, {v2, "[a/x b/x]"}} {
		group := groups(found, parent, c.version)["Pod.v1"].(map[string]any)
		if got := fmt.Sprint(slices.Sorted(maps.Keys(group))); got != c.want {
			t.Errorf("%s: want %s, got %s", c.version, c.want, got)
		}
	}
}

// TestCustomizeAsksOnce: the answer is kept by uid and generation, whatever else
// changes.
func TestCustomizeAsksOnce(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		fmt.Fprintf(w, `{"relatedResources":[{"apiVersion":"v1","resource":"pods","names":["call-%d"]}]}`, calls)
	}))
	defer server.Close()
	c := &controller{raw: pod("", "composite", nil), composite: &composite{}}
	c.raw.Object["spec"] = map[string]any{}
	c.composite.Spec.Hooks.Customize = &hook{Version: "v2"}
	c.composite.Spec.Hooks.Customize.Webhook.URL = server.URL
	z := newCustomize(c)
	parent := pod("a", "parent", nil)
	parent.SetUID("u1")
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "call-1"},
		{func() { parent.SetLabels(map[string]string{"app": "web"}) }, "call-1"},
		{func() { parent.SetGeneration(2) }, "call-2"},
		{func() { parent.SetUID("u2") }, "call-3"},
		{func() { parent.SetUID("u1"); parent.SetGeneration(0) }, "call-1"},
	} {
		step.change()
		rules, err := z.rules(t.Context(), parent)
		if err != nil {
			t.Fatal(err)
		}
		if got := rules[0].Names[0]; got != step.want {
			t.Errorf("want %s, got %s", step.want, got)
		}
	}
}

// TestRelatedObjectsWakeParents: a parent that the hook has not answered for yet is
// asked about when a related object changes.
func TestRelatedObjectsWakeParents(t *testing.T) {
	w := start(t, dynamicApply, `    customize: {version: v2, webhook: {url: URL}}`, parentText)
	w.answer = `{relatedResources: [{apiVersion: v1, resource: serviceaccounts, names: [robot]}]}`
	k := kind{kindOf("v1", "ServiceAccount"), schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, true}
	for name, want := range map[string]int{"robot": 1, "other": 0} {
		for w.queue.Len() > 0 {
			key, _ := w.queue.Get()
			w.queue.Done(key)
		}
		account := object(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: `+name+`, namespace: elsewhere}}`)
		w.customize.changed(t.Context(), k, account)
		if got := w.queue.Len(); got != want {
			t.Errorf("%s: want %d syncs, got %d", name, want, got)
		}
	}
}

// TestSelectorOfNamespaces goes by the labels of namespaces as they are cached.
func TestSelectorOfNamespaces(t *testing.T) {
	w := start(t, dynamicApply, `    customize: {version: v2, webhook: {url: URL}}`, parentText,
		`{apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {color: blue}}}`,
		`{apiVersion: v1, kind: Namespace, metadata: {name: red, labels: {color: red}}}`)
	for !w.factory.ForResource(namespaceResource).Informer().HasSynced() {
		time.Sleep(time.Millisecond)
	}
	parent := w.cached(w.parent, "ns", "thing")
	rule := relatedRule{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}}}
	selects, err := w.customize.selector(rule, kind{namespaced: true}, parent, true)
	w.wantError("", err)
	for namespace, want := range map[string]bool{"blue": true, "red": false, "none": false} {
		if got := selects(pod(namespace, "x", nil)); got != want {
			t.Errorf("%s: want %v, got %v", namespace, want, got)
		}
	}
	_, err = w.customize.selector(rule, kind{}, parent, true)
	w.wantError("namespaceSelector is only supported for namespaced related resources", err)
}
