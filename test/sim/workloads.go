package sim

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

const (
	controllerManager  = "kube-controller-manager"
	revisionAnnotation = "deployment.kubernetes.io/revision"
	hashLabel          = "pod-template-hash"
)

// workload is what the Deployment controller knows of one Deployment: its sets,
// one for each template it had, oldest first.
type workload struct {
	ref   Ref
	uid   string
	sets  []*replicaSet
	wake  *event // the sync that is planned
	alarm *event // the sync at which its progress deadline is over
}

// onDeployment is the Deployment controller's watch.
func (c *Cluster) onDeployment(e Event) {
	if e.Ref().Kind != Deployments {
		return
	}
	if e.New == nil {
		w := c.workloads[e.Old.UID]
		delete(c.workloads, e.Old.UID)
		w.wake.stop()
		w.alarm.stop()
		c.abandon(w.sets)
		return
	}
	w := c.workloads[e.New.UID]
	if w == nil {
		w = &workload{ref: e.New.Ref, uid: e.New.UID}
		c.workloads[w.uid] = w
	}
	if e.Old == nil || !apply.Equal(e.Old.Tree["spec"], e.New.Tree["spec"]) || e.Old.Deleting() != e.New.Deleting() {
		c.wakeWorkload(w)
	}
}

// abandon has the sets of a deleted Deployment collected.
func (c *Cluster) abandon(sets []*replicaSet) {
	for _, s := range sets {
		s.workload = nil
		c.orphans = append(c.orphans, s)
		c.clock.after(c.lag(c.options.Controllers), func() {
			s.deleted = true
			c.syncSet(s)
		})
	}
}

// wakeWorkload plans a sync of the Deployment unless one is planned.
func (c *Cluster) wakeWorkload(w *workload) {
	if w.wake == nil {
		w.wake = c.clock.after(c.lag(c.options.Controllers), func() {
			w.wake = nil
			c.syncWorkload(w)
		})
	}
}

// syncWorkload does what the Deployment controller does: scale the one set there
// is, or roll from one template to the next, and write the status. As in
// Kubernetes the status takes over the new generation at once and the counts
// only when the sets have written theirs.
func (c *Cluster) syncWorkload(w *workload) {
	d := c.Server.Get(w.ref)
	if d == nil || d.UID != w.uid {
		return
	}
	if !d.Deleting() {
		newest := c.newestSet(w, d)
		desired := d.Int("spec", "replicas")
		before := make(map[*replicaSet]int64, len(w.sets))
		for _, s := range w.sets {
			before[s] = s.replicas
		}
		switch {
		case scaling(w, desired):
			c.scale(w, newest, d)
		case apply.Field(d.Tree, "spec", "paused") == true:
		default:
			c.roll(w, newest, d)
		}
		for _, s := range w.sets {
			minReady := time.Duration(d.Int("spec", "minReadySeconds")) * time.Second
			if s.replicas != before[s] || minReady != s.minReady {
				c.wakeSet(s)
			}
			if minReady > s.minReady {
				c.lastLoss = c.clock.now // what was available is not yet
			}
			s.minReady, s.desired, s.most = minReady, desired, desired+surge(d)
		}
	}
	c.writeWorkloadStatus(w)
}

// newestSet returns the set of the Deployment's template. It adopts a set that
// was orphaned, or makes one.
func (c *Cluster) newestSet(w *workload, d *Object) *replicaSet {
	template := apply.Object(d.Tree, "spec", "template")
	selector := apply.Object(d.Tree, "spec", "selector", "matchLabels")
	c.orphans = slices.DeleteFunc(c.orphans, func(s *replicaSet) bool {
		// One that still names a deleted Deployment is nobody's to adopt.
		if s.deleted || s.uid != "" || s.namespace != d.Namespace || !matches(selector, s.labels) {
			return s.deleted && len(s.pods) == 0
		}
		s.workload, s.uid = w, w.uid
		w.sets = append(w.sets, s)
		return true
	})
	var newest *replicaSet
	last := int64(0)
	for _, s := range w.sets {
		last = max(last, s.revision)
		if newest == nil && apply.Equal(s.template, template) {
			newest = s
		}
	}
	if newest == nil && apply.Field(d.Tree, "spec", "paused") == true && len(w.sets) > 0 {
		return nil
	}
	if newest == nil {
		hash := templateHash(template)
		newest = &replicaSet{
			name: d.Name + "-" + hash, namespace: d.Namespace, uid: w.uid, template: template, created: c.clock.now,
			labels: maps.Clone(apply.Object(template, "metadata", "labels")), workload: w,
			minReady: time.Duration(d.Int("spec", "minReadySeconds")) * time.Second,
		}
		newest.labels[hashLabel] = hash
		w.sets = append(w.sets, newest)
		c.logf("replica set %s created", newest.name)
	}
	if newest.revision < last || newest.revision == 0 {
		newest.revision = last + 1
	}
	if want := strconv.FormatInt(newest.revision, 10); d.Annotation(revisionAnnotation) != want {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{revisionAnnotation: want}}}
		// A lost write is repeated with the next sync.
		if _, err := c.Server.Patch(controllerManager, w.ref, patch, ""); err != nil {
			c.logf("cannot annotate %s: %v", w.ref, err)
		}
	}
	return newest
}

func templateHash(template map[string]any) string {
	text, err := json.Marshal(template)
	if err != nil {
		panic("cannot encode a pod template: " + err.Error())
	}
	h := fnv.New32a()
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

func matches(selector, labels map[string]any) bool {
	if len(selector) == 0 {
		return false
	}
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func surge(d *Object) int64 {
	replicas := d.Int("spec", "replicas")
	rolling := apply.Object(d.Tree, "spec", "strategy", "rollingUpdate")
	if rolling == nil || replicas == 0 {
		return 0
	}
	return scaled(rolling["maxSurge"], replicas, true, "25%")
}

func unavailable(d *Object) int64 {
	replicas := d.Int("spec", "replicas")
	rolling := apply.Object(d.Tree, "spec", "strategy", "rollingUpdate")
	if rolling == nil {
		return replicas
	}
	n := scaled(rolling["maxUnavailable"], replicas, false, "25%")
	if n == 0 && surge(d) == 0 {
		n = 1
	}
	return min(n, replicas)
}

// scaling tells whether replicas changed since the sets were scaled last. Sets
// without pods do not remember.
func scaling(w *workload, desired int64) bool {
	return slices.ContainsFunc(w.sets, func(s *replicaSet) bool { return s.replicas > 0 && s.desired != desired })
}

// scale spreads a change of replicas over the sets that have pods, in proportion
// to their size; what rounding leaves over goes to the largest.
func (c *Cluster) scale(w *workload, newest *replicaSet, d *Object) {
	desired := d.Int("spec", "replicas")
	var running []*replicaSet
	total := int64(0)
	for _, s := range w.sets {
		if s.replicas > 0 {
			running = append(running, s)
			total += s.replicas
		}
	}
	if len(running) == 1 {
		running[0].replicas = desired
		return
	}
	if newest != nil && newest.replicas == desired && newest.status.available == desired {
		for _, s := range running {
			if s != newest {
				s.replicas = 0
			}
		}
		return
	}
	allowed := desired + surge(d)
	if desired == 0 {
		allowed = 0
	}
	slices.SortStableFunc(running, func(a, b *replicaSet) int { return -cmp.Compare(a.replicas, b.replicas) })
	left := allowed - total
	for _, s := range running {
		share := allowed
		if s.most > 0 {
			share = (s.replicas*allowed + s.most/2) / s.most
		}
		add := share - s.replicas
		if left >= 0 {
			add = min(max(add, 0), left)
		} else {
			add = max(min(add, 0), left)
		}
		add = max(add, -s.replicas)
		s.replicas += add
		left -= add
	}
	running[0].replicas = max(running[0].replicas+left, 0)
}

// roll moves the Deployment one step from its old templates to the newest.
func (c *Cluster) roll(w *workload, newest *replicaSet, d *Object) {
	desired := d.Int("spec", "replicas")
	total, available := int64(0), int64(0)
	for _, s := range w.sets {
		total += s.replicas
		available += s.status.available
	}
	if newest.replicas > desired {
		newest.replicas = desired
		return
	}
	if room := desired + surge(d) - total; room > 0 && newest.replicas < desired {
		newest.replicas += min(room, desired-newest.replicas)
		return
	}
	least := desired - unavailable(d)
	spare := total - least - (newest.replicas - newest.status.available)
	for _, s := range w.sets { // what is not available helps nobody
		if s == newest || spare <= 0 {
			continue
		}
		n := min(spare, max(s.replicas-s.status.available, 0))
		s.replicas -= n
		spare -= n
	}
	spare = min(spare, available-least)
	for _, s := range w.sets {
		if s == newest || spare <= 0 || s.replicas == 0 {
			continue
		}
		n := min(spare, s.replicas)
		s.replicas -= n
		spare -= n
		c.lastLoss = c.clock.now // the Deployment's own roll, started by somebody else
	}
	c.forget(w, newest, d)
}

// forget drops sets without pods beyond revisionHistoryLimit, oldest first.
func (c *Cluster) forget(w *workload, newest *replicaSet, d *Object) {
	excess := int64(len(w.sets)) - 1 - d.Int("spec", "revisionHistoryLimit")
	w.sets = slices.DeleteFunc(w.sets, func(s *replicaSet) bool {
		if s == newest || excess <= 0 || s.replicas > 0 || len(s.pods) > 0 {
			return false
		}
		excess--
		return true
	})
}

// Workload is the state of a Deployment's pods as they really are.
type Workload struct {
	Asked                               int64 // spec.replicas
	Pods, Ready, Available, Terminating int64
	Sets                                int // templates with pods
}

// Workload returns the true state of a Deployment, or nil if there is none.
func (c *Cluster) Workload(ref Ref) *Workload {
	d := c.Server.Get(ref)
	if d == nil {
		return nil
	}
	w := c.workloads[d.UID]
	state := &Workload{Asked: d.Int("spec", "replicas")}
	for _, s := range w.sets {
		if len(s.active()) > 0 {
			state.Sets++
		}
		for _, p := range s.pods {
			switch {
			case p.Terminating:
				state.Terminating++
				continue
			case c.available(p):
				state.Available++
			}
			state.Pods++
			if p.Ready {
				state.Ready++
			}
		}
	}
	return state
}

// Pods returns the pods of a Deployment, terminating ones included.
func (c *Cluster) Pods(ref Ref) []*Pod {
	d := c.Server.Get(ref)
	if d == nil {
		return nil
	}
	var list []*Pod
	for _, s := range c.workloads[d.UID].sets {
		list = append(list, s.pods...)
	}
	return list
}

// KillPods deletes up to n pods of a Deployment, as somebody with kubectl would.
func (c *Cluster) KillPods(ref Ref, n int) int {
	killed := 0
	for _, p := range c.Pods(ref) {
		if killed < n && !p.Terminating {
			if p.Ready {
				c.lastLoss = c.clock.now
			}
			c.terminate(p)
			killed++
		}
	}
	return killed
}
