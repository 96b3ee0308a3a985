package greyrelease

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"greyrelease.example.com/hooks/rollout"
)

// notMeasurable is said for as long as a spec asks for metrics that nobody can give.
const notMeasurable = "spec.analysis needs a Prometheus, and the service was not told of one: its operator sets --prometheus-url, or remove spec.analysis"

// analysisNotes tell what metrics say of the batch under way, those that have
// passed aside. They hold no instants, so that they change only with the verdict.
func (a *answer) analysisNotes(r *rollout.Record) []string {
	metrics := a.settings().Metrics
	if len(metrics) == 0 {
		return nil
	}
	if !a.facts.Measurable {
		return []string{notMeasurable}
	}
	if r.Stage != rollout.Rolling || r.Gate == nil || r.Gate.Since.IsZero() {
		return nil
	}
	var out []string
	for i := range metrics {
		m := &metrics[i]
		at := slices.IndexFunc(r.Analysis, func(s rollout.Reading) bool { return s.Metric == m.Name })
		if at < 0 {
			continue
		}
		switch s := &r.Analysis[at]; {
		case s.Verdict == rollout.VerdictInconclusive && r.Passed(m.Name):
			out = append(out, fmt.Sprintf("metric %s has passed and is inconclusive now: %s", m.Name, s.Problem))
		case s.Verdict == rollout.VerdictInconclusive:
			out = append(out, fmt.Sprintf("metric %s is inconclusive: %s; the batch waits until it can be measured", m.Name, s.Problem))
		case s.Verdict == rollout.VerdictFailure:
			out = append(out, fmt.Sprintf("metric %s failed (%d of %d allowed): it was %s", m.Name, s.Failures, m.FailureLimit, m.Beside(s.Value)))
		case s.Time.IsZero() && m.InitialDelaySeconds > 0:
			out = append(out, fmt.Sprintf("metric %s is measured from %s on", m.Name, clock(s.At)))
		}
	}
	return out
}

// inconclusive tells whether a batch waits for metrics that cannot be measured, or
// would, and why: the reason of a condition.
func (a *answer) inconclusive() (bool, string) {
	r := a.record
	if !a.facts.Measurable {
		return true, "NotConfigured"
	}
	if r != nil && r.Stage == rollout.Rolling && r.Gate != nil && !r.Gate.Since.IsZero() {
		for _, s := range r.Analysis {
			if s.Verdict == rollout.VerdictInconclusive && !r.Passed(s.Metric) {
				return true, "NoResult"
			}
		}
	}
	return false, "Conclusive"
}

// quietSeconds is how old a value in the status may be while one success follows
// another: a write a minute instead of one for each measurement.
const quietSeconds = 60

// analysis is what the status says of metrics.
func (a *answer) analysis() []MetricStatus {
	r := a.record
	if r == nil {
		return nil
	}
	var out []MetricStatus
	for _, s := range r.Analysis {
		now := MetricStatus{
			Name: s.Metric, Verdict: string(cmp.Or(s.Verdict, "Pending")), Value: s.Value, Problem: s.Problem,
			Time: stamp(s.Time), Failures: s.Failures, Inconclusive: s.Inconclusive,
		}
		out = append(out, a.status.quiet(now, s.Time))
	}
	return out
}

// quiet is what the last status says of a metric, if that is as good.
func (l *lastStatus) quiet(now MetricStatus, at time.Time) MetricStatus {
	var last []MetricStatus
	if now.Verdict != string(rollout.VerdictSuccess) || len(l.Analysis) == 0 || json.Unmarshal(l.Analysis, &last) != nil {
		return now
	}
	for _, was := range last {
		if was.Name != now.Name || was.Time == nil {
			continue
		}
		age := at.Sub(was.Time.Time)
		if was.Verdict == now.Verdict && was.Failures == now.Failures && was.Inconclusive == now.Inconclusive && age >= 0 && age < quietSeconds*time.Second {
			was.Time = stamp(was.Time.UTC())
			return was
		}
	}
	return now
}
