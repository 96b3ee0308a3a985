package main

import (
	"fmt"
	"maps"
)

// shape is a kind of release.
type shape struct {
	name     string
	replicas []int // that its user chooses from
	spec     object
	// fates are those of pods of a failing version, see stages.yaml of the control plane.
	fates []string
	// scaler has an autoscaler set the replicas.
	scaler bool
}

const gatewayName = "edge"

// bad are the fates of pods that never become available, late that of those that crash
// three seconds after they did, which only a soak finds.
var bad = []string{"crash", "image", "hang", "config"}

func percent(n int) string { return fmt.Sprintf("%d%%", n) }

// shapes in the order in which they are taken.
var shapes = []shape{
	{name: "batches", replicas: []int{3, 6, 9}, fates: bad, spec: object{
		"batches": []any{object{"replicas": percent(20), "soakSeconds": int64(1)}, object{"replicas": percent(50)}, object{"replicas": percent(80)}},
	}},
	{name: "derived", replicas: []int{5, 8, 10}, fates: bad, spec: object{"canaryWeight": int64(10), "batchSize": int64(2)}},
	{name: "approval", replicas: []int{2, 4, 7}, fates: bad, spec: object{
		"batches": []any{object{"replicas": int64(1), "approval": true}, object{"replicas": percent(50), "approval": true}},
	}},
	{name: "soak", replicas: []int{4, 6}, fates: append([]string{"late"}, bad...), spec: object{"batchSize": int64(3), "soakSeconds": int64(8)}},
	{name: "nosurge", replicas: []int{3, 5, 6}, fates: bad, spec: object{"maxSurge": int64(0), "maxUnavailable": int64(1), "batchSize": int64(2)}},
	{name: "scaler", replicas: []int{4, 6, 8}, fates: bad, scaler: true, spec: object{
		"maxSurge": percent(50), "maxUnavailable": percent(25), "batches": []any{object{"replicas": percent(50), "soakSeconds": int64(2)}},
	}},
	{name: "routed", replicas: []int{4, 6}, fates: bad, spec: object{
		"batches": []any{object{"replicas": int64(1), "weight": int64(5)}, object{"replicas": percent(50), "weight": int64(50)}},
		"traffic": object{
			"ports":     []any{object{"port": int64(80)}},
			"httpRoute": object{"parentRefs": []any{object{"name": gatewayName}}},
		},
		"scaleDownDelaySeconds": int64(3),
	}},
	{name: "plain", replicas: []int{1, 2, 3}, fates: bad, spec: object{"minReadySeconds": int64(2)}},
}

// content is a version and how its pods fare; "" is well.
type content struct{ version, fate string }

// deadline is the progress deadline that goes with a content: one that fails does so soon,
// and one that is good has time for whatever trouble there is.
func (c content) deadline() int64 {
	if c.fate == "" {
		return 1800
	}
	return 10
}

// wanted is the part of a spec that says what should run.
func (c content) wanted() object {
	metadata := any(nil)
	if c.fate != "" {
		metadata = object{"annotations": object{"test/behave": c.fate}}
	}
	return object{
		"targetVersion": c.version, "progressDeadlineSeconds": c.deadline(), "rollbackTo": nil,
		"template": object{"metadata": metadata},
	}
}

// create is the spec of a new release.
func (s shape) create(c content, replicas int) object {
	spec := object{
		"replicas": int64(replicas), "targetVersion": c.version, "progressDeadlineSeconds": c.deadline(),
		"template": object{"spec": object{"containers": []any{object{
			"name": "web", "image": "nginx", "ports": []any{object{"containerPort": int64(80)}},
		}}}},
	}
	maps.Copy(spec, s.spec)
	return spec
}
