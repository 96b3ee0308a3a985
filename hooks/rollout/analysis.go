package rollout

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Metric is a question that a batch has to answer well before the next one begins.
type Metric struct {
	Name string `json:"name"`
	// Query is the question as the spec has it; another text is another question.
	Query string `json:"query"`
	// Min and Max are the least and the most that a good answer may be; at least
	// one of them is set.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// IntervalSeconds is from one measurement to the next.
	IntervalSeconds int64 `json:"intervalSeconds"`
	// InitialDelaySeconds is from the moment the batch is full to the first one.
	InitialDelaySeconds int64 `json:"initialDelaySeconds,omitempty"`
	// FailureLimit is how many may fail in one batch.
	FailureLimit int64 `json:"failureLimit,omitempty"`
	// InconclusiveLimit is how many in a row may tell nothing; nil for any number.
	InconclusiveLimit *int64 `json:"inconclusiveLimit,omitempty"`
}

// Measurement is what came of asking for a metric at an instant.
type Measurement struct {
	Metric string
	At     time.Time
	// Value is a number as Prometheus writes it, as "0.25" or "+Inf". With a problem
	// there is none.
	Value string
	// Problem is why there is no value.
	Problem string
}

// Due is a measurement that is to be made.
type Due struct {
	Metric Metric
	At     time.Time
}

// Verdict is what a measurement says.
type Verdict string

const (
	// VerdictSuccess: the value is within min and max.
	VerdictSuccess Verdict = "Success"
	// VerdictFailure: it is not.
	VerdictFailure Verdict = "Failure"
	// VerdictInconclusive: there is no value, so it says neither.
	VerdictInconclusive Verdict = "Inconclusive"
)

// Reading is the state of one metric in the batch under way. It is kept after the
// batch for people to read.
type Reading struct {
	Metric string `json:"metric"`
	// At is the instant of the next measurement. It stands here before anybody asks
	// for it, so that everybody asks for the same.
	At time.Time `json:"at"`
	// Passed is the instant of the last success.
	Passed time.Time `json:"passed,omitzero"`
	// Time, Verdict and Value, or Problem, are those of the last measurement.
	Time    time.Time `json:"time,omitzero"`
	Verdict Verdict   `json:"verdict,omitempty"`
	Value   string    `json:"value,omitempty"`
	Problem string    `json:"problem,omitempty"`
	// Failures counts those of the batch, Inconclusive those in a row.
	Failures     int64 `json:"failures,omitempty"`
	Inconclusive int64 `json:"inconclusive,omitempty"`
}

const (
	// staleSeconds is how long a measurement may be outstanding. Then the release was
	// paused, or the service or Metacontroller away, and the batch is judged by how it
	// is now: an earlier success counts no more.
	staleSeconds = 60
	// soonSeconds is how long an answer is looked for each second; then every other one.
	soonSeconds = 5
	// unmeasuredSeconds is how often a release looks whether there is a Prometheus by now.
	unmeasuredSeconds = 60
	// waitingSeconds is the shortest interval of a metric that has passed, when the soak
	// is over.
	waitingSeconds = 60
	// maxValue bounds a value and a problem that are kept, in bytes.
	maxValue   = 40
	maxProblem = 200
)

// Outstanding lists the measurements that r asks for at now and that are not among
// the facts. Only a record that was observed asks: the instants are durable then.
func Outstanding(r *Record, f *Facts, now time.Time) []Due {
	if r == nil || !f.Measurable || !r.measuring() {
		return nil
	}
	var out []Due
	for _, m := range r.Settings.Metrics {
		s := r.reading(m.Name)
		if s == nil || s.At.After(now) || f.measured(m.Name, s.At) != nil || stale(s.At, now) {
			continue
		}
		out = append(out, Due{Metric: m, At: s.At})
	}
	return out
}

// measuring tells whether a batch is full and its metrics are looked at.
func (r *Record) measuring() bool {
	return r.Stage == Rolling && r.Gate != nil && !r.Gate.Since.IsZero() && !r.Settings.Paused
}

func stale(at, now time.Time) bool { return now.Sub(at) > staleSeconds*time.Second }

func (r *Record) reading(metric string) *Reading {
	for i := range r.Analysis {
		if r.Analysis[i].Metric == metric {
			return &r.Analysis[i]
		}
	}
	return nil
}

func (f *Facts) measured(metric string, at time.Time) *Measurement {
	for i := range f.Measurements {
		if m := &f.Measurements[i]; m.Metric == metric && m.At.Equal(at) {
			return m
		}
	}
	return nil
}

// adoptMetrics forgets the readings of metrics that are gone or ask another question
// by now. Limits and intervals take effect on what was measured before.
func (t *transition) adoptMetrics(before []Metric) {
	var kept []Reading
	for _, s := range t.r.Analysis {
		was, is := find(before, s.Metric), find(t.r.Settings.Metrics, s.Metric)
		if was != nil && is != nil && was.asksAs(is) {
			kept = append(kept, s)
		}
	}
	t.r.Analysis = kept
}

func find(metrics []Metric, name string) *Metric {
	for i := range metrics {
		if metrics[i].Name == name {
			return &metrics[i]
		}
	}
	return nil
}

// asksAs tells whether two metrics take the same values for good.
func (m *Metric) asksAs(other *Metric) bool {
	return m.Query == other.Query && same(m.Min, other.Min) && same(m.Max, other.Max)
}

func same(a, b *float64) bool { return a == b || a != nil && b != nil && *a == *b }

// measure judges what was measured since the batch is full, and fails the release
// when a limit is passed.
func (t *transition) measure() {
	if len(t.r.Settings.Metrics) == 0 || !t.r.measuring() {
		return
	}
	readings := make([]Reading, 0, len(t.r.Settings.Metrics))
	for _, m := range t.r.Settings.Metrics {
		readings = append(readings, t.schedule(m))
	}
	t.r.Analysis = readings
	if !t.facts.Measurable {
		t.lookAt(t.now.Add(unmeasuredSeconds * time.Second))
		return
	}
	for i, m := range t.r.Settings.Metrics {
		s := &readings[i]
		if got := t.facts.measured(m.Name, s.At); got != nil && t.asked(s) {
			s.take(m, got, t.pace(m), t.now)
			if t.judge(m, s); t.r.Failure != nil {
				return
			}
		} else if stale(s.At, t.now) {
			s.At, s.Passed = t.now, time.Time{}
		}
		t.lookAt(t.nextLook(s.At))
	}
}

// pace is the time to the next measurement of a metric: its interval, and where only
// an approval is waited for, which may take days, a minute at least.
func (t *transition) pace(m Metric) time.Duration {
	seconds := max(1, m.IntervalSeconds)
	if g := t.r.Gate; t.r.Passed(m.Name) && !t.now.Before(due(g.Since, t.step.SoakSeconds)) {
		seconds = max(seconds, waitingSeconds)
	}
	return time.Duration(seconds) * time.Second
}

// schedule is the reading of a metric with its next instant within the batch: never
// before the delay is over, never far ahead because a clock was wrong.
func (t *transition) schedule(m Metric) Reading {
	first := t.r.Gate.Since.Add(time.Duration(m.InitialDelaySeconds) * time.Second)
	s := Reading{Metric: m.Name, At: t.now}
	if kept := t.r.reading(m.Name); kept != nil {
		s = *kept
	}
	if last := t.now.Add(time.Duration(max(m.IntervalSeconds, m.InitialDelaySeconds)+60) * time.Second); s.At.After(last) {
		s.At = t.now
	}
	if s.Passed.After(t.now.Add(time.Minute)) {
		s.Passed = time.Time{}
	}
	if s.Passed.Before(t.r.Gate.Since) && !s.Passed.IsZero() {
		// It was full before, and is again: another first measurement.
		s.At, s.Passed = first, time.Time{}
	}
	if s.At.Before(first) {
		s.At = first
	}
	return s
}

// asked tells whether the observed record asked for this measurement: what only
// happens to be there may be the answer to an older question.
func (t *transition) asked(s *Reading) bool {
	if t.observed == nil || !t.observed.measuring() || t.r.reading(s.Metric) == nil {
		return false
	}
	was, is := find(t.observed.Settings.Metrics, s.Metric), find(t.r.Settings.Metrics, s.Metric)
	before := t.observed.reading(s.Metric)
	return was != nil && is != nil && was.asksAs(is) && before != nil && before.At.Equal(s.At)
}

// take puts a measurement into a reading and plans the next. After a time in which
// nobody measured the next instant is the first of the interval that is not past:
// at 0 with an interval of 10, judged at 34, it is 40.
func (s *Reading) take(m Metric, got *Measurement, interval time.Duration, now time.Time) {
	s.Time, s.Value, s.Problem = got.At, got.Value, got.Problem
	s.Verdict, s.Problem = m.verdict(got)
	if s.Verdict == VerdictInconclusive {
		s.Value = ""
	}
	s.Value, s.Problem = s.Value[:min(len(s.Value), maxValue)], clip(s.Problem, maxProblem)
	switch s.Verdict {
	case VerdictSuccess:
		s.Passed, s.Inconclusive = got.At, 0
	case VerdictFailure:
		s.Failures, s.Inconclusive = s.Failures+1, 0
	case VerdictInconclusive:
		s.Inconclusive++
	}
	s.At = got.At.Add(interval)
	if late := now.Sub(s.At); late > 0 {
		s.At = s.At.Add(late + interval - 1 - (late+interval-1)%interval)
	}
}

// verdict judges a measurement, and says why it tells nothing.
func (m *Metric) verdict(got *Measurement) (Verdict, string) {
	if got.Problem != "" {
		return VerdictInconclusive, got.Problem
	}
	value, err := strconv.ParseFloat(got.Value, 64)
	switch {
	case err != nil && !math.IsInf(value, 0):
		return VerdictInconclusive, fmt.Sprintf("%.40q is no number", got.Value)
	case math.IsNaN(value):
		return VerdictInconclusive, "the result is NaN, as of 0 divided by 0"
	case m.Min != nil && value < *m.Min, m.Max != nil && value > *m.Max:
		return VerdictFailure, ""
	}
	return VerdictSuccess, ""
}

// judge fails the release when a reading is beyond a limit of its metric.
func (t *transition) judge(m Metric, s *Reading) {
	switch {
	case s.Failures > m.FailureLimit:
		text := fmt.Sprintf("metric %s failed", m.Name)
		if m.FailureLimit > 0 {
			text += fmt.Sprintf(" %d times, failureLimit is %d", s.Failures, m.FailureLimit)
		}
		t.fail(ReasonAnalysis, fmt.Sprintf("%s: at %s it was %s", text, s.Time.UTC().Format(time.RFC3339), m.Beside(s.Value)))
	case m.InconclusiveLimit != nil && s.Inconclusive > *m.InconclusiveLimit:
		t.fail(ReasonInconclusive, fmt.Sprintf("metric %s was inconclusive %d times in a row, inconclusiveLimit is %d: at %s %s",
			m.Name, s.Inconclusive, *m.InconclusiveLimit, s.Time.UTC().Format(time.RFC3339), s.Problem))
	}
}

// Beside writes a value beside the limit that it breaks: "0.12, above max 0.05".
func (m *Metric) Beside(value string) string {
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err == nil && m.Min != nil && n < *m.Min:
		return fmt.Sprintf("%s, below min %s", value, strconv.FormatFloat(*m.Min, 'g', -1, 64))
	case err == nil && m.Max != nil && n > *m.Max:
		return fmt.Sprintf("%s, above max %s", value, strconv.FormatFloat(*m.Max, 'g', -1, 64))
	}
	return value
}

// Passed tells whether a metric has had a success since the batch is full.
func (r *Record) Passed(metric string) bool {
	s := r.reading(metric)
	return s != nil && r.Gate != nil && !r.Gate.Since.IsZero() && !s.Passed.IsZero() && !s.Passed.Before(r.Gate.Since)
}

// analysed tells whether the metrics of a batch have passed: each with a success
// since the batch is full, and none outstanding that was due within the soak.
func (r *Record) analysed(step Step) bool {
	for _, m := range r.Settings.Metrics {
		s := r.reading(m.Name)
		if !r.Passed(m.Name) || !s.At.After(r.Gate.Since.Add(time.Duration(step.SoakSeconds)*time.Second)) {
			return false
		}
	}
	return true
}

// nextLook is when to look again for a measurement at an instant.
func (t *transition) nextLook(at time.Time) time.Time {
	switch {
	case at.After(t.now):
		return at
	case t.now.Sub(at) < soonSeconds*time.Second:
		return t.now.Add(time.Second)
	}
	return t.now.Add(2 * time.Second)
}

// lookAt wakes up at an instant, if not before.
func (t *transition) lookAt(at time.Time) {
	if t.wake.IsZero() || at.Before(t.wake) {
		t.wake = at
	}
}

// clip cuts a text to so many bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return kept(text[:most-len("...")]) + "..."
}

func validateReadings(readings []Reading) error {
	for _, s := range readings {
		if s.Metric == "" || s.Failures < 0 || s.Inconclusive < 0 {
			return fmt.Errorf("the analysis of metric %q is not one of ours", s.Metric)
		}
	}
	return nil
}

// checkAnalysis is I13 for metrics: what cannot be measured never sends a version
// back, unless the spec set a limit to that, and a failure is beyond its limit.
func checkAnalysis(observed, next *Record) error {
	if next.Failure == nil || observed.Failure != nil {
		return nil
	}
	reason := next.Failure.Reason
	if reason != ReasonAnalysis && reason != ReasonInconclusive {
		return nil
	}
	for _, m := range next.Settings.Metrics {
		s := next.reading(m.Name)
		if s == nil {
			continue
		}
		if reason == ReasonAnalysis && s.Verdict == VerdictFailure && s.Failures > m.FailureLimit ||
			reason == ReasonInconclusive && m.InconclusiveLimit != nil && s.Inconclusive > *m.InconclusiveLimit {
			return nil
		}
	}
	return fmt.Errorf("I13: the release fails by %s within the limits of its metrics", reason)
}
