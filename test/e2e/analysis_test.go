package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/prometheus"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metrics is the Prometheus that the service was told of. It starts with the first story
// that needs it.
var (
	metrics      *prometheus.Server
	metricsError error
	metricsOnce  sync.Once
	promAddress  string // where the service looks for it
)

// freeAddress is one at which nobody listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot find a port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func stopMetrics() {
	if metrics != nil {
		metrics.Stop()
	}
}

// measured is installed, with a Prometheus and with one metric of these fields, whose
// query is to hold %s where its labels go.
func measured(t *testing.T, query string, metric, more object) *story {
	t.Helper()
	t.Parallel()
	return measuredSerially(t, query, metric, more)
}

func measuredSerially(t *testing.T, query string, metric, more object) *story {
	t.Helper()
	metricsOnce.Do(func() {
		metrics, metricsError = prometheus.Prepare(context.Background(), plane.Dir, promAddress, os.Stderr)
		if metricsError == nil {
			metricsError = metrics.Open()
		}
		if metricsError == nil {
			metricsError = metrics.Start(context.Background())
		}
	})
	s := begin(t, "web")
	s.must(metricsError)
	fields := object{"analysis": object{"metrics": []any{one(query, metric)}}}
	for name, value := range more {
		fields[name] = value
	}
	s.install(4, fields)
	return s
}

// one is a metric that is measured each second.
func one(query string, more object) object {
	m := object{"name": "errors", "query": query, "max": 0.05, "intervalSeconds": int64(1)}
	for name, value := range more {
		m[name] = value
	}
	return m
}

// labels are those of a version's series, with more of them.
func (s *story) labels(version string, more ...string) string {
	return fmt.Sprintf(`{namespace=%q,version=%q%s}`, s.namespace, version, strings.Join(append([]string{""}, more...), ","))
}

const ofVersion = `{namespace="$(namespace)",version="$(version)"}`

// one batch of one pod, then all.
func firstOne(soak int64) object {
	return object{"batches": []any{object{"replicas": int64(1), "soakSeconds": soak}}}
}

// inconclusive waits for the condition with a reason, and for the message.
func (s *story) inconclusive(reason, message string) {
	s.Helper()
	s.says(message)
	s.until("AnalysisInconclusive, "+reason, func() (bool, string) {
		st, _ := s.status()
		for _, c := range st.Conditions {
			if c.Type == greyrelease.ConditionAnalysisInconclusive {
				return c.Status == metav1.ConditionTrue && c.Reason == reason, fmt.Sprintf("%s (%s)", c.Status, c.Reason)
			}
		}
		return false, "no such condition"
	})
	st, _ := s.status()
	s.Logf("%s: %s", st.Phase, st.Message)
}

// noted writes down what users read.
func (s *story) noted() {
	s.Helper()
	st, _ := s.status()
	s.Logf("%s: %s; %+v", st.Phase, st.Message, st.Analysis)
}

// back waits until the one pod of 2.0 is gone, and another of 1.0 there in its place.
func (s *story) back() {
	s.Helper()
	s.phase(greyrelease.PhaseRolledBack)
	s.pods(map[string]int{"1.0": 4})
	s.made(map[string]int{"1.0": 5, "2.0": 1})
}

// errorShare is the usual query over counters.
const errorShare = `(sum(rate(story_requests_total{namespace="$(namespace)",version="$(version)",code="500"}[4s])) or vector(0))
  / sum(rate(story_requests_total{namespace="$(namespace)",version="$(version)"}[4s]))`

func TestMetricsPass(t *testing.T) {
	s := measured(t, errorShare, object{"initialDelaySeconds": int64(2)}, object{"batches": []any{
		object{"replicas": int64(1), "soakSeconds": int64(3)}, object{"replicas": "100%"},
	}})
	metrics.Count("story_requests_total"+s.labels("2.0", `code="200"`), 100)
	metrics.Count("story_requests_total"+s.labels("2.0", `code="500"`), 1)
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
	st, _ := s.status()
	if len(st.Analysis) != 1 || st.Analysis[0].Verdict != "Success" || !strings.HasPrefix(st.Analysis[0].Value, "0.0") {
		t.Errorf("want a success of about 0.01, got %+v", st.Analysis)
	}
	s.noted()
	s.idle()
}

func TestMetricsFail(t *testing.T) {
	s := measured(t, errorShare, object{"failureLimit": int64(1)}, firstOne(60))
	metrics.Count("story_requests_total"+s.labels("2.0", `code="200"`), 75)
	metrics.Count("story_requests_total"+s.labels("2.0", `code="500"`), 25)
	s.patch(object{"targetVersion": "2.0"})
	s.says("failed: metric errors failed 2 times, failureLimit is 1: at ")
	s.noted()
	s.back()
}

func TestMetricsFlap(t *testing.T) {
	s := measured(t, `max(story_flapping`+ofVersion+`)`, object{"failureLimit": int64(2), "intervalSeconds": int64(2)}, firstOne(600))
	metrics.Flap("story_flapping"+s.labels("2.0"), 3*time.Second)
	s.patch(object{"targetVersion": "2.0"})
	s.says("metric errors failed 3 times, failureLimit is 2: at ")
	s.noted()
	s.back()
}

func TestNoDataHolds(t *testing.T) {
	s := measured(t, `sum(story_late`+ofVersion+`)`, nil, firstOne(0))
	s.patch(object{"targetVersion": "2.0", "progressDeadlineSeconds": int64(1)})
	s.inconclusive("NoResult", "metric errors is inconclusive: the query returned no data")
	s.stays(map[string]int{"1.0": 3, "2.0": 1})
	metrics.Set("story_late"+s.labels("2.0"), 0)
	s.settled("2.0")
}

func TestResultsThatAreNoNumber(t *testing.T) {
	s := measured(t, `story_pods`+ofVersion, nil, firstOne(0))
	metrics.Set("story_pods"+s.labels("2.0", `pod="a"`), 0)
	metrics.Set("story_pods"+s.labels("2.0", `pod="b"`), 0)
	s.patch(object{"targetVersion": "2.0"})
	s.inconclusive("NoResult", "the query returned more than one sample: aggregate them, as by sum(...)")
	edit := func(query string) { s.patch(object{"analysis": object{"metrics": []any{one(query, nil)}}}) }
	edit(`story_pods` + ofVersion + `[10s]`)
	s.inconclusive("NoResult", "the result is a range of samples")
	edit(`"zero"`)
	s.inconclusive("NoResult", `the result is a "string" and no number`)
	edit(`sum(rate(story_pods[1m])`)
	s.inconclusive("NoResult", "Prometheus refuses the query: ")
	edit(`0 / sum(story_pods` + ofVersion + `)`)
	s.inconclusive("NoResult", "the result is NaN")
	edit(`scalar(sum(story_pods` + ofVersion + `))`)
	s.settled("2.0")
}

func TestHugeResult(t *testing.T) {
	s := measured(t, `story_huge`+ofVersion, nil, firstOne(0))
	for i := range 300 {
		name := "story_huge" + s.labels("2.0", fmt.Sprintf(`n="%d%s"`, i, strings.Repeat("x", 4000)))
		metrics.Set(name, 0)
		t.Cleanup(func() { metrics.Remove(name) })
	}
	s.patch(object{"targetVersion": "2.0"})
	s.inconclusive("NoResult", "the result is larger than 1 MiB: aggregate it to one sample")
	s.patch(object{"analysis": object{"metrics": []any{one(`max(story_huge`+ofVersion+`)`, nil)}}})
	s.settled("2.0")
}

// A query that takes too long holds its own batch, and no other release.
func TestSlowQueries(t *testing.T) {
	s := measured(t, `max(`+prometheus.SlowMark+`story)`, nil, firstOne(0))
	other := begin(t, "web")
	other.install(2, nil)
	s.patch(object{"targetVersion": "2.0"})
	s.pods(map[string]int{"1.0": 3, "2.0": 1})
	started := time.Now()
	other.patch(object{"targetVersion": "2.0"})
	other.settled("2.0")
	t.Logf("a release without analysis took %v meanwhile", time.Since(started).Round(time.Millisecond))
	s.inconclusive("NoResult", "Prometheus gave no answer within 5s")
	s.stays(map[string]int{"1.0": 3, "2.0": 1})
	s.command("promote")
	s.settled("2.0")
}

func TestComparedWithStable(t *testing.T) {
	query := `max(story_latency{namespace="$(namespace)",revision="$(revision)"}) / max(story_latency{namespace="$(namespace)",revision="$(stableRevision)"})`
	s := measured(t, query, object{"max": 1.2}, firstOne(0))
	s.patch(object{"targetVersion": "2.0"})
	s.inconclusive("NoResult", "the query returned no data")
	deployments, err := client.AppsV1().Deployments(s.namespace).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	for _, d := range deployments.Items {
		latency := 0.1
		if d.Annotations[greyrelease.AnnotationVersion] == "2.0" {
			latency = 0.2
		}
		metrics.Set(fmt.Sprintf(`story_latency{namespace=%q,revision=%q}`, s.namespace, d.Labels[greyrelease.LabelRevision]), latency)
	}
	s.says("metric errors failed: at ")
	s.noted()
	s.back()
}

// Prometheus crashes in the middle of a soak and comes back; then nobody listens at its
// address; then the service is not told of one. Nothing is rolled back.
func TestPrometheusAway(t *testing.T) {
	s := measuredSerially(t, `max(story_steady`+ofVersion+`)`, nil, object{"progressDeadlineSeconds": int64(5), "batches": []any{
		object{"replicas": int64(1)}, object{"replicas": int64(2)}, object{"replicas": int64(3)},
	}})
	metrics.Kill()
	s.patch(object{"targetVersion": "2.0"})
	s.inconclusive("NoResult", "metric errors is inconclusive: Prometheus answered with 502")
	s.stays(map[string]int{"1.0": 3, "2.0": 1})
	metrics.Set("story_steady"+s.labels("2.0"), 0)
	s.must(metrics.Start(s.ctx))
	// Scraped again, it shows that the first batches are good.
	s.settled("2.0")

	s.must(metrics.Shut())
	s.patch(object{"targetVersion": "3.0"})
	s.inconclusive("NoResult", "metric errors is inconclusive: Prometheus cannot be reached: connection refused")
	flags := plane.ServiceFlags
	plane.End("greyrelease", false)
	plane.ServiceFlags = nil
	s.must(plane.StartService(s.ctx))
	s.inconclusive("NotConfigured", "spec.analysis needs a Prometheus, and the service was not told of one")
	s.stays(map[string]int{"2.0": 3, "3.0": 1})
	s.must(metrics.Open())
	plane.End("greyrelease", false)
	plane.ServiceFlags = flags
	s.must(plane.StartService(s.ctx))
	metrics.Set("story_steady"+s.labels("3.0"), 0)
	s.merge(object{"metadata": object{"annotations": object{"poke": "1"}}})
	s.settled("3.0")
	if st, _ := s.status(); slices.ContainsFunc(st.History, func(e greyrelease.HistoryEntry) bool { return e.Result == "RolledBack" }) {
		t.Errorf("want nothing rolled back, got %+v", st.History)
	}
}
