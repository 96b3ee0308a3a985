package sim

import (
	"fmt"
	"slices"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// writeWorkloadStatus writes the status of a Deployment from what its sets have
// written. Counts of zero are left out, as the real controller leaves them out;
// terminatingReplicas alone is always there.
func (c *Cluster) writeWorkloadStatus(w *workload) {
	d := c.Server.Get(w.ref)
	var sum setStatus
	var newest *replicaSet
	for _, s := range w.sets {
		sum.replicas += s.status.replicas
		sum.ready += s.status.ready
		sum.available += s.status.available
		sum.terminating += s.status.terminating
		if s.status.failure != "" {
			sum.failure = s.status.failure
		}
		if apply.Equal(s.template, apply.Object(d.Tree, "spec", "template")) {
			newest = s
		}
	}
	updated := int64(0)
	if newest != nil {
		updated = newest.status.replicas
	}
	status := map[string]any{"observedGeneration": d.Generation(), "terminatingReplicas": sum.terminating}
	for name, n := range map[string]int64{
		"replicas":            sum.replicas,
		"updatedReplicas":     updated,
		"readyReplicas":       sum.ready,
		"availableReplicas":   sum.available,
		"unavailableReplicas": max(d.Int("spec", "replicas"), sum.replicas) - sum.available,
	} {
		if n > 0 {
			status[name] = n
		}
	}
	status["conditions"] = c.workloadConditions(w, d, newest, status, sum.failure)
	if apply.Equal(d.Tree["status"], status) {
		return
	}
	c.logf("deployment %s status replicas=%d ready=%d available=%d generation=%d", d.Name, sum.replicas, sum.ready, sum.available, d.Generation())
	if _, err := c.Server.Update(controllerManager, with(d.Tree, "status", status), "status"); err != nil {
		c.logf("cannot write status of %s: %v", w.ref, err)
		c.wakeWorkload(w)
	}
}

// workloadConditions follows Kubernetes, oddities included: once a template has
// been available as a whole, Progressing stays NewReplicaSetAvailable whatever
// happens to its pods later, also when it is scaled from 0 with a bad image.
func (c *Cluster) workloadConditions(w *workload, d *Object, newest *replicaSet, status map[string]any, failure string) []any {
	conditions := slices.Clone(apply.List(d.Tree, "status", "conditions"))
	replicas := d.Int("spec", "replicas")
	if number(status, "availableReplicas") >= replicas-unavailable(d) {
		conditions = c.condition(conditions, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", false)
	} else {
		conditions = c.condition(conditions, "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", false)
	}
	if failure != "" {
		conditions = c.condition(conditions, "ReplicaFailure", "True", "FailedCreate", failure, false)
	} else {
		conditions = slices.DeleteFunc(conditions, func(v any) bool { return apply.Text(v, "type") == "ReplicaFailure" })
	}
	if newest == nil {
		return conditions
	}
	progressing := find(conditions, "Progressing")
	if number(status, "replicas") == number(status, "updatedReplicas") && apply.Text(progressing, "reason") == "NewReplicaSetAvailable" {
		return conditions
	}
	was := apply.Object(d.Tree, "status")
	moved := number(status, "updatedReplicas") > number(was, "updatedReplicas") ||
		number(status, "readyReplicas") > number(was, "readyReplicas") ||
		number(status, "availableReplicas") > number(was, "availableReplicas") ||
		number(status, "replicas")-number(status, "updatedReplicas") < number(was, "replicas")-number(was, "updatedReplicas")
	complete := number(status, "updatedReplicas") == replicas && number(status, "replicas") == replicas && number(status, "availableReplicas") == replicas
	deadline := time.Duration(d.Int("spec", "progressDeadlineSeconds")) * time.Second
	switch {
	case complete:
		return c.condition(conditions, "Progressing", "True", "NewReplicaSetAvailable", fmt.Sprintf("ReplicaSet %q has successfully progressed.", newest.name), true)
	case progressing == nil:
		conditions = c.condition(conditions, "Progressing", "True", "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", newest.name), true)
	case moved:
		conditions = c.condition(conditions, "Progressing", "True", "ReplicaSetUpdated", fmt.Sprintf("ReplicaSet %q is progressing.", newest.name), true)
	case apply.Text(progressing, "status") == "False":
		return conditions
	}
	since, err := time.Parse(time.RFC3339, apply.Text(find(conditions, "Progressing"), "lastUpdateTime"))
	if err != nil {
		panic("cannot read a condition of our own: " + err.Error())
	}
	if left := since.Add(deadline).Sub(c.clock.now); left >= 0 {
		w.alarm.stop()
		w.alarm = c.clock.after(left+time.Second, func() { c.wakeWorkload(w) })
		return conditions
	}
	return c.condition(conditions, "Progressing", "False", "ProgressDeadlineExceeded", fmt.Sprintf("ReplicaSet %q has timed out progressing.", newest.name), true)
}

// condition sets a condition. lastUpdateTime moves with every update where touch
// is set, otherwise only with a change; lastTransitionTime with a change of status.
func (c *Cluster) condition(list []any, kind, status, reason, message string, touch bool) []any {
	old := find(list, kind)
	if old != nil && old["status"] == status && old["reason"] == reason && old["message"] == message && !touch {
		return list
	}
	now := stamp(c.clock.now)
	next := map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastUpdateTime": now, "lastTransitionTime": now}
	if old != nil && old["status"] == status {
		next["lastTransitionTime"] = old["lastTransitionTime"]
	}
	list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return apply.Text(v, "type") == kind })
	return append(list, next)
}

func find(conditions []any, kind string) map[string]any {
	for _, v := range conditions {
		if apply.Text(v, "type") == kind {
			return v.(map[string]any)
		}
	}
	return nil
}
