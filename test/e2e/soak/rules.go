package main

import (
	"slices"
	"strings"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		r.lost, r.held = now, false
	case !was.ending && is.ending && r.active(is.revision) <= r.asked(is.revision):
		r.lost = now
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

func (b *book) seeDeployment(now time.Time, o *appsv1.Deployment, gone bool) {
	name := o.Labels[greyrelease.LabelName]
	owner := metav1.GetControllerOf(o)
	if name == "" || owner == nil {
		return
	}
	r := b.release(name)
	was := r.children[o.UID]
	if was == nil && (gone || owner.UID != r.uid) {
		return // an earlier release's, on its way out
	}
	is := asDeployment(o)
	b.counts.deployments++
	if was == nil {
		b.checkSnapshot(now, r, o, is)
		was = &deployment{name: is.name, revision: is.revision, version: is.version, template: is.template}
	}
	if is.template != was.template {
		b.breach(now, r, ruleTemplate, "want the template of %s as it was, %s, got %s", is.name, was.template, is.template)
	}
	if gone {
		is.asked = 0
	}
	b.checkSizes(now, r, o.UID, was, is)
	if gone {
		b.loseDeployment(now, r, o.UID, was)
	}
	b.checkCompleted(now, r)
}

func asDeployment(o *appsv1.Deployment) *deployment {
	d := &deployment{
		name: o.Name, revision: o.Labels[greyrelease.LabelRevision], version: o.Annotations[greyrelease.AnnotationVersion],
		asked: 1, template: o.Spec.Template.String(),
	}
	if o.Spec.Replicas != nil {
		d.asked = int(*o.Spec.Replicas)
	}
	return d
}

// checkSizes: a raise keeps to the ceiling, and a take-down leaves the floor or what there
// was.
func (b *book) checkSizes(now time.Time, r *release, uid types.UID, was, is *deployment) {
	before, availableBefore := r.asked(""), r.secured(now)
	r.children[uid] = is
	after, availableAfter := r.asked(""), r.secured(now)
	if is.asked == was.asked {
		return
	}
	b.counts.judged++
	limits := r.wishes.inForce(now)
	if is.asked > was.asked {
		r.budget[is.revision] += is.asked - was.asked
		if after > max(limits.ceiling, before) && !b.unjudged(now) {
			b.breach(now, r, ruleCeiling, "want at most %d pods asked for, got %d after %s was raised from %d to %d: %v", limits.ceiling, after, is.name, was.asked, is.asked, r.sizes())
		}
		return
	}
	if r.deleted[is.name] || r.gone {
		return
	}
	if after := availableAfter; after < min(limits.floor, availableBefore) && !b.excused(now, r) {
		b.breach(now, r, ruleTakeDown, "want at least %d of %d available pods left, got %d after %s went from %d to %d: %v", limits.floor, availableBefore, after, is.name, was.asked, is.asked, r.sizes())
	}
	if is.asked == 0 && r.weights[is.name] > 0 && !b.excused(now, r) {
		b.breach(now, r, ruleRoute, "want no pods taken from where requests are led to, %s went to 0 and has weight %d", is.name, r.weights[is.name])
	}
}

// excused tells whether pods were lost of which an answer may not have known when it took
// others down, or a hand is at them.
func (b *book) excused(now time.Time, r *release) bool {
	if len(r.taken) == 0 && r.lost.Before(b.fresh(now)) {
		return b.unjudged(now)
	}
	b.counts.excused++
	return true
}

// secured counts the available pods that are asked for.
func (r *release) secured(now time.Time) int {
	n := 0
	for _, d := range r.children {
		n += min(d.asked, r.available(d.revision, now))
	}
	return n
}

// loseDeployment: one that had pods goes by a hand, or with its release.
func (b *book) loseDeployment(now time.Time, r *release, uid types.UID, was *deployment) {
	delete(r.children, uid)
	if r.deleted[was.name] {
		for uid, p := range r.pods {
			if p.revision == was.revision {
				r.taken[uid] = true
			}
		}
		delete(r.deleted, was.name)
		return
	}
	if was.asked > 0 && !r.gone && !b.unjudged(now) {
		b.breach(now, r, ruleDropped, "want no Deployment deleted that has pods, %s had %d", was.name, was.asked)
	}
}

// checkSnapshot: a Deployment is made when what it runs is kept.
func (b *book) checkSnapshot(now time.Time, r *release, o *appsv1.Deployment, d *deployment) {
	name := r.name + "-rev-" + o.Labels[greyrelease.LabelNumber]
	if !r.snapshots[name] && !r.deleted[name] {
		b.breach(now, r, ruleSnapshot, "want %s before %s is made", name, d.name)
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

// reset takes what there is after a time in which changes may have been missed. What is
// promised of numbers holds between two looks as well.
func (b *book) reset(all []change, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.gaps++
	at = b.at(at)
	before := map[string]*release{}
	for name, r := range b.releases {
		copied := *r
		before[name] = &copied
		r.children, r.pods, r.snapshots, r.weights = map[types.UID]*deployment{}, map[types.UID]*pod{}, map[string]bool{}, map[string]int{}
	}
	var releases []string
	for _, c := range all { // first, for the owners of the rest
		if o, ok := c.object.(*greyrelease.GreyRelease); ok {
			r := b.release(o.Name)
			releases = append(releases, o.Name)
			if o.UID != r.uid {
				b.startOver(r, o.UID)
			}
			r.spec, r.status = o.Spec, greyrelease.GreyReleaseStatus{}
			r.wishes.add(o.Generation, limitsOf(&o.Spec))
			if o.Status != nil {
				r.status = *o.Status
				r.wishes.observe(o.Status.ObservedGeneration, at)
			}
		}
	}
	for _, c := range all {
		b.put(at, c.object, before)
	}
	for name, r := range b.releases {
		r.gone = !slices.Contains(releases, name)
		for uid := range r.taken {
			if r.pods[uid] == nil {
				delete(r.taken, uid)
			}
		}
		if was := before[name]; was != nil && !r.gone && was.uid == r.uid {
			b.checkGap(at, was, r)
		}
		r.rebase()
		r.unsure = true // pods were listed a moment before Deployments
		r.held = false
		b.checkFloor(at, r, "a gap")
		b.checkCompleted(at, r)
	}
	b.trouble.doubtUntil = later(b.trouble.doubtUntil, at.Add(10*time.Second))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// put takes an object as it is, without asking how it came to be.
func (b *book) put(now time.Time, object any, before map[string]*release) {
	switch o := object.(type) {
	case *corev1.Pod:
		if name := o.Labels[greyrelease.LabelName]; name != "" {
			b.release(name).pods[o.UID] = asPod(o, false)
		}
	case *corev1.ConfigMap:
		b.seeConfigMap(o, false)
	case *route:
		b.seeRoute(now, o, false)
	case *appsv1.Deployment:
		name, owner := o.Labels[greyrelease.LabelName], metav1.GetControllerOf(o)
		if name == "" || owner == nil || owner.UID != b.release(name).uid {
			return
		}
		r, d := b.release(name), asDeployment(o)
		if was := before[name]; was != nil && was.children[o.UID] != nil && was.children[o.UID].template != d.template {
			b.breach(now, r, ruleTemplate, "want the template of %s as it was, %s, got %s", d.name, was.children[o.UID].template, d.template)
		}
		r.children[o.UID] = d
	}
}

// checkGap compares what there was before a gap with what there is after it.
func (b *book) checkGap(now time.Time, was, is *release) {
	limits := is.wishes.inForce(now)
	if n := is.asked(""); n > max(limits.ceiling, was.asked("")) && !b.unjudged(now) {
		b.breach(now, is, ruleCeiling, "want at most %d pods asked for, got %v after a gap", limits.ceiling, is.sizes())
	}
	crashed := false
	for uid, p := range is.pods {
		old := was.pods[uid]
		crashed = crashed || old != nil && old.ready && !p.ready && !p.ending
	}
	if crashed {
		is.lost = now
		return
	}
	if n := is.available("", now); was.held && len(is.taken) == 0 && len(is.deleted) == 0 && n < limits.floor && !b.unjudged(now) {
		b.breach(now, is, ruleFloor, "want at least %d available, got %d after a gap; asked for are %v", limits.floor, n, is.sizes())
	}
}
