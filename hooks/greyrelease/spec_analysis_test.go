package greyrelease

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/rollout"
)

func TestAnalysisDefaults(t *testing.T) {
	spec, errs := decodeSpec(specWith(t, `"analysis":{"metrics":[{"name":"errors","query":"up","max":0.05}]}`))
	if len(errs) > 0 {
		t.Fatalf("want no errors, got %s", texts(errs))
	}
	most := 0.05
	want := []rollout.Metric{{Name: "errors", Query: "up", Max: &most, IntervalSeconds: 60}}
	if !reflect.DeepEqual(want, spec.Metrics) {
		t.Errorf("want %+v, got %+v", want, spec.Metrics)
	}
}

func TestEveryFieldOfAnalysisIsChecked(t *testing.T) {
	for _, name := range jsonNames(reflect.TypeFor[Metric]()) {
		fields := map[string]any{"name": "errors", "query": "up", "max": 1}
		fields[name] = map[string]any{"x": 1}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		_, errs := decodeSpec(specWith(t, `"analysis":{"metrics":[`+string(text)+`]}`))
		if want := "spec.analysis.metrics[0]." + name; len(errs) != 1 || errs[0].Field != want {
			t.Errorf("%s: want one error there, got %q", name, texts(errs))
		}
	}
}

func TestAnalysisValidation(t *testing.T) {
	metric := func(fields string) string { return `{"metrics":[{"name":"m","query":"up","max":1,` + fields + `}]}` }
	for _, tt := range []struct{ why, analysis, want string }{
		{"no metrics", `{}`, `spec.analysis.metrics: Required value: name at least one metric, as in [{name: errors, query: "...", max: 0.01}]`},
		{"an empty list", `{"metrics":[]}`, `spec.analysis.metrics: Required value: name at least one metric, as in [{name: errors, query: "...", max: 0.01}]`},
		{"eleven", `{"metrics":[` + strings.Repeat(`{"name":"m","query":"up","max":1},`, 10) + `{}]}`, `spec.analysis.metrics: Too many: 11: must have at most 10 items`},
		{"no limit", `{"metrics":[{"name":"m","query":"up"}]}`, `spec.analysis.metrics[0].max: Required value: says nothing without a limit: set min, max or both`},
		{"two of one name", `{"metrics":[{"name":"m","query":"up","max":1},{"name":"m","query":"up","max":1}]}`, `spec.analysis.metrics[1].name: Duplicate value: "m"`},
		{"a name in capitals", metric(`"name":"Errors"`), `spec.analysis.metrics[0].name: Invalid value: "Errors": must be 1 to 40 lower case letters, digits and "-", beginning and ending with a letter or digit`},
		{"min above max", metric(`"min":1.5`), `spec.analysis.metrics[0].min: Invalid value: 1.5: must be at most max: no value could pass`},
		{"min equal to max", metric(`"min":1`), ``},
		{"a limit in quotes", metric(`"min":"0.5"`), `spec.analysis.metrics[0].min: Invalid value: "0.5": must be a number, as in 0.05, without quotes`},
		{"a limit beyond numbers", metric(`"min":1e999`), `spec.analysis.metrics[0].min: Invalid value: 1e999: must be a number, as in 0.05`},
		{"an interval of 0", metric(`"intervalSeconds":0`), `spec.analysis.metrics[0].intervalSeconds: Invalid value: 0: must be a whole number from 1 to 86400`},
		{"a delay of more than a day", metric(`"initialDelaySeconds":86401`), `spec.analysis.metrics[0].initialDelaySeconds: Invalid value: 86401: must be a whole number from 0 to 86400`},
		{"a negative limit", metric(`"failureLimit":-1`), `spec.analysis.metrics[0].failureLimit: Invalid value: -1: must be a whole number from 0 to 1000`},
		{"an inconclusive limit of 0", metric(`"inconclusiveLimit":0`), ``},
		{"an inconclusive limit of 1001", metric(`"inconclusiveLimit":1001`), `spec.analysis.metrics[0].inconclusiveLimit: Invalid value: 1001: must be a whole number from 0 to 1000`},
		{"an empty query", metric(`"query":" "`), "spec.analysis.metrics[0].query: Invalid value: \" \": must be PromQL, as in sum(rate(http_requests_total{code=~\"5..\"}[5m]))"},
		{"a long query", metric(`"query":"` + strings.Repeat("x", 2001) + `"`), fmt.Sprintf("spec.analysis.metrics[0].query: Invalid value: \"%s...\": must be at most 2000 bytes: record what it computes by a rule in Prometheus, and ask for that", strings.Repeat("x", 60))},
		{"a control character", metric(`"query":"up\u0000"`), "spec.analysis.metrics[0].query: Invalid value: \"up\\x00\": must not contain control characters"},
		{"an unknown placeholder", metric(`"query":"up{a=\"$(pod)\"}"`), `spec.analysis.metrics[0].query: Invalid value: "up{a=\"$(pod)\"}": the placeholder "$(pod)" is unknown: use $(namespace), $(name), $(app), $(version), $(revision), $(stableRevision), or write $$( for a literal $(`},
		{"an open placeholder", metric(`"query":"up{a=\"$(name\"}"`), `spec.analysis.metrics[0].query: Invalid value: "up{a=\"$(name\"}": the placeholder "$(name\"}" has no end: close it with ")", or write $$( for a literal $(`},
	} {
		_, errs := decodeSpec(specWith(t, `"analysis":`+tt.analysis))
		if got := texts(errs); tt.want != got {
			t.Errorf("%s:\nwant %s\n got %s", tt.why, tt.want, got)
		}
	}
}
