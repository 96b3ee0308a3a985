package walk

import (
	"strings"
	"testing"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// pods calls f with the pods of a request.
func pods(request map[string]any, f func(o map[string]any)) {
	for _, o := range apply.Object(request, "related", sim.Pods.GroupKey()) {
		f(o.(map[string]any))
	}
}

// plantedPods are bugs about pods that the product does not have.
var plantedPods = []struct {
	name string
	hook sim.Hook
}{
	{"restarts count twice", hide(func(request map[string]any) {
		pods(request, func(o map[string]any) {
			for _, status := range apply.List(o, "status", "containerStatuses") {
				s := status.(map[string]any)
				s["restartCount"] = 2 * s["restartCount"].(int64)
			}
		})
	})},
}

// TestPlantedPodBugs: each bug is caught by the rule for crash loops in a walk that the
// product itself passes.
func TestPlantedPodBugs(t *testing.T) {
	const seeds = 60
	for _, bug := range plantedPods {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				err := WalkPods(seed, bug.hook, nil)
				if err == nil || !strings.HasPrefix(err.Error(), "crash loops:") || WalkPods(seed, sim.Product, nil) != nil {
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
