package walk

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

const (
	prefix     = "greyrelease.example.com/"
	deployment = "Deployment.apps/v1"
	configMap  = "ConfigMap.v1"
)

// hide plants a bug in what the hook sees.
func hide(bug func(request map[string]any)) sim.Hook {
	return func(body []byte, now time.Time) (sim.Reply, error) {
		request, err := apply.Decode(body)
		if err != nil {
			return sim.Reply{}, err
		}
		bug(request)
		text, err := json.Marshal(request)
		if err != nil {
			return sim.Reply{}, err
		}
		return sim.Product(text, now)
	}
}

// spoil plants a bug in what the hook answers.
func spoil(bug func(request, answer map[string]any, now time.Time)) sim.Hook {
	return func(body []byte, now time.Time) (sim.Reply, error) {
		reply, err := sim.Product(body, now)
		if err != nil || reply.Status != 200 {
			return reply, err
		}
		request, err := apply.Decode(body)
		if err != nil {
			return sim.Reply{}, err
		}
		answer, err := apply.Decode(reply.Body)
		if err != nil {
			return sim.Reply{}, err
		}
		bug(request, answer, now)
		reply.Body, err = json.Marshal(answer)
		return reply, err
	}
}

// each calls f with the children of a kind in a request.
func each(request map[string]any, kind string, f func(o map[string]any)) {
	for _, o := range apply.Object(request, "children", kind) {
		f(o.(map[string]any))
	}
}

// wanted calls f with the Deployments of an answer.
func wanted(answer map[string]any, f func(o map[string]any)) {
	for _, o := range apply.List(answer, "children") {
		if apply.Text(o, "kind") == "Deployment" {
			f(o.(map[string]any))
		}
	}
}

// records rewrites the record of a request.
func records(request map[string]any, f func(record map[string]any)) {
	each(request, configMap, func(o map[string]any) {
		text := apply.Text(o, "data", "record.json")
		if text == "" {
			return
		}
		record, err := apply.Decode([]byte(text))
		if err != nil {
			return
		}
		f(record)
		if changed, err := json.Marshal(record); err == nil {
			apply.Object(o, "data")["record.json"] = string(changed)
		}
	})
}

// withoutClock hides from the hook under which record sizes were decided, and
// puts it back where the hook keeps it.
func withoutClock(body []byte, now time.Time) (sim.Reply, error) {
	request, err := apply.Decode(body)
	if err != nil {
		return sim.Reply{}, err
	}
	decided := map[string]any{}
	each(request, deployment, func(o map[string]any) {
		annotations := apply.Object(o, "metadata", "annotations")
		if annotations[prefix+"decision"] == nil {
			return
		}
		decided[apply.Text(o, "metadata", "name")] = annotations[prefix+"decision"]
		annotations[prefix+"decision"] = noDecision
	})
	text, err := json.Marshal(request)
	if err != nil {
		return sim.Reply{}, err
	}
	reply, err := sim.Product(text, now)
	if err != nil || reply.Status != 200 {
		return reply, err
	}
	answer, err := apply.Decode(reply.Body)
	if err != nil {
		return sim.Reply{}, err
	}
	wanted(answer, func(o map[string]any) {
		annotations := apply.Object(o, "metadata", "annotations")
		if annotations[prefix+"decision"] == noDecision {
			annotations[prefix+"decision"] = decided[apply.Text(o, "metadata", "name")]
		}
	})
	reply.Body, err = json.Marshal(answer)
	return reply, err
}

// noDecision is the decision of the first record there can be.
const noDecision = `{"counter":0,"time":"2026-11-30T12:00:00Z","attempt":1}`

// planted are bugs that the product does not have. Each is one that somebody
// could make.
var planted = []struct {
	name string
	hook sim.Hook
}{
	{"ready counts as available", hide(func(request map[string]any) {
		each(request, deployment, func(o map[string]any) {
			if status := apply.Object(o, "status"); status["readyReplicas"] != nil {
				status["availableReplicas"] = status["readyReplicas"]
			}
		})
	})},
	{"a status counts whatever it is about", hide(func(request map[string]any) {
		each(request, deployment, func(o map[string]any) {
			status := apply.Object(o, "status")
			status["observedGeneration"] = apply.Field(o, "metadata", "generation")
			status["replicas"] = apply.Field(o, "spec", "replicas")
			status["availableReplicas"] = apply.Field(o, "spec", "replicas")
		})
	})},
	{"the decision clock is dropped", withoutClock},
	{"templates are rendered anew", spoil(func(_, answer map[string]any, _ time.Time) {
		version := apply.Text(answer, "status", "targetVersion")
		wanted(answer, func(o map[string]any) {
			apply.Object(o, "spec", "template", "spec")["hostname"] = "v" + version
		})
	})},
	{"soaks are skipped", hide(func(request map[string]any) {
		spec := apply.Object(request, "parent", "spec")
		delete(spec, "soakSeconds")
		for _, b := range apply.List(spec, "batches") {
			delete(b.(map[string]any), "soakSeconds")
		}
	})},
	{"approvals are skipped", hide(func(request map[string]any) {
		for _, b := range apply.List(request, "parent", "spec", "batches") {
			delete(b.(map[string]any), "approval")
			delete(b.(map[string]any), "approvalTimeoutSeconds")
		}
	})},
	{"failures are forgotten", hide(func(request map[string]any) {
		records(request, func(record map[string]any) {
			if record["stage"] == "RolledBack" {
				record["stage"] = "Rolling"
				delete(record, "failure")
			}
		})
	})},
	{"surge is one more", spoil(func(request, answer map[string]any, _ time.Time) {
		number := apply.Field(answer, "status", "targetRevision")
		wanted(answer, func(o map[string]any) {
			spec := apply.Object(o, "spec")
			n, _ := spec["replicas"].(int64)
			text, _ := json.Marshal(number)
			if apply.Text(o, "metadata", "labels", prefix+"number") == string(text) && n > 0 && apply.Text(answer, "status", "phase") == "Progressing" {
				spec["replicas"] = n + 4
			}
		})
	})},
	{"a Deployment is left out", spoil(func(_, answer map[string]any, now time.Time) {
		if apply.Text(answer, "status", "phase") != "RollingBack" {
			return
		}
		var kept []any
		for _, o := range apply.List(answer, "children") {
			if apply.Text(o, "metadata", "labels", prefix+"track") != "stable" {
				kept = append(kept, o)
			}
		}
		answer["children"] = kept
	})},
	{"nobody is told when to look again", spoil(func(_, answer map[string]any, _ time.Time) {
		delete(answer, "resyncAfterSeconds")
	})},
	{"the status has a clock", spoil(func(_, answer map[string]any, now time.Time) {
		status := apply.Object(answer, "status")
		status["message"] = apply.Text(status, "message") + now.String()
	})},
	{"the record is put back", spoil(func(request, answer map[string]any, _ time.Time) {
		// The record that was observed instead of the next one.
		each(request, configMap, func(old map[string]any) {
			if apply.Text(old, "data", "record.json") == "" {
				return
			}
			for _, o := range apply.List(answer, "children") {
				if apply.Text(o, "metadata", "name") == apply.Text(old, "metadata", "name") {
					o.(map[string]any)["data"] = old["data"]
				}
			}
		})
	})},
	{"snapshots hold the newest spec", spoil(func(request, answer map[string]any, _ time.Time) {
		spec, _ := json.Marshal(apply.Field(request, "parent", "spec"))
		for _, o := range apply.List(answer, "children") {
			if data := apply.Object(o, "data"); data["spec.json"] != nil {
				data["spec.json"] = string(spec)
			}
		}
	})},
	{"zeros are sent", spoil(func(_, answer map[string]any, _ time.Time) {
		wanted(answer, func(o map[string]any) {
			if spec := apply.Object(o, "spec"); spec["minReadySeconds"] == nil {
				spec["minReadySeconds"] = int64(0)
			}
		})
	})},
	{"pods of the old version go before the new ones are there", spoil(func(_, answer map[string]any, _ time.Time) {
		if apply.Text(answer, "status", "phase") != "Progressing" {
			return
		}
		wanted(answer, func(o map[string]any) {
			spec := apply.Object(o, "spec")
			if n, _ := spec["replicas"].(int64); apply.Text(o, "metadata", "labels", prefix+"track") == "stable" && n > 1 {
				spec["replicas"] = n - 1
			}
		})
	})},
}

// TestPlantedBugs: each bug is caught by a walk that the product itself passes.
func TestPlantedBugs(t *testing.T) {
	const seeds = 60
	for _, bug := range planted {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				err := Walk(seed, bug.hook, nil)
				if err == nil || Walk(seed, sim.Product, nil) != nil {
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
