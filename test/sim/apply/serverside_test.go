package apply

import (
	"strings"
	"testing"
)

func serverSide(t *testing.T, live map[string]any, owners []Managed, config string) (map[string]any, []Managed) {
	t.Helper()
	obj, owners, err := ServerSide(live, owners, "metacontroller", decode(t, config), Schema("Deployment"))
	if err != nil {
		t.Fatal(err)
	}
	return obj, owners
}

const twoContainers = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a": "1"}},
	"spec": {"replicas": 2, "template": {"spec": {"containers": [
		{"name": "web", "image": "web:1", "livenessProbe": {"periodSeconds": 3}},
		{"name": "side", "image": "side:1"}]}}}}`

func TestServerSideRemovesWhatIsNoLongerApplied(t *testing.T) {
	live, owners := serverSide(t, nil, nil, twoContainers)
	// The server fills in a default that nobody owns.
	web := Object(List(live, "spec", "template", "spec", "containers")[0])
	web["livenessProbe"] = map[string]any{"periodSeconds": int64(3), "timeoutSeconds": int64(1)}
	live, owners = serverSide(t, live, owners, `{"metadata": {"name": "d"}, "spec": {"template": {"spec": {
		"containers": [{"name": "web", "image": "web:2"}]}}}}`)
	check(t, `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
		"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}}`, live)
	if len(owners) != 1 {
		t.Errorf("want one owner, got %d", len(owners))
	}
}

func TestServerSideKeepsWhatOthersOwn(t *testing.T) {
	live, owners := serverSide(t, nil, nil, twoContainers)
	edited := CloneMap(live)
	Object(edited, "metadata")["annotations"] = map[string]any{"restartedAt": "now"}
	Object(edited, "spec")["replicas"] = int64(5)
	kubectl := Manager{Name: "kubectl", Operation: "Update"}
	owners = Track(owners, kubectl, live, edited, Schema("Deployment"))
	if !owners[1].Fields.Has("f:spec", "f:replicas") || owners[0].Fields.Has("f:spec", "f:replicas") {
		t.Errorf("want the editor alone to own replicas, got\n%s", owners[0].Fields)
	}

	forced, after := serverSide(t, edited, owners, twoContainers)
	if got := Field(forced, "spec", "replicas"); got != int64(2) {
		t.Errorf("want replicas forced back to 2, got %v", got)
	}
	if got := Text(forced, "metadata", "annotations", "restartedAt"); got != "now" {
		t.Errorf("want the annotation kept, got %q", got)
	}
	if !after[0].Fields.Has("f:spec", "f:replicas") || after[1].Fields.Has("f:spec", "f:replicas") {
		t.Error("want replicas owned by the applier again")
	}

	// A field that an editor has taken over is not removed with our next leaving it out.
	dropped, _ := serverSide(t, edited, owners, `{"metadata": {"name": "d"}, "spec": {}}`)
	if got := Field(dropped, "spec", "replicas"); got != int64(5) {
		t.Errorf("want the editor's replicas 5, got %v", got)
	}
}

func TestServerSideKeysOfPorts(t *testing.T) {
	config := `{"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "dns", "ports": [
		{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53}]}]}}}}`
	live, owners := serverSide(t, nil, nil, config)
	for range 2 {
		live, owners = serverSide(t, live, owners, config)
	}
	check(t, config, live)

	twice := strings.Replace(config, `"protocol": "UDP"`, `"protocol": "TCP"`, 1)
	_, _, err := ServerSide(nil, nil, "metacontroller", decode(t, twice), Schema("Deployment"))
	want := `duplicate entries for key at .spec.template.spec.containers[{"name":"dns"}].ports[{"containerPort":53,"protocol":"TCP"}]`
	if err == nil || err.Error() != want {
		t.Errorf("want %s\ngot  %v", want, err)
	}
}

func TestServerSideSeizesAnUnownedObject(t *testing.T) {
	live := decode(t, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"team": "a"}},
		"spec": {"selector": {"app": "old"}, "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}}`)
	owners := Track(nil, Manager{Name: "kubectl", Operation: "Update"}, nil, live, Schema("Service"))
	got, _, err := ServerSide(live, owners, "metacontroller", decode(t, `{"metadata": {"name": "web",
		"ownerReferences": [{"uid": "p"}]}, "spec": {"selector": {"rev": "1"}, "ports": [{"port": 80}]}}`), Schema("Service"))
	if err != nil {
		t.Fatal(err)
	}
	check(t, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"team": "a"},
		"ownerReferences": [{"uid": "p"}]},
		"spec": {"selector": {"rev": "1"}, "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]}}`, got)
}

func TestSkips(t *testing.T) {
	deployment := decode(t, `{"metadata": {"uid": "1", "generation": 3, "resourceVersion": "7"}}`)
	configMap := decode(t, `{"metadata": {"uid": "1", "resourceVersion": "7"}}`)
	for _, c := range []struct {
		why      string
		made     map[string]any
		hash     uint64
		observed string
		want     bool
	}{
		{"nothing changed", deployment, 5, `{"metadata": {"uid": "1", "generation": 3, "resourceVersion": "7"}}`, true},
		{"an edit of labels keeps the generation and goes unnoticed", deployment, 5, `{"metadata": {"uid": "1", "generation": 3, "resourceVersion": "9"}}`, true},
		{"an edit of the spec", deployment, 5, `{"metadata": {"uid": "1", "generation": 4, "resourceVersion": "9"}}`, false},
		{"a cache that is behind", deployment, 5, `{"metadata": {"uid": "1", "generation": 2, "resourceVersion": "5"}}`, false},
		{"another wish", deployment, 6, `{"metadata": {"uid": "1", "generation": 3, "resourceVersion": "7"}}`, false},
		{"another object of that name", deployment, 5, `{"metadata": {"uid": "2", "generation": 3, "resourceVersion": "7"}}`, false},
		{"a kind without generations, same version", configMap, 5, `{"metadata": {"uid": "1", "resourceVersion": "7"}}`, true},
		{"a kind without generations, edited", configMap, 5, `{"metadata": {"uid": "1", "resourceVersion": "8"}}`, false},
	} {
		t.Run(c.why, func(t *testing.T) {
			if got := Remember(5, c.made).Skips(c.hash, decode(t, c.observed)); c.want != got {
				t.Errorf("want %v, got %v", c.want, got)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	desired := decode(t, `{"metadata": {"name": "d", "uid": "x", "managedFields": [], "annotations":
		{"metacontroller.k8s.io/last-applied-configuration": "{}", "a": "b"}}, "spec": {}, "status": {"x": 1}}`)
	check(t, `{"metadata": {"name": "d", "annotations": {"a": "b"}, "ownerReferences": [{"uid": "p"}]}, "spec": {}}`,
		Config(desired, map[string]any{"uid": "p"}))
}
