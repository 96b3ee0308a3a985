package scenarios

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// noData is what the service says of an empty result.
const noData = "the query returned no data"

// answer is what a query gives.
func (s *Stage) answer(query string, _ time.Time) (value, problem string) {
	name, _, _ := strings.Cut(query, "{")
	set, known := s.metrics[name]
	if !known {
		return "", noData
	}
	if _, err := strconv.ParseFloat(set, 64); err != nil {
		return "", set
	}
	return set, ""
}

// metric sets what queries give, or how Prometheus is.
func (s *Stage) metric(verb string, args []string) error {
	switch {
	case verb == "metric" && len(args) == 2:
		s.prometheus.Absent = false
		s.metrics[args[0]] = args[1]
		return nil
	case verb == "prometheus" && len(args) == 2 && args[0] == "delay":
		return withDuration(args[1:], func(d time.Duration) error { s.prometheus.Delay = d; return nil })
	case verb == "prometheus" && len(args) == 1 && args[0] == "restart":
		s.prometheus.Forget()
		return nil
	case verb == "prometheus" && len(args) == 1 && (args[0] == "absent" || args[0] == "there"):
		s.prometheus.Absent = args[0] == "absent"
		return nil
	}
	return errWords
}

// analysis is what the status says of metrics.
func (s *Stage) analysis() []string {
	o := s.Server.Get(s.Release)
	if o == nil {
		return nil
	}
	list := apply.List(o.Tree, "status", "analysis")
	if len(list) == 0 {
		return []string{"no metrics"}
	}
	lines := make([]string, 0, len(list))
	for _, item := range list {
		text := func(name string) string { return apply.Text(item, name) }
		line := fmt.Sprintf("%s %s", text("name"), text("verdict"))
		if said := cmp.Or(text("value"), text("problem")); said != "" {
			line += fmt.Sprintf(" (%s) at %s", said, text("time"))
		}
		lines = append(lines, fmt.Sprintf("%s, failures %v, inconclusive in a row %v", line, apply.Field(item, "failures"), apply.Field(item, "inconclusive")))
	}
	return lines
}
