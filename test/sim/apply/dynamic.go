package apply

import (
	"bytes"
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// LastApplied is the annotation in which dynamic apply keeps, on each child, a
// copy of what the hook asked for last.
const LastApplied = "metacontroller.k8s.io/last-applied-configuration"

// systemFields of metadata come from the API server. What a hook says about
// them is dropped before anything is compared.
var systemFields = []string{
	"creationTimestamp",
	"deletionGracePeriodSeconds",
	"deletionTimestamp",
	"generation",
	"managedFields",
	"resourceVersion",
	"selfLink",
	"uid",
}

// Owner is the reference that makes parent the controller of a child.
func Owner(parent map[string]any) map[string]any {
	return map[string]any{
		"apiVersion":         parent["apiVersion"],
		"kind":               parent["kind"],
		"name":               Field(parent, "metadata", "name"),
		"uid":                Field(parent, "metadata", "uid"),
		"controller":         true,
		"blockOwnerDeletion": true,
	}
}

// Create returns the object that dynamic apply posts for a desired child that
// was not observed: the child with a copy of itself in an annotation, owned by
// the parent.
func Create(desired, owner map[string]any) (map[string]any, error) {
	obj, err := annotate(desired, desired)
	if err != nil {
		return nil, err
	}
	return Claim(obj, owner), nil
}

// Update returns the object that dynamic apply puts in place of an observed
// child. Nothing is written if it equals the observed one.
func Update(observed, desired map[string]any) (map[string]any, error) {
	last, err := lastApplied(observed)
	if err != nil {
		return nil, err
	}
	desired = without(desired, "metadata", "annotations", LastApplied)
	obj := Merge(observed, last, desired)
	for _, name := range systemFields {
		obj = revert(obj, observed, "metadata", name)
	}
	return annotate(revert(obj, observed, "status"), desired)
}

// revert makes the value at the path in obj what it is in orig.
func revert(obj, orig map[string]any, path ...string) map[string]any {
	parent := orig
	if len(path) > 1 {
		parent = Object(orig, path[:len(path)-1]...)
	}
	if v, ok := parent[path[len(path)-1]]; ok {
		return with(obj, v, path...)
	}
	return without(obj, path...)
}

func annotate(obj, desired map[string]any) (map[string]any, error) {
	text, err := json.Marshal(desired)
	if err != nil {
		return nil, fmt.Errorf("cannot encode last applied state: %w", err)
	}
	return with(obj, string(text), "metadata", "annotations", LastApplied), nil
}

func lastApplied(observed map[string]any) (map[string]any, error) {
	text := Text(observed, "metadata", "annotations", LastApplied)
	if text == "" {
		return nil, nil
	}
	var last map[string]any
	if err := utiljson.Unmarshal([]byte(text), &last); err != nil {
		return nil, fmt.Errorf("can't unmarshal %q annotation: %w", LastApplied, err) // users read it in an event
	}
	return last, nil
}

// Claim returns obj with the owner among its references.
func Claim(obj, owner map[string]any) map[string]any {
	refs := List(obj, "metadata", "ownerReferences")
	for _, ref := range refs {
		if Text(ref, "uid") == owner["uid"] {
			return obj
		}
	}
	claimed := append(append(make([]any, 0, len(refs)+1), refs...), owner)
	return with(obj, claimed, "metadata", "ownerReferences")
}

// Decode reads a JSON object with whole numbers as int64, as Metacontroller does.
func Decode(data []byte) (map[string]any, error) {
	var obj map[string]any
	if err := utiljson.Unmarshal(bytes.TrimSpace(data), &obj); err != nil {
		return nil, fmt.Errorf("cannot decode object: %w", err)
	}
	return obj, nil
}
