package main

import (
	"bytes"
	"net/http"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strconv"
	"time"

	"greyrelease.example.com/hooks/rollout"
)

// metrics is everything that /metrics shows. An idle release causes a
// sync every two minutes, so a gauge about releases would show the past; there is none.
type metrics struct {
	requests     *counter
	duration     *histogram
	requestSize  *histogram
	responseSize *histogram
	transitions  *counter
	rollbacks    *counter
	breaches     *counter
	panics       *counter
	rejected     *counter
	// queries and queryDuration are those of metrics that releases are judged by.
	queries       *counter
	queryDuration *histogram

	families []family
}

func newMetrics(b build, started time.Time) *metrics {
	sizes := []float64{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	// Metacontroller gives up after 10 s by default.
	times := []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	m := &metrics{
		requests: newCounter("greyrelease_requests_total",
			"Calls of a hook by its answer's HTTP status code.", "hook", "code"),
		duration: newHistogram("greyrelease_request_duration_seconds",
			"Time from the headers of a request to the end of its answer.", times, "hook"),
		requestSize: newHistogram("greyrelease_request_size_bytes",
			"Size of the bodies of requests, as far as they were read.", sizes, "hook"),
		responseSize: newHistogram("greyrelease_response_size_bytes",
			"Size of the bodies of answers.", sizes, "hook"),
		transitions: newCounter("greyrelease_transitions_total",
			"Steps of releases from one phase to another. One whose answer was lost is decided again, and counted again.", "from", "to"),
		rollbacks: newCounter("greyrelease_rollbacks_total",
			"Rollbacks begun, by what caused them; Reverted is a spec set back to the stable revision.", "reason"),
		breaches: newCounter("greyrelease_invariant_breaches_total",
			"Answers withheld because they broke an invariant. Any is a bug."),
		panics: newCounter("greyrelease_panics_total",
			"Panics of a hook, each contained to one request. Any is a bug."),
		rejected: newCounter("greyrelease_rejected_requests_total",
			"Requests refused because of a limit of the service.", "limit"),
		queries: newCounter("greyrelease_analysis_queries_total",
			"Queries to Prometheus for the metrics of releases, by what came of them; busy are those that had to wait for others.", "outcome"),
		queryDuration: newHistogram("greyrelease_analysis_query_duration_seconds",
			"Time that such a query took.", times),
	}
	for _, hook := range []string{"sync", "customize"} {
		for _, code := range []int{200, 400, 401, 429, 500} {
			m.requests.add(0, hook, strconv.Itoa(code))
		}
	}
	for _, limit := range []string{limitBody, limitBuffered, limitConcurrent, limitEncoding, limitReadTimeout} {
		m.rejected.add(0, limit)
	}
	// An increase is seen only of a series that was there before.
	m.rollbacks.add(0, reverted)
	for _, reason := range rollout.Reasons() {
		m.rollbacks.add(0, string(reason))
	}
	for _, outcome := range outcomes {
		m.queries.add(0, outcome)
	}
	m.breaches.add(0)
	m.panics.add(0)

	m.families = []family{
		m.requests, m.duration, m.requestSize, m.responseSize,
		m.transitions, m.rollbacks, m.breaches, m.panics, m.rejected, m.queries, m.queryDuration,
		&gauge{"greyrelease_build_info", "What this process was built from; always 1.",
			labels([]string{"version", "revision", "goversion"}, []string{b.version, b.revision, b.goVersion}),
			func() float64 { return 1 }},
		&gauge{"go_goroutines", "Goroutines that exist.", "",
			func() float64 { return float64(runtime.NumGoroutine()) }},
		&gauge{"go_memstats_heap_alloc_bytes", "Heap memory of objects that are alive or not yet collected.", "",
			func() float64 { return readRuntime("/memory/classes/heap/objects:bytes") }},
		&gauge{"process_start_time_seconds", "When the process started, in seconds since 1970.", "",
			func() float64 { return float64(started.Unix()) }},
	}
	return m
}

// readRuntime reads one number without stopping the process, as
// runtime.ReadMemStats would.
func readRuntime(name string) float64 {
	sample := []runtimemetrics.Sample{{Name: name}}
	runtimemetrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// ServeHTTP writes all metrics in the text format of Prometheus.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var out bytes.Buffer
	for _, f := range m.families {
		f.write(&out)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	_, _ = w.Write(out.Bytes())
}
