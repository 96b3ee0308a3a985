package greyrelease

import (
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"greyrelease.example.com/hooks/rollout"
)

const (
	maxMetrics      = 10
	maxQuery        = 2000
	maxMetricName   = 40
	maxMetricLimit  = 1000
	maxMetricWait   = 86400
	defaultInterval = 60
	metricsCure     = `as in [{name: errors, query: "...", max: 0.01}]`
)

// analysis reads spec.analysis. It is nil if there is none or a part of it is wrong.
func (o object) analysis(name string) []rollout.Metric {
	if absent(o.raw(name)) {
		return nil
	}
	before := len(*o.errs)
	in, ok := newObject(o.path.Child(name), o.raw(name), "it needs metrics", o.errs)
	if !ok {
		return nil
	}
	path := in.path.Child("metrics")
	var metrics []rollout.Metric
	names := map[string]bool{}
	for i, item := range in.needed("metrics", maxMetrics, "name at least one metric, "+metricsCure) {
		m := decodeMetric(path.Index(i), item, o.errs)
		if m.Name != "" && names[m.Name] {
			*o.errs = append(*o.errs, field.Duplicate(path.Index(i).Child("name"), m.Name))
		}
		names[m.Name] = true
		metrics = append(metrics, m)
	}
	if len(*o.errs) > before {
		return nil
	}
	return metrics
}

func decodeMetric(path *field.Path, raw json.RawMessage, errs *field.ErrorList) rollout.Metric {
	m := rollout.Metric{IntervalSeconds: defaultInterval}
	o, ok := newObject(path, raw, "it needs name, query and a limit", errs)
	if !ok {
		return m
	}
	if o.required("name", "messages call the metric by it, as in errors") {
		o.text("name", &m.Name, checkMetricName)
	}
	if o.required("query", checkQuery("")) {
		o.text("query", &m.Query, checkQuery)
	}
	minOK, maxOK := o.number("min", &m.Min), o.number("max", &m.Max)
	switch {
	case m.Min == nil && m.Max == nil && minOK && maxOK:
		*errs = append(*errs, field.Required(path.Child("max"), "says nothing without a limit: set min, max or both"))
	case m.Min != nil && m.Max != nil && *m.Min > *m.Max:
		o.invalid("min", "must be at most max: no value could pass")
	}
	o.integer("intervalSeconds", 1, maxMetricWait, &m.IntervalSeconds)
	o.integer("initialDelaySeconds", 0, maxMetricWait, &m.InitialDelaySeconds)
	o.integer("failureLimit", 0, maxMetricLimit, &m.FailureLimit)
	o.optional("inconclusiveLimit", maxMetricLimit, &m.InconclusiveLimit)
	return m
}

// number reads a number with a fraction.
func (o object) number(name string, into **float64) bool {
	raw := o.raw(name)
	if absent(raw) {
		return true
	}
	var n float64
	if isString(raw) || json.Unmarshal(raw, &n) != nil {
		o.invalid(name, "must be a number, as in 0.05"+unquoted(raw))
		return false
	}
	*into = &n
	return true
}

var metricNamePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func checkMetricName(v string) string {
	if len(v) <= maxMetricName && metricNamePattern.MatchString(v) {
		return ""
	}
	return fmt.Sprintf(`must be 1 to %d lower case letters, digits and "-", beginning and ending with a letter or digit`, maxMetricName)
}
