package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func pod(namespace, name string, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

func TestRelatedRules(t *testing.T) {
	z := &customize{c: &controller{parent: kind{namespaced: true}}}
	parent := pod("a", "parent", nil)
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for name, c := range map[string]struct {
		rule relatedRule
		obj  *unstructured.Unstructured
		want string
	}{
		"label":             {relatedRule{LabelSelector: labelled}, pod("a", "x", map[string]string{"app": "web"}), "true"},
		"other label":       {relatedRule{LabelSelector: labelled}, pod("a", "x", nil), "false"},
		"other namespace":   {relatedRule{LabelSelector: labelled}, pod("b", "x", map[string]string{"app": "web"}), "false"},
		"all":               {relatedRule{}, pod("a", "x", nil), "true"},
		"name":              {relatedRule{Names: []string{"x", "y"}}, pod("a", "y", nil), "true"},
		"other name":        {relatedRule{Names: []string{"x", "y"}}, pod("a", "z", nil), "false"},
		"foreign namespace": {relatedRule{Namespace: "b"}, pod("b", "x", nil), "requested related object namespace b differs from parent object namespace a"},
		"labels and names":  {relatedRule{LabelSelector: labelled, Names: []string{"x"}}, pod("a", "x", nil), "related rule has both labelSelector and names"},
	} {
		t.Run(name, func(t *testing.T) {
			matches, err := z.matches(c.rule, parent, c.obj)
			got := fmt.Sprint(matches)
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("want %s, got %s", c.want, got)
			}
		})
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
