package main

import (
	"slices"
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
		is.losses = append(is.losses, now)
		return
	}
	if n := is.available("", now); was.held && len(is.taken) == 0 && len(is.deleted) == 0 && n < limits.floor && !b.unjudged(now) {
		b.breach(now, is, ruleFloor, "want at least %d available, got %d after a gap; asked for are %v", limits.floor, n, is.sizes())
	}
}
