package composite

import (
	"encoding/json"
	"fmt"
	"strings"
)

// parent and child are what a small hook decodes: some numbers, and raw parts
// that it passes on.
type parent struct {
	Metadata Metadata   `json:"metadata"`
	Spec     parentSpec `json:"spec"`
}

var decoder = NewDecoder[parent, child, child]()

type parentSpec struct {
	Replicas *Int            `json:"replicas"`
	Paused   bool            `json:"paused"`
	Template json.RawMessage `json:"template"`
}

type child struct {
	Kind       string            `json:"kind"`
	Metadata   Metadata          `json:"metadata"`
	Spec       childSpec         `json:"spec"`
	Status     childStatus       `json:"status"`
	Data       map[string]string `json:"data"`
	BinaryData map[string][]byte `json:"binaryData"`
}

type childSpec struct {
	Replicas *Int            `json:"replicas"`
	Template json.RawMessage `json:"template"`
}

type childStatus struct {
	AvailableReplicas Int `json:"availableReplicas"`
}

// object is a literal of JSON.
type object = map[string]any

// bigRequest makes a request in the shape that Metacontroller sends: one
// parent, two Deployments and the given number of snapshots of the given size.
// Each object has about the given number of bytes of managedFields and, as in
// dynamic mode, the last-applied annotation with a copy of itself.
func bigRequest(snapshots, size, fields int) []byte {
	snapshotGroup, deployments := object{}, object{}
	for n := range snapshots {
		name := fmt.Sprintf("web-rev-%d", n+1)
		content := fmt.Sprintf(`{"number":%d,"text":"%s"}`, n+1, strings.Repeat("x: y, ", size/6))
		data := object{"spec.json": content}
		snapshotGroup["default/"+name] = object{
			"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": data,
			"metadata": bigMetadata(name, fields, object{"data": data}),
		}
	}
	for _, hash := range []string{"0a1b2c3d4e", "5f60718293"} {
		name := "web-" + hash
		spec := object{
			"replicas": 5, "selector": object{"matchLabels": object{"revision": hash}},
			"template": object{"spec": object{"containers": []object{{"name": "web", "image": "web:1"}}}},
		}
		deployments["default/"+name] = object{
			"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
			"metadata": bigMetadata(name, fields, object{"spec": spec}),
			"status":   object{"availableReplicas": 5, "observedGeneration": 1},
		}
	}
	data, err := json.Marshal(object{
		"controller": object{
			"metadata": bigMetadata("greyrelease", fields, object{}),
			"spec": object{"childResources": []object{
				{"apiVersion": "apps/v1", "resource": "deployments"}, {"apiVersion": "v1", "resource": "configmaps"},
			}},
		},
		"parent": object{
			"apiVersion": "example.com/v1", "kind": "Parent",
			"metadata": bigMetadata("web", fields, object{}),
			"spec":     object{"replicas": 10, "template": object{"spec": object{}}},
		},
		"children":   object{"Deployment.apps/v1": deployments, "ConfigMap.v1": snapshotGroup, "Service.v1": object{}},
		"related":    object{"Pod.v1": object{}},
		"finalizing": false,
	})
	if err != nil {
		panic(err)
	}
	return data
}

// bigMetadata has about the given number of bytes of managedFields, and in an
// annotation what was last applied.
func bigMetadata(name string, fields int, applied object) object {
	lastApplied, err := json.Marshal(applied)
	if err != nil {
		panic(err)
	}
	tree := object{}
	for i := range fields / 75 {
		tree[fmt.Sprintf("f:field-%d", i)] = object{".": object{}, "f:a": object{}, "f:b": object{`k:{"name":"web"}`: object{}}}
	}
	entries := []object{}
	for _, manager := range []string{"metacontroller", "kube-controller-manager"} {
		entries = append(entries, object{
			"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": tree,
			"manager": manager, "operation": "Update", "time": "2026-11-30T17:33:10Z",
		})
		tree = object{"f:status": object{}}
	}
	return object{
		"name": name, "namespace": "default", "uid": "uid-of-" + name, "resourceVersion": "778", "generation": 3,
		"creationTimestamp": "2026-11-30T17:33:10Z", "managedFields": entries,
		"labels":      object{"app": "web"},
		"annotations": object{"metacontroller.k8s.io/last-applied-configuration": string(lastApplied)},
		"ownerReferences": []object{{
			"apiVersion": "example.com/v1", "kind": "Parent", "name": "web", "uid": "uid-of-web",
			"controller": true, "blockOwnerDeletion": true,
		}},
	}
}
