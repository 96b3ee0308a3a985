package greyrelease

import (
	"time"

	"greyrelease.example.com/hooks/rollout"
)

// Query is a question to Prometheus at an instant. The instant comes from the
// record, so that every replica of the service asks the same.
type Query struct {
	Text string    `json:"query"`
	Time time.Time `json:"time"`
}

// Measurement is what came of a query: a value, or a problem for which there is none.
type Measurement struct {
	Query
	// Value is a number as Prometheus writes it.
	Value string `json:"value,omitempty"`
	// Problem is one line for people.
	Problem string `json:"problem,omitempty"`
}

// Measurements are what is known of the queries that earlier answers asked for. They
// are input of a sync like the request: the same of both gives the same answer.
type Measurements struct {
	// Available: there is a Prometheus to ask.
	Available bool `json:"available"`
	// Finished are the queries that are answered.
	Finished []Measurement `json:"finished,omitempty"`
}

// queryText is the query of a metric for the release under way. A problem with it is
// the answer.
func (o *observation) queryText(m *rollout.Metric, app string, r *rollout.Record) (text, problem string) {
	text, err := expandQuery(m.Query, func(name string) string {
		switch name {
		case "namespace":
			return o.namespace
		case "name":
			return o.name
		case "app":
			return app
		case "version":
			return r.Target.Version
		case "revision":
			return r.Target.Hash
		}
		return r.Stable.Hash // there is one: without, there are no batches
	})
	if err != nil {
		return "", err.Error()
	}
	return text, ""
}

// measure looks for the measurements that the observed record asks for, and notes
// what is still to be asked.
func (a *answer) measure(have Measurements) {
	a.facts.Measurable = have.Available
	for _, due := range rollout.Outstanding(a.record, a.facts, a.now) {
		text, problem := a.queryText(&due.Metric, a.spec.AppName, a.record)
		got := rollout.Measurement{Metric: due.Metric.Name, At: due.At, Problem: problem}
		found := problem != ""
		for i := range have.Finished {
			if m := &have.Finished[i]; m.Text == text && m.Time.Equal(due.At) && problem == "" {
				got.Value, got.Problem, found = m.Value, m.Problem, true
			}
		}
		if found {
			a.facts.Measurements = append(a.facts.Measurements, got)
			continue
		}
		a.queries = append(a.queries, Query{Text: text, Time: due.At})
	}
}
