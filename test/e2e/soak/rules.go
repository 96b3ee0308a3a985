package main

import (
	"strings"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The rules, by the names that a breach is reported under.
const (
	ruleFloor    = "available pods"
	ruleTakeDown = "take-down"
	ruleCeiling  = "pods asked for"
	ruleRestart  = "pods restarted"
	ruleTemplate = "template changed"
	ruleDropped  = "Deployment dropped"
	ruleSnapshot = "snapshot first"
	ruleRoute    = "requests"
	ruleSettles  = "comes to rest"
	ruleIdle     = "idle"
	ruleService  = "service"
)

// see takes one change, in the order in which they were stored.
func (b *book) see(c change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.at = b.at(c.at)
	switch o := c.object.(type) {
	case *corev1.Pod:
		b.seePod(c.at, o, c.gone)
	case *appsv1.Deployment:
		b.seeDeployment(c.at, o, c.gone)
	case *greyrelease.GreyRelease:
		b.seeRelease(c.at, o, c.gone)
	case *corev1.ConfigMap:
		b.seeConfigMap(o, c.gone)
	case *route:
		b.seeRoute(c.at, o, c.gone)
	}
}

func (b *book) seePod(now time.Time, o *corev1.Pod, gone bool) {
	name := o.Labels[greyrelease.LabelName]
	if name == "" {
		return
	}
	r := b.release(name)
	was := r.pods[o.UID]
	is := asPod(o, gone)
	if was == nil {
		if gone {
			return
		}
		r.created[is.revision]++
		b.counts.pods++
	} else if r.taken[o.UID] {
		r.held = false
		if was.ready && is.ending {
			r.losses = append(r.losses, now)
		}
	} else {
		b.seeLoss(now, r, was, is)
	}
	if gone {
		delete(r.pods, o.UID)
		delete(r.taken, o.UID)
	} else {
		r.pods[o.UID] = is
	}
	b.checkFloor(now, r, "pod "+o.Name+" changed")
	b.checkCompleted(now, r)
}

func asPod(o *corev1.Pod, gone bool) *pod {
	p := &pod{name: o.Name, revision: o.Labels[greyrelease.LabelRevision], ready: cluster.Ready(o) && !gone, ending: gone || o.DeletionTimestamp != nil}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodReady {
			p.since = c.LastTransitionTime.Time
		}
	}
	return p
}

// seeLoss notes pods that are lost without anybody taking them down: they crash, or their
// ReplicaSet still follows a smaller size. A crash lifts the promise until it is met again.
func (b *book) seeLoss(now time.Time, r *release, was, is *pod) {
	switch {
	case was.ready && !is.ready && !is.ending:
		r.losses, r.held = append(r.losses, now), false
	case !was.ending && is.ending && r.active(is.revision) <= r.asked(is.revision):
		r.losses = append(r.losses, now)
	}
}

// checkFloor: once as many pods were available as promised, they stay. Pods that become
// ready while they are being taken away can't be counted on: only what is asked for makes
// that the promise is met.
func (b *book) checkFloor(now time.Time, r *release, event string) {
	if r.gone || len(r.wishes) == 0 {
		return
	}
	floor := r.wishes.inForce(now).floor
	n := r.available("", now)
	if floor > r.floor {
		r.held = r.secured(now) >= floor // somebody asked for more
	}
	r.floor = floor
	switch {
	case len(r.taken) > 0:
		r.held = false
	case n >= floor:
		r.held = r.held || r.secured(now) >= floor
		if len(r.wishes) == 1 && r.held {
			r.margin = min(r.margin, n-floor)
		}
	case r.held:
		r.held = false // one breach for each time
		if !b.unjudged(now) {
			r.margin = min(r.margin, n-floor)
			b.breach(now, r, ruleFloor, "want at least %d available, got %d after %s; asked for are %v", floor, n, event, r.sizes())
		}
	}
}

// checkCompleted notes that a version is out: all pods that are asked for are its, and
// available.
func (b *book) checkCompleted(now time.Time, r *release) {
	if len(r.wishes) == 0 {
		return
	}
	replicas := r.wishes[len(r.wishes)-1].replicas
	for _, d := range r.children {
		if replicas > 0 && d.asked == replicas && r.asked("") == replicas && r.available(d.revision, now) >= replicas && !r.completed[d.version] {
			r.completed[d.version] = true
			b.counts.completions++
		}
	}
}

func (b *book) seeConfigMap(o *corev1.ConfigMap, gone bool) {
	name := o.Labels[greyrelease.LabelName]
	if name == "" || !strings.Contains(o.Name, "-rev-") {
		return
	}
	r := b.release(name)
	if gone {
		delete(r.snapshots, o.Name)
	} else {
		r.snapshots[o.Name] = true
	}
}

func (b *book) seeRelease(now time.Time, o *greyrelease.GreyRelease, gone bool) {
	r := b.release(o.Name)
	if gone {
		if o.UID == r.uid {
			r.gone = true
		}
		return
	}
	if o.UID != r.uid {
		b.startOver(r, o.UID)
	}
	r.spec = o.Spec
	r.wishes.add(o.Generation, limitsOf(&o.Spec))
	if o.Status != nil {
		b.seeStatus(now, r, o.Status)
	}
	b.checkFloor(now, r, "the release changed")
}

// startOver begins with a release under the name of one that was deleted. What is left of
// the pods is going.
func (b *book) startOver(r *release, uid types.UID) {
	r.uid, r.gone, r.held, r.floor = uid, false, false, 0
	r.wishes, r.status = nil, greyrelease.GreyReleaseStatus{}
	r.children, r.completed = map[types.UID]*deployment{}, map[string]bool{}
	r.created, r.budget = map[string]int{}, map[string]int{}
	r.deleted = map[string]bool{}
	for uid := range r.pods {
		r.taken[uid] = true
	}
}

func (b *book) seeStatus(now time.Time, r *release, st *greyrelease.GreyReleaseStatus) {
	if st.Phase != r.status.Phase && st.Phase == greyrelease.PhaseRolledBack {
		b.counts.rolledBack++
	}
	if st.Phase == greyrelease.PhaseHealthy && st.StableVersion != "" && st.StableVersion != r.markedOut {
		r.markedOut = st.StableVersion
		b.counts.out++
	}
	r.status = *st
	if st.ObservedGeneration > 0 {
		r.wishes.observe(st.ObservedGeneration, now)
	}
}

// seeRoute: weights sum to 100.
func (b *book) seeRoute(now time.Time, o *route, gone bool) {
	name := o.labels[greyrelease.LabelName]
	if name == "" {
		return
	}
	r := b.release(name)
	r.weights = map[string]int{}
	if gone {
		return
	}
	for _, rule := range o.rules {
		sum := 0
		for service, weight := range rule {
			sum += weight
			r.weights[service] = max(weight, r.weights[service])
		}
		if sum != 100 {
			b.breach(now, r, ruleRoute, "want weights that sum to 100, got %v", rule)
		}
	}
}

// tick looks at what only time tells.
func (b *book) tick(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now = b.at(now)
	sure := b.trouble.doubt == 0 && now.After(b.trouble.doubtUntil)
	for _, r := range b.releases {
		if r.unsure {
			if sure {
				r.rebase()
			}
			continue
		}
		b.checkFloor(now, r, "some time")
		b.checkCompleted(now, r)
		for revision, n := range r.created {
			if n > r.budget[revision] {
				b.breach(now, r, ruleRestart, "want no pod made in the place of another: revision %s was raised by %d in all, and %d of its pods were made", revision, r.budget[revision], n)
				r.budget[revision] = n
			}
		}
	}
}
