package greyrelease

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"greyrelease.example.com/hooks/diagnosis"
	"greyrelease.example.com/hooks/rollout"
)

// sortPods gives pods to their revisions, by the hash they are labelled with. Where
// they did not come along, podsKnown is false.
func (o *observation) sortPods(req *Request) {
	if _, o.podsKnown = req.Related[kindPod]; !o.podsKnown {
		return
	}
	o.podsOf = map[string][]diagnosis.Pod{}
	for _, p := range req.AllRelated(kindPod) {
		hash := p.Metadata.Labels[LabelRevision]
		if hash == "" || p.Metadata.Labels[LabelName] != o.name {
			continue
		}
		o.podsOf[hash] = append(o.podsOf[hash], diagnosis.Pod{
			Name: p.Metadata.Name, Created: instant(p.Metadata.CreationTimestamp),
			Deleting: p.Metadata.DeletionTimestamp != "", Status: p.Status,
		})
	}
}

// diagnose looks at the pods of target and stable, and tells the core what keeps them
// from becoming available. Of the target's restarts those count that are of this
// attempt: of pods made since it began, by a clock that may differ from ours.
func (a *answer) diagnose() {
	if !a.podsKnown || a.record == nil {
		return
	}
	a.diagnoses = map[int64]diagnosis.Report{}
	for i := range a.facts.Deployments {
		d := &a.facts.Deployments[i]
		var since time.Time
		switch d.Revision {
		case a.record.Target.Number:
			since = a.record.Started.Add(-clockSkew)
		case a.record.Stable.Number:
		default:
			continue // on its way out
		}
		report := diagnosis.Of(a.podsOf[d.Identity.Hash], since, a.now)
		a.diagnoses[d.Revision] = report
		if report.Worst != nil {
			d.Trouble = report.Worst.Exact()
		}
		if loop := report.Loop; loop != nil {
			text := loop.Exact()
			if report.Looping > 1 {
				text += fmt.Sprintf("; %d of %d pods are in a crash loop", report.Looping, report.Looked)
			}
			d.Crash = &rollout.Crash{Restarts: loop.Restarts, Text: text}
		}
	}
}

// ailing is a revision with a pod that is worth a word at once. What merely takes time
// is not.
type ailing struct {
	reason, words string
}

func (a *answer) ailing(revisions ...rollout.Revision) []ailing {
	var out []ailing
	for _, of := range revisions {
		worst := a.diagnoses[of.Number].Worst
		if worst == nil || worst.Kind == diagnosis.Slow {
			continue
		}
		where := ""
		if r := a.record; of == r.Stable && of != r.Target {
			where = fmt.Sprintf("in %s, the stable one: ", name(of))
		}
		out = append(out, ailing{worst.Reason, where + worst.Again(strings.TrimPrefix(a.lastWords(), where))})
	}
	return out
}

// podNotes say what is wrong with pods. What made the target fail is in the message
// already.
func (a *answer) podNotes(r *rollout.Record) []string {
	var revisions []rollout.Revision
	if r.Failure == nil {
		revisions = append(revisions, r.Target)
	}
	if r.Stable != r.Target {
		revisions = append(revisions, r.Stable)
	}
	var out []string
	for _, found := range a.ailing(revisions...) {
		out = append(out, found.words)
	}
	return out
}

// lastWords are what the condition PodsFailing says. They stay where they still hold.
func (a *answer) lastWords() string {
	for _, c := range a.status.Conditions {
		if c.Type == ConditionPodsFailing {
			return c.Message
		}
	}
	return ""
}

// reasonPattern is what the API server takes as a reason of a condition. With another
// one it would refuse the whole status.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// maxReason is how long it may be there.
const maxReason = 1024

// conditionReason is a reason as a condition may have it.
func conditionReason(reason string) string {
	if len(reason) <= maxReason && reasonPattern.MatchString(reason) {
		return reason
	}
	return "Other"
}

// podsFailing is the condition of that name: what is wrong with pods of the target and,
// for lack of that, of the stable revision, also after a failure. The reason is a word
// of Kubernetes'.
func (a *answer) podsFailing() metav1.Condition {
	if r := a.record; r != nil {
		if found := a.ailing(r.Target, r.Stable); len(found) > 0 {
			return a.condition(ConditionPodsFailing, true, conditionReason(found[0].reason), found[0].words)
		}
	}
	return a.condition(ConditionPodsFailing, false, "NoneFound", "")
}
