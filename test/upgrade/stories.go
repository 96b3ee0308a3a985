package upgrade

import (
	"fmt"
	"strings"

	"greyrelease.example.com/test/scenarios"
	"greyrelease.example.com/test/sim"
)

// stories are told on the simulated cluster to capture what a version leaves
// there. Package scenarios explains the commands.
var stories = []struct{ Name, Script string }{
	{"defaults", `create {replicas: 5}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Healthy within 10m
run 1m
poke 1 5s`},
	{"batches", `create {replicas: 4, batches: [{replicas: 1, approval: true}, {replicas: "50%", soakSeconds: 20}, {replicas: 3, approval: true, approvalTimeoutSeconds: 600}], maxSurge: 1, minReadySeconds: 2}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Paused within 1m
obey promote
run 5s
until phase=Paused currentBatch=2 within 1m
until phase=Paused currentBatch=3 within 1m
edit {paused: true}
run 5s
edit {paused: false}
run 1s
obey promote
until phase=Healthy within 1m
poke 1 5s`},
	{"slow", `create {replicas: 6, canaryWeight: 10, batchSize: 2, maxSurge: 0, maxUnavailable: 1, soakSeconds: 5, progressDeadlineSeconds: 60}
behave 2.0 ready=4s
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Healthy within 10m
poke 1 5s`},
	{"failure", `create {replicas: 3, batches: [{replicas: 1}], progressDeadlineSeconds: 60}
behave 2.0 hang
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=RolledBack within 5m
poke 1 5s
obey retry
run 20s
edit {targetVersion: "3.0"}
until phase=Healthy within 5m`},
	{"held", `create {replicas: 3, batches: [{replicas: 1}], progressDeadlineSeconds: 60, autoRollback: false}
behave 2.0 image
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Degraded within 5m
poke 1 5s
obey abort
until phase=RolledBack within 1m
poke 1 5s`},
	{"first-install-fails", `behave 1.0 crash
create {replicas: 2, progressDeadlineSeconds: 60}
until phase=Degraded within 5m
poke 1 5s`},
	{"third-version", `create {replicas: 4, batches: [{replicas: 2}]}
behave 2.0 ready=1h
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
run 10s
edit {targetVersion: "3.0"}
until phase=Healthy within 5m`},
	{"reverted", `create {replicas: 4, batches: [{replicas: 2, soakSeconds: 600}]}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Paused within 1m
edit {targetVersion: "1.0"}
until phase=Healthy within 5m
poke 1 5s`},
	{"pinned", `create {replicas: 3}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Healthy within 5m
edit {rollbackTo: 1}
until phase=Healthy within 5m
poke 1 5s
edit {rollbackTo: null}
run 10s
edit {targetVersion: "3.0"}
until phase=Healthy within 5m`},
	{"scaled", `create {replicas: 4, batches: [{replicas: "50%", approval: true}]}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Paused within 1m
scale 7
run 10s
scale 2
run 10s
scale 0
run 10s
scale 3
run 10s
obey promote
until phase=Healthy within 5m`},
	{"invalid", `create {replicas: 4, batches: [{replicas: 2, approval: true}]}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Paused within 1m
edit {maxSurge: "300%"}
run 10s
edit {maxSurge: 2}
run 10s
poke 1 5s`},
	{"losses", `create {replicas: 4, batches: [{replicas: 2, approval: true}]}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Paused within 1m
delete status
run 5s
delete record
run 20s
delete snapshot 1
run 20s
poke 1 5s`},
	{"restarted-by-hand", `create {replicas: 4, batches: [{replicas: 2, approval: true}]}
until phase=Healthy within 1m
rollout-restart 1
run 30s
edit {targetVersion: "2.0"}
until phase=Paused within 1m
poke 1 5s`},
	{"many-revisions", `create {replicas: 1, revisionHistoryLimit: 1}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Healthy targetRevision=2 within 1m
edit {targetVersion: "3.0"}
until phase=Healthy targetRevision=3 within 1m
edit {targetVersion: "4.0"}
until phase=Healthy targetRevision=4 within 1m
poke 1 5s`},
	{"large", `create
  replicas: 2
  batches: [{replicas: 1, approval: true}]
  template: {metadata: {annotations: {filler: "` + strings.Repeat("0123456789", 5300) + `"}}, spec: {containers: [{name: web, image: nginx}]}}
until phase=Healthy within 1m
edit {targetVersion: "2.0"}
until phase=Paused within 1m
run 10s
poke 1 5s`},
}

// tell plays a story and returns the answered requests of the release, the first
// one of each kind.
func tell(name, script string, mode sim.Mode) ([]moment, error) {
	story, err := scenarios.Parse("# " + name + "\n\n" + script)
	if err != nil {
		return nil, fmt.Errorf("story %s: %w", name, err)
	}
	stage := scenarios.NewStage(mode, 0)
	var moments []moment
	seen := map[string]bool{}
	stage.Checks = append(stage.Checks, sim.Check{Name: "capture", Synced: func(_ *sim.Cluster, s *sim.Sync) error {
		if s.Reply.Status != 200 {
			return nil
		}
		then, err := outcomeOf(s.Body, s.Reply.Body)
		if err != nil {
			return err
		}
		if kind := kindOf(then, s); !seen[kind] {
			seen[kind] = true
			moments = append(moments, moment{Now: s.At, ServerSide: mode == sim.ServerSide, Request: s.Body, Then: then})
		}
		return nil
	}})
	if _, err := stage.Play(story); err != nil {
		return nil, fmt.Errorf("story %s: %w", name, err)
	}
	return moments, nil
}

// kindOf tells requests apart: where the release stands, and what is written.
func kindOf(then outcome, s *sim.Sync) string {
	var kind strings.Builder
	fmt.Fprintf(&kind, "%+v", then.Status)
	if then.Record != nil {
		fmt.Fprintf(&kind, " attempt %d pin %d left %d", then.Record.Attempt, then.Record.Pin, then.Record.Left)
	}
	for _, w := range s.Writes {
		if w.Old != w.New && w.Ref.Kind != sim.Releases {
			fmt.Fprintf(&kind, " %s %s", w.Verb, w.Ref.Kind.Name)
		}
	}
	return kind.String()
}
