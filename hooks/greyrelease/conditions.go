package greyrelease

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"greyrelease.example.com/hooks/rollout"
)

// conditions are Ready, Reconciling and Stalled as kstatus defines them, so that
// "kubectl wait --for=condition=Ready", Flux and Argo CD mean the same by them,
// and Paused and RolledBack. Where pods are looked at, PodsFailing says what is wrong
// with them.
//
// Metacontroller stamps status.observedGeneration as soon as we answer, so the
// first answer after an edit must say Reconciling already.
func (a *answer) conditions(s *GreyReleaseStatus, v rollout.View) []metav1.Condition {
	ready := a.ready()
	stalled := s.Phase == PhaseInvalid || s.Phase == PhaseDegraded || s.Phase == PhaseRolledBack
	reason := string(s.Phase)
	switch {
	case ready:
		reason = "Available"
	case s.Phase == PhaseHealthy:
		reason = "PodsMissing"
	}
	conditions := []metav1.Condition{
		a.condition(ConditionReady, ready, reason, s.Message),
		a.condition(ConditionReconciling, !ready && !stalled, reason, ""),
		a.condition(ConditionStalled, stalled, reason, ""),
		a.condition(ConditionPaused, s.Phase == PhasePaused, pauseReason(s.Phase, v.Wait), ""),
		a.condition(ConditionRolledBack, s.Phase == PhaseRolledBack, a.rollbackReason(s.Phase), ""),
	}
	if a.podsKnown {
		conditions = append(conditions, a.podsFailing())
	}
	if len(a.settings().Metrics) > 0 {
		is, reason := a.inconclusive()
		conditions = append(conditions, a.condition(ConditionAnalysisInconclusive, is, reason, ""))
	}
	return conditions
}

func pauseReason(p Phase, w rollout.Wait) string {
	if p != PhasePaused {
		return "NotPaused"
	}
	switch w {
	case rollout.WaitPaused:
		return "SpecPaused"
	case rollout.WaitZero:
		return "ScaledToZero"
	case rollout.WaitSoak:
		return "Soak"
	case rollout.WaitAnalysis:
		return "Analysis"
	case rollout.WaitApproval:
		return "Approval"
	case rollout.WaitNone:
	}
	return "NotPaused"
}

func (a *answer) rollbackReason(p Phase) string {
	if r := a.shown(); p == PhaseRolledBack && r.Failure != nil {
		return string(r.Failure.Reason)
	}
	return "NotRolledBack"
}

// condition is one condition; its time is kept for as long as its status is.
func (a *answer) condition(kind string, is bool, reason, message string) metav1.Condition {
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.Time{Time: a.now},
	}
	if is {
		c.Status = metav1.ConditionTrue
	}
	for _, last := range a.status.Conditions {
		if last.Type == kind && last.Status == string(c.Status) {
			if at, err := time.Parse(time.RFC3339, last.LastTransitionTime); err == nil && !at.After(a.now.Add(staleness)) {
				c.LastTransitionTime = metav1.Time{Time: at.UTC()}
			}
		}
	}
	return c
}
