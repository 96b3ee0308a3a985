package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/greyrelease"
)

func TestAnswers(t *testing.T) {
	for _, row := range []struct {
		name, method, path, body string
		header                   http.Header
		hook                     hook
		want                     reply
	}{
		{name: "sync", method: "POST", path: "/sync", body: goodRequest, hook: echo(),
			want: reply{200, goodAnswer, header("Content-Type", "application/json")}},
		{name: "customize", method: "POST", path: "/customize", body: goodRequest, hook: echo(),
			want: reply{200, goodAnswer, header("Content-Type", "application/json")}},
		{name: "as Metacontroller sends it", method: "POST", path: "/sync", body: goodRequest, hook: echo(),
			header: header("Content-Type", "application/json", "Authorization", "Bearer x", "If-None-Match", "y"),
			want:   reply{200, goodAnswer, header("Content-Type", "application/json")}},
		{name: "as curl sends it", method: "POST", path: "/sync", body: goodRequest, hook: echo(),
			header: header("Content-Type", "application/x-www-form-urlencoded"),
			want:   reply{200, goodAnswer, header("Content-Type", "application/json")}},
		{name: "plain encoding", method: "POST", path: "/sync", body: goodRequest, hook: echo(),
			header: header("Content-Encoding", "identity"),
			want:   reply{200, goodAnswer, header("Content-Type", "application/json")}},
		{name: "healthz", method: "GET", path: "/healthz", want: reply{200, "ok\n", header("Content-Type", "text/plain; charset=utf-8")}},
		{name: "readyz", method: "GET", path: "/readyz", want: reply{200, "ok\n", header("Content-Type", "text/plain; charset=utf-8")}},

		{name: "not JSON", method: "POST", path: "/sync", body: "a=b", hook: echo(),
			header: header("Content-Type", "application/x-www-form-urlencoded"),
			want:   reply{400, "cannot decode sync request: invalid character 'a' looking for beginning of value\n", header("Content-Type", "text/plain; charset=utf-8", "X-Content-Type-Options", "nosniff")}},
		{name: "empty", method: "POST", path: "/sync", hook: echo(),
			want: reply{400, "cannot decode sync request: unexpected end of JSON input\n", nil}},
		{name: "no parent", method: "POST", path: "/sync", body: "{}", hook: echo(),
			want: reply{400, "cannot decode sync request: parent is missing\n", nil}},
		{name: "deep nesting", method: "POST", path: "/sync", body: strings.Repeat(`{"a":`, 1_000_000), hook: echo(),
			want: reply{400, "cannot decode sync request: invalid character '{' exceeded max depth\n", nil}},
		{name: "wrapped bad request", method: "POST", path: "/sync",
			hook: failing(fmt.Errorf("cannot do it: %w", &composite.BadRequestError{Reason: "no\nsuch\tthing"})),
			want: reply{400, "cannot do it: no such thing\n", nil}},

		{name: "GET", method: "GET", path: "/sync", hook: echo(),
			want: reply{405, "method \"GET\" is not allowed, use POST\n", header("Allow", "POST")}},
		{name: "PUT", method: "PUT", path: "/customize", body: goodRequest, hook: echo(),
			want: reply{405, "method \"PUT\" is not allowed, use POST\n", header("Allow", "POST")}},
		{name: "POST to a probe", method: "POST", path: "/healthz", want: reply{405, "", header("Allow", "GET")}},
		{name: "unknown path", method: "POST", path: "/sync/more", want: reply{404, "404 page not found\n", nil}},
		{name: "metrics are elsewhere", method: "GET", path: "/metrics", want: reply{404, "404 page not found\n", nil}},

		{name: "compressed", method: "POST", path: "/sync", body: goodRequest, hook: echo(),
			header: header("Content-Encoding", "gzip"),
			want:   reply{415, "content encoding \"gzip\" is not supported, send plain JSON\n", nil}},

		{name: "stale", method: "POST", path: "/sync", hook: failing(&composite.RetryError{After: time.Second, Reason: "stale caches"}),
			want: reply{429, "stale caches\n", header("Retry-After", "1")}},
		{name: "rounded up", method: "POST", path: "/sync", hook: failing(&composite.RetryError{After: 2001 * time.Millisecond, Reason: "later"}),
			want: reply{429, "later\n", header("Retry-After", "3")}},
		{name: "at least a second", method: "POST", path: "/sync", hook: failing(&composite.RetryError{Reason: "later"}),
			want: reply{429, "later\n", header("Retry-After", "1")}},
		{name: "never negative", method: "POST", path: "/sync", hook: failing(fmt.Errorf("again: %w", &composite.RetryError{After: -time.Hour, Reason: "later"})),
			want: reply{429, "again: later\n", header("Retry-After", "1")}},

		{name: "our bug", method: "POST", path: "/sync", hook: failing(errors.New("cannot render revision 4:\r\n  no template\x00")),
			want: reply{500, "cannot render revision 4: no template\n", header("Content-Type", "text/plain; charset=utf-8")}},
		{name: "a breach", method: "POST", path: "/sync", hook: failing(&greyrelease.InvariantError{Breach: errors.New("I3: revision 4 is dropped")}),
			want: reply{500, "bug: the answer would break an invariant: I3: revision 4 is dropped\n", nil}},
		{name: "a long story", method: "POST", path: "/sync", hook: failing(errors.New(strings.Repeat("灰", 1000))),
			want: reply{500, strings.Repeat("灰", 332) + "...\n", nil}},
		{name: "a panic", method: "POST", path: "/sync", hook: hook{sync: func([]byte, time.Time, *answer) error { panic("secret") }},
			want: reply{500, "the sync hook panicked, its log has the details; this is a bug of the hook\n", header("Content-Type", "text/plain; charset=utf-8")}},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := start(t, row.hook)
			got := f.do(t, row.method, row.path, row.header, strings.NewReader(row.body))
			if row.want.code != got.code || row.want.body != got.body {
				t.Errorf("want %d %s\ngot  %d %s", row.want.code, row.want.body, got.code, got.body)
			}
			for name := range row.want.header {
				if want := row.want.header.Get(name); want != got.header.Get(name) {
					t.Errorf("want %s %q, got %q", name, want, got.header.Get(name))
				}
			}
		})
	}
}

func TestTheHookIsToldTheTimeOnce(t *testing.T) {
	var reads, calls int
	var got time.Time
	f := start(t, hook{sync: func(body []byte, now time.Time, out *answer) error {
		calls, got = calls+1, now
		return echoSync(body, now, out)
	}})
	f.clock = func() time.Time { reads++; return testClock() }
	f.wantGood(t)
	if want := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC); want != got {
		t.Errorf("want %s, got %s", want, got)
	}
	if reads != 1 || calls != 1 {
		t.Errorf("want one call and one look at the clock, got %d and %d", calls, reads)
	}
}

func TestAPanicEndsOneRequestOnly(t *testing.T) {
	f := start(t, hook{sync: func(body []byte, now time.Time, out *answer) error {
		if strings.Contains(string(body), "panic") {
			out.subject = "shop/web"
			body[len(body)] = 1
		}
		return echoSync(body, now, out)
	}}, "--max-concurrent=1")
	for range 3 {
		if got := f.post(t, "panic"); got.code != 500 || strings.Contains(got.body, "goroutine") || strings.Contains(got.body, "index") {
			t.Errorf("want 500 without details, got %d %s", got.code, got.body)
		}
		f.wantGood(t)
	}
	f.wantMetric(t, "greyrelease_panics_total 3")
	f.wantMetric(t, `greyrelease_requests_total{hook="sync",code="500"} 3`)
	f.wantMetric(t, `greyrelease_requests_total{hook="sync",code="200"} 3`)
	lines := f.lines(t)
	if len(lines) != 3 {
		t.Fatalf("want 3 lines in the log, got %v", lines)
	}
	for key, want := range map[string]string{"release": "shop/web", "hook": "sync", "level": "ERROR", "msg": "request failed", "panic": "runtime error: index out of range [5] with length 5"} {
		if got := sprint(lines[0][key]); want != got {
			t.Errorf("want %s %q in the log, got %q", key, want, got)
		}
	}
	if stack := sprint(lines[0]["stack"]); !strings.Contains(stack, "TestAPanicEndsOneRequestOnly") {
		t.Errorf("want the stack in the log, got %s", stack)
	}
}

func TestTransitionsAreLoggedAndCounted(t *testing.T) {
	steps := []greyrelease.Transition{
		{Namespace: "shop", Name: "web", Revision: 4, Version: "1.4", Stable: "1.3", From: "Progressing", To: "RollingBack", Batch: "2/5", Updated: 3, Replicas: 10, Reason: "Unstable"},
		{Namespace: "shop", Name: "web", Revision: 4, Version: "1.4", From: "RollingBack", To: "RolledBack", Reason: "Unstable"},
		{Namespace: "shop", Name: "api", Revision: 7, Version: "2.1", From: "Paused", To: "RollingBack"},
		{Namespace: "shop", Name: "api", Revision: 7, Version: "2.1", From: "Progressing", To: "Progressing", Batch: "2/4"},
	}
	var fail error
	f := start(t, hook{sync: func(_ []byte, _ time.Time, out *answer) error {
		out.body, out.transitions = []byte("{}"), steps
		return fail
	}})
	f.post(t, "")
	fail = errors.New("cannot encode the answer")
	f.post(t, "")

	f.wantMetric(t, `greyrelease_transitions_total{from="Progressing",to="RollingBack"} 1`)
	f.wantMetric(t, `greyrelease_transitions_total{from="RollingBack",to="RolledBack"} 1`)
	f.wantMetric(t, `greyrelease_rollbacks_total{reason="Unstable"} 1`)
	f.wantMetric(t, `greyrelease_rollbacks_total{reason="Reverted"} 1`)
	lines := f.lines(t)
	if len(lines) != 5 {
		t.Fatalf("want a line for each transition, the batch and the error, got %v", lines)
	}
	if lines[3]["msg"] != "batch" || lines[3]["batch"] != "2/4" {
		t.Errorf("want a line about the next batch, got %v", lines[3])
	}
	if text := scrape(f.metrics); strings.Contains(text, `from="Progressing",to="Progressing"`) {
		t.Errorf("want a batch not counted as a change of phase, got %s", text)
	}
	want := map[string]any{"level": "INFO", "msg": "transition", "namespace": "shop", "name": "web", "revision": 4.0,
		"version": "1.4", "stable": "1.3", "from": "Progressing", "to": "RollingBack", "batch": "2/5", "pods": "3/10", "reason": "Unstable"}
	if sprint(want) != sprint(lines[0]) {
		t.Errorf("want %v\ngot  %v", want, lines[0])
	}
	if sprint(lines[4]["error"]) != "cannot encode the answer" {
		t.Errorf("want the error last, got %v", lines[4])
	}
}

func TestErrorsAreLoggedOnceAndBreachesCounted(t *testing.T) {
	for _, row := range []struct {
		err   error
		level string
		msg   string
	}{
		{&composite.BadRequestError{Reason: "no parent"}, "WARN", "request failed"},
		{&composite.RetryError{After: time.Second, Reason: "stale"}, "INFO", "request to be sent again"},
		{errors.New("cannot render"), "ERROR", "request failed"},
		{fmt.Errorf("cannot answer: %w", &greyrelease.InvariantError{Breach: errors.New("I1: too few")}), "ERROR", "request failed"},
	} {
		f := start(t, failing(row.err))
		f.post(t, "secret of the request")
		lines := f.lines(t)
		if len(lines) != 1 {
			t.Errorf("%v: want one line, got %v", row.err, lines)
			continue
		}
		for key, want := range map[string]string{"level": row.level, "msg": row.msg, "error": row.err.Error(), "release": "shop/web", "hook": "sync"} {
			if got := sprint(lines[0][key]); want != got {
				t.Errorf("%v: want %s %q, got %q", row.err, key, want, got)
			}
		}
		if strings.Contains(f.logs.String(), "secret") {
			t.Errorf("%v: want nothing of the request in the log, got %s", row.err, f.logs)
		}
		breaches := 0
		if strings.Contains(row.err.Error(), "I1") {
			breaches = 1
		}
		f.wantMetric(t, fmt.Sprintf("greyrelease_invariant_breaches_total %d", breaches))
	}
}

func TestSizesAndTimesAreMeasured(t *testing.T) {
	f := start(t, echo())
	f.wantGood(t)
	f.post(t, strings.Repeat(" ", 5000))
	f.wantMetric(t, `greyrelease_request_size_bytes_bucket{hook="sync",le="1024"} 1`)
	f.wantMetric(t, `greyrelease_request_size_bytes_bucket{hook="sync",le="16384"} 2`)
	f.wantMetric(t, fmt.Sprintf(`greyrelease_request_size_bytes_sum{hook="sync"} %d`, len(goodRequest)+5000))
	f.wantMetric(t, fmt.Sprintf(`greyrelease_response_size_bytes_sum{hook="sync"} %d`, len(goodAnswer)+len("cannot decode sync request: unexpected end of JSON input\n")))
	f.wantMetric(t, `greyrelease_request_duration_seconds_count{hook="sync"} 2`)
	f.wantMetric(t, `greyrelease_request_duration_seconds_bucket{hook="sync",le="10"} 2`)
}
