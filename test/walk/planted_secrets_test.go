package walk

import (
	"strings"
	"testing"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// wantedStays plants the rule that comes to mind first: of two copies of a snapshot the
// one stays that the spec asks for.
var wantedStays = hide(func(request map[string]any) {
	wanted := apply.Text(request, "parent", "spec", "snapshotKind")
	if wanted == "" {
		wanted = "ConfigMap"
	}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		each(request, kind+".v1", func(o map[string]any) {
			made := "2026-11-30T12:00:00Z"
			if kind == wanted {
				made = "2026-11-30T12:00:01Z"
			}
			apply.Object(o, "metadata")["creationTimestamp"] = made
		})
	}
})

// TestPlantedSecretBug: with that rule old caches lose a snapshot, which the walk finds.
func TestPlantedSecretBug(t *testing.T) {
	const seeds = 200
	for seed := uint64(1); seed <= seeds; seed++ {
		err := WalkSecrets(seed, wantedStays, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "snapshots that move:") || WalkSecrets(seed, sim.Product, nil) != nil {
			continue
		}
		text := err.Error()
		t.Logf("seed %d: %s", seed, text[:min(len(text), 200)])
		return
	}
	t.Errorf("not caught by %d walks", seeds)
}
