package apply

import (
	"testing"
)

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	obj, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func check(t *testing.T, want string, got map[string]any) {
	t.Helper()
	if w := jsonText(decode(t, want)); w != jsonText(got) {
		t.Errorf("want %s\ngot  %s", w, jsonText(got))
	}
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		why                            string
		observed, last, desired, merge string
	}{{
		"what others added stays, what we stop sending goes",
		`{"labels": {"ours": "1", "theirs": "2", "old": "3"}, "status": {"x": 1}}`,
		`{"labels": {"ours": "1", "old": "3"}}`,
		`{"labels": {"ours": "4"}}`,
		`{"labels": {"ours": "4", "theirs": "2"}, "status": {"x": 1}}`,
	}, {
		"containers are merged by name and keep the live order, new ones come last",
		`{"c": [{"name": "a", "image": "a:1", "pull": "Always"}, {"name": "inject"}, {"name": "b"}]}`,
		`{"c": [{"name": "a", "image": "a:1"}, {"name": "b"}]}`,
		`{"c": [{"name": "new"}, {"name": "a", "image": "a:2"}]}`,
		`{"c": [{"name": "a", "image": "a:2", "pull": "Always"}, {"name": "inject"}, {"name": "new"}]}`,
	}, {
		"one item without the key makes a list that is replaced whole",
		`{"t": [{"key": "a", "effect": "NoSchedule"}, {"operator": "Exists"}]}`,
		`{"t": [{"key": "a"}, {"operator": "Exists"}]}`,
		`{"t": [{"key": "a"}, {"operator": "Exists"}]}`,
		`{"t": [{"key": "a"}, {"operator": "Exists"}]}`,
	}, {
		"port comes before name: two names of one port are one item",
		`{"refs": [{"name": "gw", "port": 80, "section": "x"}]}`,
		`{"refs": [{"name": "gw", "port": 80, "section": "x"}]}`,
		`{"refs": [{"name": "other", "port": 80}]}`,
		`{"refs": [{"name": "other", "port": 80}]}`,
	}, {
		"a null over an object removes only what was applied last",
		`{"a": {"ours": 1, "theirs": 2}, "b": 3}`,
		`{"a": {"ours": 1}}`,
		`{"a": null, "b": null}`,
		`{"a": {"theirs": 2}, "b": null}`,
	}, {
		"an empty list replaces a list without a key and empties one with a key of what we applied",
		`{"args": ["x"], "env": [{"name": "A"}, {"name": "B"}]}`,
		`{"args": ["x"], "env": [{"name": "A"}]}`,
		`{"args": [], "env": []}`,
		`{"args": [], "env": [{"name": "B"}]}`,
	}} {
		t.Run(c.why, func(t *testing.T) {
			check(t, c.merge, Merge(decode(t, c.observed), decode(t, c.last), decode(t, c.desired)))
		})
	}
}

// A container with ports 53/UDP and 53/TCP is right on the first sync and 53/TCP
// twice from the second one on.
func TestUpdateCorruptsEqualKeys(t *testing.T) {
	desired := decode(t, `{"metadata": {"name": "d"}, "spec": {"ports": [
		{"containerPort": 53, "protocol": "UDP", "name": "u"},
		{"containerPort": 53, "protocol": "TCP", "name": "t"}]}}`)
	created, err := Create(desired, map[string]any{"uid": "p"})
	if err != nil {
		t.Fatal(err)
	}
	ports := Object(desired, "spec")
	if !Equal(ports, created["spec"]) {
		t.Errorf("want the ports as they are, got %s", jsonText(created["spec"]))
	}
	updated, err := Update(created, desired)
	if err != nil {
		t.Fatal(err)
	}
	check(t, `{"ports": [
		{"containerPort": 53, "protocol": "TCP", "name": "t"},
		{"containerPort": 53, "protocol": "TCP", "name": "t"}]}`, Object(updated, "spec"))
}

// The server drops a zero, so that the merged object differs for ever.
func TestUpdateOfADroppedZero(t *testing.T) {
	desired := decode(t, `{"metadata": {"name": "d"}, "spec": {"minReadySeconds": 0, "replicas": 1}}`)
	live, err := Create(desired, map[string]any{"uid": "p"})
	if err != nil {
		t.Fatal(err)
	}
	live = without(live, "spec", "minReadySeconds")
	for range 3 {
		updated, err := Update(live, desired)
		if err != nil {
			t.Fatal(err)
		}
		if Equal(live, updated) {
			t.Fatal("want a difference on every sync, got none")
		}
		live = without(updated, "spec", "minReadySeconds")
	}
}

func TestUpdateKeepsWhatTheServerOwns(t *testing.T) {
	live := decode(t, `{"metadata": {"name": "d", "uid": "1", "resourceVersion": "7", "generation": 2,
		"annotations": {"metacontroller.k8s.io/last-applied-configuration": "{\"metadata\":{\"name\":\"d\"}}", "theirs": "x"}},
		"status": {"replicas": 3}}`)
	desired := decode(t, `{"metadata": {"name": "d", "uid": "forged", "resourceVersion": "9", "creationTimestamp": null,
		"annotations": {"metacontroller.k8s.io/last-applied-configuration": "forged"}}, "status": {"replicas": 9}}`)
	updated, err := Update(live, desired)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path []string
		want any
	}{
		{[]string{"metadata", "uid"}, "1"},
		{[]string{"metadata", "resourceVersion"}, "7"},
		{[]string{"metadata", "creationTimestamp"}, nil},
		{[]string{"metadata", "annotations", "theirs"}, "x"},
		{[]string{"status", "replicas"}, int64(3)},
	} {
		if got := Field(updated, c.path...); c.want != got {
			t.Errorf("%v: want %v, got %v", c.path, c.want, got)
		}
	}
	if again, err := Update(updated, desired); err != nil || !Equal(updated, again) {
		t.Errorf("want no difference the second time, got %s (%v)", jsonText(again), err)
	}
}

func TestMergeKey(t *testing.T) {
	for _, c := range []struct{ why, list, want string }{
		{"containerPort before name", `[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "b"}]`, "containerPort"},
		{"mountPath before name", `[{"mountPath": "/a", "name": "a"}]`, "mountPath"},
		{"name where one lacks the port", `[{"port": 1, "name": "a"}, {"name": "b"}]`, "name"},
		{"path of a downward API item", `[{"path": "labels"}]`, "path"},
		{"no known name", `[{"key": "a"}]`, ""},
		{"not objects", `["a"]`, ""},
		{"nothing", `[]`, ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			if got := MergeKey(List(decode(t, `{"l": `+c.list+`}`), "l")); c.want != got {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
}
