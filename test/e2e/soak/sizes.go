package main

import (
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
	least, unknown := min(limits.floor, availableBefore), b.unknown(now, r)
	switch {
	case availableAfter >= least:
	case availableAfter+unknown >= least:
		b.counts.excused++
		r.held = false // until it is met again
	case !b.unjudged(now):
		b.breach(now, r, ruleTakeDown, "want at least %d of %d available pods left, got %d after %s went from %d to %d: %v", limits.floor, availableBefore, availableAfter, is.name, was.asked, is.asked, r.sizes())
	}
	if is.asked == 0 && r.weights[is.name] > 0 && unknown == 0 && !b.unjudged(now) {
		b.breach(now, r, ruleRoute, "want no pods taken from where requests are led to, %s went to 0 and has weight %d", is.name, r.weights[is.name])
	}
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
