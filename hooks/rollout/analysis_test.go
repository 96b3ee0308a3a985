package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// gauge is what answers for metrics in a model: a value for each instant, lag after
// it was asked for first.
type gauge struct {
	value func(metric string, at time.Time) string // "!why" for a problem
	lag   time.Duration
	asked map[string]time.Time
	made  []string // metric@seconds since noon, in the order of the answers
}

func answers(value string) *gauge {
	return &gauge{value: func(string, time.Time) string { return value }, lag: time.Second, asked: map[string]time.Time{}}
}

func (g *gauge) measure(r *Record, f *Facts, now time.Time) {
	if g == nil {
		return
	}
	f.Measurable = true
	if r == nil {
		return
	}
	for _, s := range r.Analysis {
		key := fmt.Sprintf("%s@%d", s.Metric, s.At.Unix()%3600)
		since, asked := g.asked[key]
		if !asked || now.Before(since.Add(g.lag)) {
			continue
		}
		m := Measurement{Metric: s.Metric, At: s.At, Value: g.value(s.Metric, s.At)}
		if why, ok := strings.CutPrefix(m.Value, "!"); ok {
			m.Value, m.Problem = "", why
		}
		f.Measurements = append(f.Measurements, m)
		if len(g.made) == 0 || g.made[len(g.made)-1] != key {
			g.made = append(g.made, key)
		}
	}
	for _, d := range Outstanding(r, f, now) {
		if key := fmt.Sprintf("%s@%d", d.Metric.Name, d.At.Unix()%3600); g.asked[key].IsZero() {
			g.asked[key] = now
		}
	}
}

// next is when an answer arrives.
func (g *gauge) next(now time.Time) time.Time {
	var next time.Time
	if g == nil {
		return next
	}
	for _, since := range g.asked {
		if at := since.Add(g.lag); at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func number(n float64) *float64 { return &n }

// errorRate is a metric that must be at most 0.05.
func errorRate() Metric {
	return Metric{Name: "errors", Query: "q", Max: number(0.05), IntervalSeconds: 10}
}

// analysed is a model in its second release, whose three batches of 10 pods are
// judged by the metrics.
func analysedModel(t *testing.T, g *gauge, metrics ...Metric) *model {
	t.Helper()
	m := installed(t, 10)
	m.gauge = g
	m.wish.Settings.Batches = []Batch{{Pods: 2}, {Pods: 5}, {Pods: 10}}
	m.wish.Settings.Metrics = metrics
	m.target(2)
	return m
}

// wantReading compares the reading of errorRate: verdict, value or problem, failures
// and inconclusive ones in a row.
func wantReading(t *testing.T, m *model, want string) {
	t.Helper()
	got := "none"
	if s := m.record.reading("errors"); s != nil {
		got = fmt.Sprintf("%s %s %d %d", s.Verdict, s.Value+s.Problem, s.Failures, s.Inconclusive)
	}
	if want != got {
		t.Errorf("want %s, got %s\n%s", want, got, m.dump())
	}
}

func wantFailure(t *testing.T, m *model, reason Reason, message string) {
	t.Helper()
	switch f := m.record.Failure; {
	case f == nil:
		t.Errorf("want %s, got no failure: %s", reason, m.line())
	case f.Reason != reason || f.Message != message:
		t.Errorf("want %s: %s\n got %s: %s", reason, message, f.Reason, f.Message)
	}
}

func TestEachBatchNeedsASuccess(t *testing.T) {
	m := analysedModel(t, answers("0.05"), errorRate())
	m.until(Complete, time.Minute)
	if got := len(m.gauge.made); got != 3 {
		t.Errorf("want one measurement a batch, got %v", m.gauge.made)
	}
	wantReading(t, m, "Success 0.05 0 0")
}

func TestMetricsAreMeasuredThroughTheSoak(t *testing.T) {
	m := analysedModel(t, answers("0"), errorRate())
	m.wish.Settings.Batches = []Batch{{Pods: 5, SoakSeconds: 35}}
	m.until(Complete, 2*time.Minute)
	// At 0, 10, 20 and 30 s of the soak.
	if got := len(m.gauge.made); got != 4 {
		t.Errorf("want 4 measurements, got %v", m.gauge.made)
	}
}

func TestFailureLimit(t *testing.T) {
	for _, row := range []struct {
		limit   int64
		message string
		at      time.Duration
	}{
		{0, "metric errors failed: at 2026-11-30T12:00:01Z it was 0.2, above max 0.05", 0},
		{2, "metric errors failed 3 times, failureLimit is 2: at 2026-11-30T12:00:21Z it was 0.2, above max 0.05", 20 * time.Second},
	} {
		errors := errorRate()
		errors.FailureLimit = row.limit
		m := analysedModel(t, answers("0.2"), errors)
		m.run(row.at)
		if m.record.Stage != Rolling {
			t.Errorf("limit %d: want it to go on at %s, got %s", row.limit, row.at, m.line())
		}
		m.run(5 * time.Second)
		wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
		wantFailure(t, m, ReasonAnalysis, row.message)
		if m.lowest < 10 {
			t.Errorf("want 10 available pods or more, got %d", m.lowest)
		}
		wantReading(t, m, fmt.Sprintf("Failure 0.2 %d 0", row.limit+1))
	}
}

func TestWithoutAutoRollbackAFailureHolds(t *testing.T) {
	m := analysedModel(t, answers("1"), errorRate())
	m.wish.Settings.AutoRollback = false
	m.run(time.Minute)
	wantLine(t, m, "Held target=2.1 stable=1 1:8/8 2:2/2")
}

// No data, NaN, errors: neither good nor bad, for as long as it takes. The progress
// deadline has nothing to do with it.
func TestInconclusiveHoldsForEver(t *testing.T) {
	m := analysedModel(t, answers("!no data"), errorRate())
	m.run(3 * time.Hour)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	if m.record.Clock != nil {
		t.Errorf("want no deadline, got %+v", m.record.Clock)
	}
	for value, want := range map[string]string{
		"NaN": "Inconclusive the result is NaN, as of 0 divided by 0", "zwei": `Inconclusive "zwei" is no number`,
	} {
		m.gauge.value = func(string, time.Time) string { return value }
		m.run(20 * time.Second)
		if got := string(m.record.reading("errors").Verdict) + " " + m.record.reading("errors").Problem; want != got {
			t.Errorf("%s: want %s, got %s", value, want, got)
		}
	}
	m.gauge.value = func(string, time.Time) string { return "0" }
	m.until(Complete, time.Minute)
}

func TestInfinity(t *testing.T) {
	for _, row := range []struct {
		value    string
		min, max *float64
		want     Verdict
	}{
		{"+Inf", nil, number(1), VerdictFailure},
		{"+Inf", number(1), nil, VerdictSuccess},
		{"-Inf", number(1), nil, VerdictFailure},
		{"1e999", nil, number(1), VerdictFailure},
		{"0.05", nil, number(0.05), VerdictSuccess},
		{"0.05", number(0.05), nil, VerdictSuccess},
		{"0.050000001", nil, number(0.05), VerdictFailure},
		{"", nil, number(1), VerdictInconclusive},
	} {
		m := Metric{Min: row.min, Max: row.max}
		if got, _ := m.verdict(&Measurement{Value: row.value}); row.want != got {
			t.Errorf("%s: want %s, got %s", row.value, row.want, got)
		}
	}
}

func TestInconclusiveLimitCountsThoseInARow(t *testing.T) {
	limit := int64(2)
	errors := errorRate()
	errors.InconclusiveLimit = &limit
	m := analysedModel(t, answers(""), errors)
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 100}}
	n := 0
	m.gauge.value = func(_ string, at time.Time) string {
		if n++; at.Before(m.record.Started.Add(60*time.Second)) && at.Unix()%30 == 1 {
			return "0"
		}
		return "!timeout"
	}
	m.run(55 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.run(40 * time.Second)
	wantFailure(t, m, ReasonInconclusive, "metric errors was inconclusive 3 times in a row, inconclusiveLimit is 2: at 2026-11-30T12:01:01Z timeout")
}

func TestEveryMetricMustPass(t *testing.T) {
	latency := Metric{Name: "latency", Query: "l", Max: number(1), IntervalSeconds: 10, InitialDelaySeconds: 30}
	m := analysedModel(t, answers("0"), errorRate(), latency)
	m.run(29 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.run(3 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=2/10 1:5/5 2:5/5")
}

// A success before a pod went missing says nothing about the batch that came after.
func TestASuccessBeforeABreakDoesNotCount(t *testing.T) {
	m := analysedModel(t, answers("0"), errorRate())
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 30}, {Pods: 10}}
	m.run(15 * time.Second)
	m.pods[2][0] = m.now.Add(5 * time.Second)
	m.gauge.value = func(string, time.Time) string { return "!no data" }
	m.run(2 * time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.gauge.value = func(string, time.Time) string { return "0" }
	m.until(Complete, 2*time.Minute)
}

// A batch without a soak waits for its metrics, and its pods come and go meanwhile.
func TestPodsThatComeAndGoBeforeTheFirstMeasurement(t *testing.T) {
	errors := errorRate()
	errors.InitialDelaySeconds = 30
	m := analysedModel(t, answers("0"), errors)
	for range 9 {
		m.run(15 * time.Second)
		m.pods[2][0] = m.now.Add(3 * time.Second)
	}
	m.run(15 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.pods[2][0] = m.now.Add(3 * time.Second)
	m.run(time.Second)
	wantFailure(t, m, ReasonUnstable, "pods of revision 2 went missing 10 times in one soak")
}

func TestFailuresCountAcrossBreaksOfTheSoak(t *testing.T) {
	errors := errorRate()
	errors.FailureLimit = 1
	m := analysedModel(t, answers("1"), errors)
	m.run(5 * time.Second)
	wantReading(t, m, "Failure 1 1 0")
	m.pods[2][0] = m.now.Add(5 * time.Second)
	m.run(8 * time.Second)
	if m.record.Failure == nil || m.record.Failure.Reason != ReasonAnalysis {
		t.Errorf("want a failure, got %s", m.line())
	}
}

func TestAnOutstandingMeasurementIsWaitedFor(t *testing.T) {
	m := analysedModel(t, answers("0"), errorRate())
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 20}, {Pods: 10}}
	m.run(15 * time.Second)
	// The one at 20 s takes 8 s, and says no.
	m.gauge.lag = 8 * time.Second
	m.gauge.value = func(string, time.Time) string { return "1" }
	m.run(10 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.run(5 * time.Second)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
}

// Slower than the interval: each answer is judged, and the soak still ends.
func TestAnswersSlowerThanTheInterval(t *testing.T) {
	errors := errorRate()
	errors.IntervalSeconds = 1
	m := analysedModel(t, answers("0"), errors)
	m.gauge.lag = 4 * time.Second
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 20}, {Pods: 10}}
	m.until(Complete, time.Minute)
}

func TestPausedIsNotMeasured(t *testing.T) {
	m := analysedModel(t, answers("!no data"), errorRate())
	m.run(5 * time.Second)
	m.wish.Settings.Paused = true
	m.run(time.Second)
	before := len(m.gauge.made)
	m.gauge.value = func(string, time.Time) string { return "1" }
	m.run(time.Hour)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	if got := len(m.gauge.made); got != before {
		t.Errorf("want no measurements while paused, got %v", m.gauge.made[before:])
	}
	m.wish.Settings.Paused = false
	m.run(5 * time.Second)
	// What is asked is how it is now, not an hour ago.
	if s := m.record.reading("errors"); m.now.Sub(s.Time) > 10*time.Second {
		t.Errorf("want a measurement of now, %v, got %v", m.now, s.Time)
	}
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
}

// An invalid spec stops advancing; what protects users goes on with the last valid
// settings.
func TestInvalidGoesOnMeasuring(t *testing.T) {
	m := analysedModel(t, answers("0"), errorRate())
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 60}, {Pods: 10}}
	m.run(5 * time.Second)
	m.wish.Valid = false
	m.run(5 * time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.gauge.value = func(string, time.Time) string { return "1" }
	m.run(70 * time.Second)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
}

func TestApprovalIsAskedAfterTheMetricsAndGuardedByThem(t *testing.T) {
	m := analysedModel(t, answers("!no data"), errorRate())
	m.wish.Settings.Batches = []Batch{{Pods: 2, Approval: true, ApprovalTimeoutSeconds: 60}, {Pods: 10}}
	m.run(10 * time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	if v := Describe(m.record, 10, m.facts(), m.now); v.Wait != WaitAnalysis || !m.record.Gate.Approval.IsZero() {
		t.Errorf("want the analysis to be waited for, got %+v", v)
	}
	m.gauge.value = func(string, time.Time) string { return "0" }
	m.run(12 * time.Second)
	if v := Describe(m.record, 10, m.facts(), m.now); v.Wait != WaitApproval {
		t.Errorf("want the approval to be waited for, got %+v", v)
	}
	// From then on once a minute.
	m.gauge.value = func(string, time.Time) string { return "1" }
	m.run(45 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	m.run(15 * time.Second)
	wantLine(t, m, "RolledBack target=2.1 stable=1 1:10/10 2:0/0")
}

func TestPromoteSkipsTheMetricsOfOneGate(t *testing.T) {
	m := analysedModel(t, answers("!no data"), errorRate())
	m.run(5 * time.Second)
	m.wish.Command = m.record.Promote(2)
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=2/10 1:5/5 2:5/5")
	m.run(time.Hour)
	wantLine(t, m, "Rolling target=2.1 stable=1 reached=2/10 1:5/5 2:5/5")
	m.wish.Command = m.record.Promote(0)
	m.until(Complete, time.Minute)
}

func TestEditsOfMetricsInMidRelease(t *testing.T) {
	other := func(change func(*Metric)) []Metric {
		m := errorRate()
		m.FailureLimit = 1
		change(&m)
		return []Metric{m}
	}
	for _, row := range []struct {
		why     string
		metrics []Metric
		want    string
	}{
		{"an interval takes effect on what was measured", other(func(m *Metric) { m.IntervalSeconds = 20 }), "Failure 1 1 0"},
		{"so does a limit", other(func(m *Metric) { m.FailureLimit = 5 }), "Failure 1 1 0"},
		{"another query is another question", other(func(m *Metric) { m.Query = "r" }), "  0 0"},
		{"another maximum as well", other(func(m *Metric) { m.Max = number(2) }), "  0 0"},
		{"and a minimum", other(func(m *Metric) { m.Min = number(0) }), "  0 0"},
		{"without metrics nothing is kept", nil, "none"},
	} {
		m := analysedModel(t, answers("1"), other(func(*Metric) {})...)
		m.run(5 * time.Second)
		wantReading(t, m, "Failure 1 1 0")
		m.wish.Settings.Metrics = row.metrics
		m.sync()
		if t.Run(row.why, func(t *testing.T) { wantReading(t, m, row.want) }); row.metrics != nil {
			wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
		}
	}
}

// An answer to the old question that comes after the edit is not one to the new.
func TestAnOldAnswerIsNoneToANewQuestion(t *testing.T) {
	m := analysedModel(t, answers("1"), errorRate())
	m.gauge.lag = 5 * time.Second
	m.run(4 * time.Second)
	edited := errorRate()
	edited.Query = "another"
	m.wish.Settings.Metrics = []Metric{edited}
	m.gauge.value = func(_ string, at time.Time) string {
		if at.Before(m.record.Started.Add(4 * time.Second)) {
			return "1"
		}
		return "0"
	}
	m.until(Complete, 2*time.Minute)
}

// The answer comes together with the edit, which measures first at the same instant.
func TestAnAnswerThatCrossesAnEdit(t *testing.T) {
	m := analysedModel(t, answers("1"), errorRate())
	m.gauge.lag = time.Hour
	m.run(4 * time.Second)
	s := m.record.reading("errors")
	if s == nil || !s.Time.IsZero() {
		t.Fatalf("want a measurement outstanding, got %+v", s)
	}
	edited := errorRate()
	edited.Query = "another"
	m.wish.Settings.Metrics = []Metric{edited}
	f := m.facts()
	f.Measurable = true
	for at := m.record.Gate.Since; !at.After(m.now.Add(time.Minute)); at = at.Add(time.Second) {
		f.Measurements = append(f.Measurements, Measurement{Metric: "errors", At: at, Value: "1"})
	}
	next, _ := Next(m.record, &m.wish, f, m.now)
	if got := next.reading("errors"); next.Failure != nil || got == nil || got.Verdict != "" {
		t.Errorf("want the edited metric not judged by another one's answer, got %+v and %+v", got, next.Failure)
	}
}

func TestThirdVersionAndRetryMeasureAnew(t *testing.T) {
	errors := errorRate()
	errors.FailureLimit = 1
	m := analysedModel(t, answers("1"), errors)
	m.run(5 * time.Second)
	m.target(3)
	m.run(5 * time.Second)
	wantLine(t, m, "Rolling target=3.1 stable=1 1:8/8 3:2/2")
	wantReading(t, m, "Failure 1 1 0")
	m.until(RolledBack, time.Minute)
	m.gauge.value = func(string, time.Time) string { return "0" }
	m.wish.Command = m.record.Retry()
	m.until(Complete, time.Minute)
	wantLine(t, m, "Complete target=3.2 stable=3 3:10/10")
}

func TestRevertAndRollbackToAreNotMeasured(t *testing.T) {
	m := analysedModel(t, answers("!no data"), errorRate())
	m.run(5 * time.Second)
	m.target(1)
	m.until(Complete, time.Minute)
	m.wish.Settings.Metrics = nil
	m.target(2)
	m.until(Complete, time.Minute)
	m.wish.Settings.Metrics = []Metric{errorRate()}
	m.wish.Pin = m.rev[1]
	m.until(Complete, time.Minute)
	wantLine(t, m, "Complete target=1.3 stable=1 1:10/10")
}

// Without a Prometheus a batch waits for one, and for nothing else.
func TestNothingToMeasureWith(t *testing.T) {
	m := analysedModel(t, nil, errorRate())
	m.run(3 * time.Hour)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	if m.wake.IsZero() || m.wake.Sub(m.now) > time.Minute {
		t.Errorf("want a look within a minute, got %v at %v", m.wake, m.now)
	}
	if v := Describe(m.record, 10, m.facts(), m.now); v.Wait != WaitAnalysis {
		t.Errorf("want the analysis to be waited for, got %+v", v)
	}
	m.gauge = answers("0")
	m.until(Complete, 10*time.Minute)
}

func TestALostRecordMeasuresAgain(t *testing.T) {
	m := analysedModel(t, answers("0"), errorRate())
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 60}, {Pods: 10}}
	m.run(30 * time.Second)
	m.gauge.value = func(string, time.Time) string { return "!no data" }
	m.record = Rebuild(&m.wish, m.facts(), Hints{Stable: m.rev[1]}, m.now)
	m.run(10 * time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
}

// The clock of the service was an hour ahead when instants were written.
func TestInstantsThatLieAhead(t *testing.T) {
	m := analysedModel(t, answers("0"), errorRate())
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 20}, {Pods: 10}}
	m.run(5 * time.Second)
	r := m.record.clone()
	r.Gate.Since, r.Analysis[0].At, r.Analysis[0].Passed = m.now.Add(time.Hour), m.now.Add(time.Hour), m.now.Add(time.Hour)
	m.record = r
	m.gauge.value = func(string, time.Time) string { return "!no data" }
	m.run(time.Minute)
	wantLine(t, m, "Rolling target=2.1 stable=1 1:8/8 2:2/2")
	wantReading(t, m, "Inconclusive no data 0 6")
}

// One measurement is one write of the record, however often somebody looks.
func TestWritesOfMeasurementsAreCounted(t *testing.T) {
	m := analysedModel(t, answers("0"), errorRate(), Metric{Name: "latency", Query: "l", Max: number(1), IntervalSeconds: 10})
	m.wish.Settings.Batches = []Batch{{Pods: 2, SoakSeconds: 1000}, {Pods: 10}}
	m.run(3 * time.Second)
	before := m.record.Counter
	m.run(600 * time.Second)
	if got := m.record.Counter - before; got != 60 {
		t.Errorf("want 60 changes of the record for 60 measurements of two metrics, got %d", got)
	}
}

func TestCheckRefusesAFailureWithinTheLimits(t *testing.T) {
	observed := &Record{Settings: Settings{Metrics: []Metric{errorRate()}}}
	for reason, reading := range map[Reason]Reading{
		ReasonAnalysis:     {Metric: "errors", Verdict: VerdictInconclusive, Failures: 0},
		ReasonInconclusive: {Metric: "errors", Verdict: VerdictInconclusive, Inconclusive: 100},
	} {
		next := observed.clone()
		next.Failure, next.Analysis = &Failure{Reason: reason}, []Reading{reading}
		want := fmt.Sprintf("I13: the release fails by %s within the limits of its metrics", reason)
		if err := checkAnalysis(observed, next); err == nil || err.Error() != want {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}
