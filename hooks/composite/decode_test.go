package composite

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// requests of both hook versions as Metacontroller sends them, cut down.
func readRequest(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeSyncReadsBothHookVersions(t *testing.T) {
	five := Int(5)
	meta := func(name string) Metadata {
		return Metadata{
			Name: name, Namespace: "shop", UID: "uid-" + name, ResourceVersion: "812", Generation: 2,
			CreationTimestamp: "2026-11-30T17:33:10Z",
			Labels:            map[string]string{"app": "web"},
			Annotations:       map[string]string{"note": "a <b> & c"},
			OwnerReferences:   []OwnerReference{{Kind: "Parent", Name: "web", UID: "uid-web", Controller: true}},
			ManagedFields: []ManagedField{
				{Manager: "metacontroller", Operation: "Apply", Time: "2026-11-30T17:33:10Z"},
				{Manager: "kube-controller-manager", Operation: "Update", Subresource: "status", Time: "2026-11-30T17:33:12Z"},
			},
		}
	}
	wantDeployment := child{
		Kind: "Deployment", Metadata: meta("web-0a1b2c3d4e"),
		Spec:   childSpec{Replicas: &five, Template: json.RawMessage(`{"spec":{"containers":[{"name":"web","image":"web:1"}]}}`)},
		Status: childStatus{AvailableReplicas: 4},
	}
	wantSnapshot := child{
		Kind: "ConfigMap", Metadata: meta("web-rev-1"),
		Data: map[string]string{"spec.json": `{"a":1}`}, BinaryData: map[string][]byte{"template.json.gz": {0x1f, 0x8b, 8}},
	}
	wantParent := parent{
		Metadata: Metadata{
			Name: "web", Namespace: "shop", UID: "uid-web", ResourceVersion: "787", Generation: 1,
			CreationTimestamp: "2026-11-30T17:33:10Z", DeletionTimestamp: "2026-11-30T18:00:00Z",
		},
		Spec: parentSpec{Replicas: &five, Template: json.RawMessage(`{"spec":{}}`)},
	}
	wantController := Controller{
		Metadata: ControllerMetadata{Name: "release"},
		Spec:     ControllerSpec{ChildResources: []ChildResource{{APIVersion: "apps/v1", Resource: "deployments"}, {APIVersion: "v1", Resource: "configmaps"}}},
	}

	for _, file := range []string{"sync-v1.json", "sync-v2.json"} {
		t.Run(file, func(t *testing.T) {
			got, err := decoder.Sync(readRequest(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"ConfigMap.v1", "Deployment.apps/v1", "Service.v1"}; !slices.Equal(want, got.Kinds()) {
				t.Errorf("want kinds %q, got %q", want, got.Kinds())
			}
			if want, all := []child{wantDeployment}, got.All("Deployment.apps/v1"); !reflect.DeepEqual(want, all) {
				t.Errorf("want Deployments\n%+v, got\n%+v", want, all)
			}
			if want, all := []child{wantSnapshot}, got.All("ConfigMap.v1"); !reflect.DeepEqual(want, all) {
				t.Errorf("want ConfigMaps\n%+v, got\n%+v", want, all)
			}
			if all := got.All("Service.v1"); len(all) != 0 {
				t.Errorf("want no Services, got %+v", all)
			}
			if !reflect.DeepEqual(wantParent, got.Parent) {
				t.Errorf("want parent\n%+v, got\n%+v", wantParent, got.Parent)
			}
			if !reflect.DeepEqual(wantController, got.Controller) {
				t.Errorf("want controller %+v, got %+v", wantController, got.Controller)
			}
			if !got.Finalizing {
				t.Error("want finalizing, got false")
			}
		})
	}
}

func TestDecodeSyncTolerates(t *testing.T) {
	for _, row := range []struct {
		name, request, why string
	}{
		{"least", `{"parent":{},"children":{}}`, "a person with curl sends no more"},
		{"null group", `{"parent":{},"children":{"Pod.v1":null}}`, "Go marshals a nil map as null"},
		{"null controller", `{"controller":null,"parent":{},"children":{}}`, "nothing depends on it"},
		{"null finalizing", `{"parent":{},"children":{},"finalizing":null}`, "null is absent"},
		{"null fields", `{"parent":{"metadata":{"creationTimestamp":null,"labels":null,"managedFields":null}},"children":{}}`, "typed clients write null for empty"},
		{"unknown fields", `{"parent":{"new":[1,{}]},"children":{},"new":{"parent":7}}`, "a newer Metacontroller"},
		{"white space", " \r\n\t{\"parent\":{},\"children\":{}}\n ", "a file with a line break at its end"},
		{"other case", `{"parent":{},"Parent":7,"PARENT":"x","children":{},"Children":7}`, "another field, as to the API server"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := decoder.Sync([]byte(row.request))
			if err != nil {
				t.Fatalf("want no error (%s), got %v", row.why, err)
			}
			if !reflect.DeepEqual(parent{}, got.Parent) {
				t.Errorf("want an empty parent, got %+v", got.Parent)
			}
			for _, kind := range got.Kinds() {
				if all := got.All(kind); len(all) > 0 {
					t.Errorf("want no %s, got %+v", kind, all)
				}
			}
		})
	}
}

func TestDecodeSyncRefuses(t *testing.T) {
	for _, row := range []struct {
		name, request, want string
	}{
		{"nothing", ``, "cannot decode sync request: unexpected end of JSON input"},
		{"not JSON", `hello`, "cannot decode sync request: invalid character 'h' looking for beginning of value"},
		{"cut off", `{"parent":{"metadata":{"name":"we`, "cannot decode sync request: unexpected end of JSON input"},
		{"two values", `{"parent":{},"children":{}}{}`, "cannot decode sync request: invalid character '{' after top-level value"},
		{"not UTF-8", "{\"parent\":{},\"children\":{},\"x\":\"\xff\"}", "cannot decode sync request: not UTF-8"},
		{"byte order mark", "\ufeff{}", "cannot decode sync request: invalid character 'ï' looking for beginning of value"},
		{"array", `[]`, "cannot decode sync request: the request: array is no object"},
		{"null", `null`, "cannot decode sync request: parent is missing"},
		{"no parent", `{"children":{}}`, "cannot decode sync request: parent is missing"},
		{"parent null", `{"parent":null,"children":{}}`, "cannot decode sync request: parent is missing"},
		{"parent in another case", `{"Parent":{},"children":{}}`, "cannot decode sync request: parent is missing"},
		{"parent array", `{"parent":[],"children":{}}`, "cannot decode sync request: parent: array is no object"},
		{"no children", `{"parent":{}}`, "cannot decode sync request: children is missing"},
		{"children null", `{"parent":{},"children":null}`, "cannot decode sync request: children is missing"},
		{"children list", `{"parent":{},"children":[]}`, "cannot decode sync request: children: array is no object"},
		{"group list", `{"parent":{},"children":{"Pod.v1":[]}}`, "cannot decode sync request: children: array is no object"},
		{"child null", `{"parent":{},"children":{"Pod.v1":{"b":null,"a":null}}}`, `cannot decode sync request: children["Pod.v1"]["a"] is null`},
		{"child text", `{"parent":{},"children":{"Pod.v1":{"a":"b"}}}`, "cannot decode sync request: children: string is no object"},
		{"label number", `{"parent":{"metadata":{"labels":{"a":1}}},"children":{}}`, "cannot decode sync request: parent.metadata.labels: number is no string"},
		{"bool as text", `{"parent":{"spec":{"paused":"yes"}},"children":{}}`, "cannot decode sync request: parent.spec.paused: string is no bool"},
		{"owners", `{"parent":{"metadata":{"ownerReferences":{}}},"children":{}}`, "cannot decode sync request: parent.metadata.ownerReferences: object is no array"},
		{"generation", `{"parent":{"metadata":{"generation":1.5}},"children":{}}`, "cannot decode sync request: parent.metadata.generation: number 1.5 is no whole number of 64 bits"},
		{"replicas as text", `{"parent":{"spec":{"replicas":"5"}},"children":{}}`, `cannot decode sync request: parent.spec.replicas: string is no whole number of 64 bits`},
		{"half a replica", `{"parent":{"spec":{"replicas":2.7}},"children":{}}`, "cannot decode sync request: parent.spec.replicas: number 2.7 is no whole number of 64 bits"},
		{"too many replicas", `{"parent":{"spec":{"replicas":1e20}},"children":{}}`, "cannot decode sync request: parent.spec.replicas: number 1e20 is no whole number of 64 bits"},
		{"child's replicas", `{"parent":{},"children":{"Deployment.apps/v1":{"a":{"spec":{"replicas":2.5}}}}}`, "cannot decode sync request: children.spec.replicas: number 2.5 is no whole number of 64 bits"},
		{"nesting", `{"parent":{},"children":{},"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, "cannot decode sync request: invalid character '[' exceeded max depth"},
		{"nesting, not closed", strings.Repeat(`{"parent":`, 1_000_000), "cannot decode sync request: invalid character '{' exceeded max depth"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := decoder.Sync([]byte(row.request))
			var bad *BadRequestError
			if !errors.As(err, &bad) {
				t.Fatalf("want a BadRequestError, got %v and %+v", err, got)
			}
			if row.want != err.Error() {
				t.Errorf("want %s\ngot  %s", row.want, err)
			}
		})
	}
}

// A field that is there twice: the package documentation says what comes out.
func TestDecodeSyncReadsDuplicatesAsTheAPIServerDoes(t *testing.T) {
	got, err := decoder.Sync([]byte(`{
		"parent": {"metadata": {"name": "first", "uid": "kept"}, "spec": {"template": {"a": 1}}},
		"parent": {"metadata": {"name": "second"}, "spec": {"template": {"b": 2}}},
		"children": {"Pod.v1": {"a": {"kind": "First", "metadata": {"name": "gone"}}, "a": {"kind": "Second"}}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Metadata{Name: "second", UID: "kept"}); !reflect.DeepEqual(want, got.Parent.Metadata) {
		t.Errorf("want metadata %+v, got %+v", want, got.Parent.Metadata)
	}
	if want := `{"b": 2}`; want != string(got.Parent.Spec.Template) {
		t.Errorf("want template %s, got %s", want, got.Parent.Spec.Template)
	}
	if want := []child{{Kind: "Second"}}; !reflect.DeepEqual(want, got.All("Pod.v1")) {
		t.Errorf("want %+v, got %+v", want, got.All("Pod.v1"))
	}
}

func TestDecodeSyncSharesNothingWithTheBytes(t *testing.T) {
	data := readRequest(t, "sync-v2.json")
	got, err := decoder.Sync(data)
	if err != nil {
		t.Fatal(err)
	}
	want, err := decoder.Sync(slices.Clone(data))
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = '#'
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("want %+v, got %+v", want, got)
	}
}

func TestAllIsInTheOrderOfTheKeys(t *testing.T) {
	request := SyncRequest[parent, child, child]{Children: map[string]map[string]child{"Pod.v1": {}}}
	want := []child{}
	for _, key := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		request.Children["Pod.v1"][key] = child{Kind: key}
		want = append(want, child{Kind: key})
	}
	if got := request.All("Pod.v1"); !reflect.DeepEqual(want, got) {
		t.Errorf("want %+v, got %+v", want, got)
	}
	if got := request.All("Service.v1"); len(got) != 0 {
		t.Errorf("want nothing of a kind that is not there, got %+v", got)
	}
}

func TestDecodeCustomize(t *testing.T) {
	got, err := decoder.Customize([]byte(`{"controller":{"metadata":{"name":"release"}},"parent":{"metadata":{"uid":"u"},"spec":{"replicas":3.0}},"new":1}`))
	if err != nil {
		t.Fatal(err)
	}
	three := Int(3)
	want := &CustomizeRequest[parent]{
		Controller: Controller{Metadata: ControllerMetadata{Name: "release"}},
		Parent:     parent{Metadata: Metadata{UID: "u"}, Spec: parentSpec{Replicas: &three}},
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("want %+v, got %+v", want, got)
	}

	for request, want := range map[string]string{
		`{}`:              "cannot decode customize request: parent is missing",
		`{"parent":null}`: "cannot decode customize request: parent is missing",
		`{"parent":"x"}`:  "cannot decode customize request: parent: string is no object",
		`{"parent":{}`:    "cannot decode customize request: unexpected end of JSON input",
	} {
		_, err := decoder.Customize([]byte(request))
		var bad *BadRequestError
		if !errors.As(err, &bad) || want != err.Error() {
			t.Errorf("%s: want a BadRequestError %q, got %v", request, want, err)
		}
	}
}

// Fifty snapshots of 60 KiB that are there a second time in the last-applied
// annotations, and 2 MB of managedFields. Reading them must not cost more
// than the strings that are kept, 6 MB, twice: the decoder resolves escapes in
// a buffer and copies it into the string.
func TestDecodeSyncOfEightMegabytes(t *testing.T) {
	data := bigRequest(50, 60<<10, 45<<10)
	if len(data) < 8e6 {
		t.Fatalf("want a request of 8 MB, got %d bytes", len(data))
	}
	decoding := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decoder.Sync(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	t.Logf("%d bytes: %v, %d bytes allocated in %d pieces", len(data),
		time.Duration(decoding.NsPerOp()), decoding.AllocedBytesPerOp(), decoding.AllocsPerOp())
	if most := int64(2 * len(data)); decoding.AllocedBytesPerOp() > most {
		t.Errorf("want at most %d bytes allocated, got %d", most, decoding.AllocedBytesPerOp())
	}
	// About 45 pieces an object. The 600 fields that a fieldsV1 tree of 45 KB
	// has in each of 54 objects would be several pieces each.
	if most := int64(4000); decoding.AllocsPerOp() > most {
		t.Errorf("want at most %d pieces of memory, got %d", most, decoding.AllocsPerOp())
	}
}
