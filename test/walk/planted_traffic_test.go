package walk

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

const route = "HTTPRoute.gateway.networking.k8s.io/v1"

// backends calls f with each backend of a route's last rule.
func backends(o any, f func(ref map[string]any)) {
	rules := apply.List(o, "spec", "rules")
	for _, ref := range apply.List(rules[len(rules)-1], "backendRefs") {
		f(ref.(map[string]any))
	}
}

// wantedRoute calls f with the HTTPRoute of an answer.
func wantedRoute(answer map[string]any, f func(o map[string]any)) {
	for _, o := range apply.List(answer, "children") {
		if apply.Text(o, "kind") == "HTTPRoute" {
			f(o.(map[string]any))
		}
	}
}

// plantedTraffic are bugs about requests that somebody could make.
var plantedTraffic = []struct {
	name, rule string
	hook       sim.Hook
}{
	{"scale down before the weight is observed", "I3 for requests", hide(func(request map[string]any) {
		// The route seems to carry what the record says, to be accepted, and nobody to
		// need time to follow.
		apply.Object(request, "parent", "spec")["scaleDownDelaySeconds"] = int64(0)
		weights := map[string]any{}
		records(request, func(record map[string]any) {
			for _, share := range apply.List(record, "route", "shares") {
				text, _ := json.Marshal(apply.Field(share, "revision"))
				weights[string(text)] = apply.Field(share, "weight")
			}
		})
		hashes := map[string]string{}
		each(request, deployment, func(o map[string]any) {
			hashes[apply.Text(o, "metadata", "name")] = apply.Text(o, "metadata", "labels", prefix+"number")
		})
		each(request, route, func(o map[string]any) {
			apply.Object(o, "metadata")["generation"] = int64(0)
			backends(o, func(ref map[string]any) {
				if w, ok := weights[hashes[apply.Text(ref, "name")]]; ok {
					ref["weight"] = w
				}
			})
			o["status"] = map[string]any{"parents": []any{map[string]any{
				"controllerName": "example.com/gateway", "parentRef": apply.List(o, "spec", "parentRefs")[0],
				"conditions": []any{map[string]any{"type": "Accepted", "status": "True", "observedGeneration": int64(0)}},
			}}}
		})
	})},
	{"weight raised before pods are available", "requests", hide(func(request map[string]any) {
		delete(request, "related")
		each(request, deployment, func(o map[string]any) {
			status := apply.Object(o, "status")
			status["observedGeneration"] = apply.Field(o, "metadata", "generation")
			for _, name := range []string{"replicas", "readyReplicas", "availableReplicas"} {
				status[name] = apply.Field(o, "spec", "replicas")
			}
		})
	})},
	{"weights that do not sum to 100", "weights sum to 100", spoil(func(_, answer map[string]any, _ time.Time) {
		wantedRoute(answer, func(o map[string]any) {
			backends(o, func(ref map[string]any) {
				if n, _ := ref["weight"].(int64); n > 0 && n < 100 {
					ref["weight"] = n - 1
				}
			})
		})
	})},
	{"Service dropped while the route names it", "Services", spoil(func(_, answer map[string]any, _ time.Time) {
		empty := map[string]bool{}
		wantedRoute(answer, func(o map[string]any) {
			backends(o, func(ref map[string]any) { empty[apply.Text(ref, "name")] = ref["weight"] == int64(0) })
		})
		var kept []any
		for _, o := range apply.List(answer, "children") {
			if apply.Text(o, "kind") != "Service" || !empty[apply.Text(o, "metadata", "name")] {
				kept = append(kept, o)
			}
		}
		answer["children"] = kept
	})},
}

// TestPlantedTrafficBugs: each bug is caught by its rule in a walk that the
// product itself passes.
func TestPlantedTrafficBugs(t *testing.T) {
	const seeds = 60
	for _, bug := range plantedTraffic {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				err := WalkTraffic(seed, bug.hook, nil)
				if err == nil || !strings.HasPrefix(err.Error(), bug.rule+":") || WalkTraffic(seed, sim.Product, nil) != nil {
					continue
				}
				text := err.Error()
				t.Logf("seed %d: %s", seed, text[:min(len(text), 200)])
				return
			}
			t.Errorf("not caught by %d walks", seeds)
		})
	}
}
