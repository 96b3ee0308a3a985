package greyrelease

import (
	"testing"
	"time"

	"greyrelease.example.com/hooks/rollout"
)

func TestExpandQuery(t *testing.T) {
	values := map[string]string{
		"namespace": "shop", "name": "web", "app": "web.v1", "version": "sha256:ab", "revision": "0123456789", "stableRevision": "abcdef0123",
	}
	value := func(name string) string { return values[name] }
	for _, tt := range []struct{ query, want string }{
		{`up`, `up`},
		{`errors{ns="$(namespace)",app="$(app)",v="$(version)"}`, `errors{ns="shop",app="web.v1",v="sha256:ab"}`},
		{`$(name)$(revision)$(stableRevision)`, `web0123456789abcdef0123`},
		{`x{pod=~"$(name)-$(revision)-.+$"}`, `x{pod=~"web-0123456789-.+$"}`},
		{`label_replace(x, "a", "$1", "b", "(.*)")`, `label_replace(x, "a", "$1", "b", "(.*)")`},
		{`x{a="$$(name)"}`, `x{a="$(name)"}`},
		{`$$`, `$$`},
	} {
		if got, err := expandQuery(tt.query, value); err != nil || tt.want != got {
			t.Errorf("%s: want %s, got %s, %v", tt.query, tt.want, got, err)
		}
	}
}

// Whatever was put into a record or a snapshot by hand: it does not get out of the
// quotes that it is put into.
func TestNothingBreaksOutOfAQuery(t *testing.T) {
	for _, bad := range []string{`1"} or vector(0) #`, "1'", "1`", `1\`, "1\n", `1",version=~".*`, "$(name)", "1.0\u2028", "ü", " ", "{}", "1|.*", ".*"} {
		query := "up{version=\"$(version)\"}"
		if got, err := expandQuery(query, func(string) string { return bad }); err == nil {
			t.Errorf("%q: want an error, got %s", bad, got)
		}
	}
}

// What cannot be asked is inconclusive, with the reason.
func TestAQueryThatCannotBeAsked(t *testing.T) {
	o := &observation{name: "web", namespace: "shop"}
	r := &rollout.Record{Target: rollout.Revision{Version: `1"}`}}
	_, problem := o.queryText(&rollout.Metric{Query: `up{v="$(version)"}`}, "web", r)
	if want := `$(version) is "1\"}" here, which cannot stand in a query`; want != problem {
		t.Errorf("want %s, got %s", want, problem)
	}
}

// Of two successes within a minute the status shows the first: a write a minute.
func TestStatusOfQuietMetrics(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	last := lastStatus{Analysis: []byte(`[{"name":"errors","verdict":"Success","value":"0.01","time":"2026-11-30T12:00:00Z","failures":0,"inconclusive":0}]`)}
	for _, tt := range []struct {
		why  string
		now  MetricStatus
		at   time.Duration
		want string
	}{
		{"a minute is not over", MetricStatus{Name: "errors", Verdict: "Success", Value: "0.02"}, 59 * time.Second, "0.01"},
		{"a minute is over", MetricStatus{Name: "errors", Verdict: "Success", Value: "0.02"}, 60 * time.Second, "0.02"},
		{"a failure", MetricStatus{Name: "errors", Verdict: "Failure", Value: "2"}, time.Second, "2"},
		{"another count", MetricStatus{Name: "errors", Verdict: "Success", Value: "0.02", Failures: 1}, time.Second, "0.02"},
		{"another metric", MetricStatus{Name: "latency", Verdict: "Success", Value: "0.02"}, time.Second, "0.02"},
		{"a record that is older than the status", MetricStatus{Name: "errors", Verdict: "Success", Value: "0.02"}, -time.Second, "0.02"},
	} {
		if got := last.quiet(tt.now, noon.Add(tt.at)); tt.want != got.Value {
			t.Errorf("%s: want %s, got %s", tt.why, tt.want, got.Value)
		}
	}
}
