package upgrade

import (
	"encoding/json"
	"fmt"

	"greyrelease.example.com/test/sim/apply"

	"k8s.io/apimachinery/pkg/api/resource"
)

// groups are where the children of each kind stand in a request.
var groups = map[string]string{"Deployment": "Deployment.apps/v1", "ConfigMap": "ConfigMap.v1"}

// observedChildren are the children in a request by kind and name.
func observedChildren(request []byte) (map[string]object, error) {
	tree, err := apply.Decode(request)
	if err != nil {
		return nil, fmt.Errorf("cannot read request: %w", err)
	}
	found := map[string]object{}
	for kind, group := range groups {
		for _, c := range apply.Object(tree, "children", group) {
			found[kind+" "+apply.Text(c, "metadata", "name")] = c.(object)
		}
	}
	return found, nil
}

// writesChildren tells whether an answer asks for something that is not there.
func writesChildren(request []byte, children []json.RawMessage) (bool, error) {
	observed, err := observedChildren(request)
	if err != nil {
		return false, err
	}
	if len(observed) != len(children) {
		return true, nil
	}
	for _, raw := range children {
		want, err := apply.Decode(raw)
		if err != nil {
			return false, fmt.Errorf("cannot read child: %w", err)
		}
		is := observed[apply.Text(want, "kind")+" "+apply.Text(want, "metadata", "name")]
		if is == nil || !has(is, want) {
			return true, nil
		}
	}
	return false, nil
}

// has tells whether everything wanted is there; more may be. An API server stores
// quantities in a form of its own, 0.1 as 100m.
func has(is, want any) bool {
	switch want := want.(type) {
	case object:
		is, ok := is.(object)
		for name := range want {
			if name == "limits" || name == "requests" {
				ok = ok && has(amounts(is[name]), amounts(want[name]))
				continue
			}
			ok = ok && has(is[name], want[name])
		}
		return ok
	case []any:
		is, ok := is.([]any)
		ok = ok && len(is) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = has(is[i], want[i])
		}
		return ok
	}
	return apply.Equal(is, want)
}

// amounts are the quantities in a list of resources, in thousandths.
func amounts(resources any) any {
	list, ok := resources.(object)
	if !ok {
		return resources
	}
	plain := object{}
	for name, amount := range list {
		q, err := resource.ParseQuantity(fmt.Sprint(amount))
		if err != nil {
			return resources
		}
		plain[name] = q.MilliValue()
	}
	return plain
}

// restarted lists the Deployments whose pods would be replaced: those whose
// template is another one once Metacontroller has applied the answer. server tells
// its server-side mode, in which fields that are not asked for stay.
func restarted(request, answer []byte, server bool) ([]string, error) {
	observed, err := observedChildren(request)
	if err != nil {
		return nil, err
	}
	tree, err := apply.Decode(answer)
	if err != nil {
		return nil, fmt.Errorf("cannot read answer: %w", err)
	}
	var list []string
	for _, want := range apply.List(tree, "children") {
		name := apply.Text(want, "metadata", "name")
		is := observed["Deployment "+name]
		if apply.Text(want, "kind") != "Deployment" || is == nil {
			continue
		}
		template := apply.Object(is, "spec", "template")
		same := has(template, apply.Object(want, "spec", "template"))
		if !server {
			merged, err := apply.Update(is, want.(object))
			if err != nil {
				return nil, fmt.Errorf("cannot apply %s: %w", name, err)
			}
			same = apply.Equal(template, apply.Field(merged, "spec", "template"))
		}
		if !same {
			list = append(list, name)
		}
	}
	return list, nil
}
