package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/yaml"
)

// world is a controller on a cluster in memory, with a hook that answers what the
// test says.
type world struct {
	*testing.T
	*controller
	client  *fake.FakeDynamicClient
	answer  string
	request map[string]any // the last one
}

const parentText = `{apiVersion: example.com/v1, kind: Thing, metadata: {name: thing, namespace: ns, uid: u1, generation: 7}}`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(data); err != nil { // whole numbers as int64
		t.Fatal(err)
	}
	return u
}

// plain makes a RESTMapper of fixed kinds.
type plain struct{ *meta.DefaultRESTMapper }

func (plain) Reset() {}

func kinds() plain {
	m := plain{meta.NewDefaultRESTMapper(nil)}
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "example.com", Version: "v1", Kind: "Thing"},
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		m.Add(gvk, meta.RESTScopeNamespace)
	}
	return m
}

// start makes a world. Hooks may be added to spec; the sync hook is there.
func start(t *testing.T, strategy, spec string, objs ...string) *world {
	t.Helper()
	w := &world{T: t, answer: "{}"}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.request = map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&w.request); err != nil {
			t.Error(err)
		}
		text, err := yaml.YAMLToJSON([]byte(w.answer))
		if err != nil {
			t.Error(err)
		}
		_, _ = rw.Write(text)
	}))
	t.Cleanup(server.Close)
	list := make([]runtime.Object, 0, len(objs))
	for _, text := range objs {
		list = append(list, object(t, text))
	}
	w.client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "example.com", Version: "v1", Resource: "things"}: "ThingList",
		{Version: "v1", Resource: "configmaps"}:                   "ConfigMapList",
		{Version: "v1", Resource: "secrets"}:                      "SecretList",
		{Group: "apps", Version: "v1", Resource: "deployments"}:   "DeploymentList",
		{Version: "v1", Resource: "serviceaccounts"}:              "ServiceAccountList",
		namespaceResource: "NamespaceList",
	}, list...)
	w.client.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		u := &unstructured.Unstructured{}
		if patch.GetPatchType() == types.JSONPatchType {
			return true, u, nil
		}
		if err := json.Unmarshal(patch.GetPatch(), &u.Object); err != nil {
			return true, nil, err
		}
		u.SetUID("patched")
		return true, u, nil
	})
	cc := object(t, fmt.Sprintf(`
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: things}
spec:
  generateSelector: true
  parentResource: {apiVersion: example.com/v1, resource: things}
  childResources:
  - {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: InPlace}}
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: Recreate}}
  - {apiVersion: v1, resource: secrets}
  hooks:
    sync: {version: v2, webhook: {url: %q}}
%s`, server.URL, strings.ReplaceAll(spec, "URL", server.URL)))
	o := &operator{
		settings: settings{strategy: strategy, fieldManager: "metacontroller", resync: time.Hour, discovery: time.Hour},
		client:   w.client, mapper: kinds(), events: record.NewFakeRecorder(100), applied: newLastApplied(),
	}
	var err error
	if w.controller, err = newController(t.Context(), o, cc); err != nil {
		t.Fatal(err)
	}
	w.start(t.Context())
	t.Cleanup(w.stop)
	for _, k := range append([]kind{w.parent}, w.children...) {
		for !w.factory.ForResource(k.resource).Informer().HasSynced() {
			time.Sleep(time.Millisecond)
		}
	}
	return w
}

// pass syncs the parent in the cache once and returns the writes.
func (w *world) pass() ([]string, error) {
	w.Helper()
	parent := w.cached(w.parent, "ns", "thing")
	if parent == nil {
		w.Fatal("want a parent in the cache")
	}
	w.client.ClearActions()
	err := w.syncParent(w.Context(), parent)
	return w.writes(), err
}

func (w *world) writes() []string {
	var list []string
	for _, a := range w.client.Actions() {
		text := a.GetVerb() + " " + a.GetResource().Resource
		if a.GetSubresource() != "" {
			text += "/" + a.GetSubresource()
		}
		switch a := a.(type) {
		case clienttesting.CreateAction: // or an update
			text += " " + a.GetObject().(*unstructured.Unstructured).GetName()
		case clienttesting.PatchAction:
			text += " " + a.GetName() + " " + string(a.GetPatchType())
		case clienttesting.DeleteAction:
			text += " " + a.GetName()
		}
		if !slices.Contains([]string{"list", "watch", "get"}, a.GetVerb()) {
			list = append(list, text)
		}
	}
	return list
}

// fails has the next writes of a kind fail.
func (w *world) fails(verb, resource string, err error) {
	w.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func (w *world) want(want string, writes []string) {
	w.Helper()
	if got := strings.Join(writes, ", "); got != want {
		w.Errorf("want %s\ngot  %s", want, got)
	}
}

func (w *world) wantError(want string, err error) {
	w.Helper()
	if text(err) != want {
		w.Errorf("want error %q\ngot        %q", want, text(err))
	}
}

const owned = `labels: {controller-uid: u1}, ownerReferences: [{apiVersion: example.com/v1, kind: Thing, name: thing, uid: u1, controller: true, blockOwnerDeletion: true}]`
