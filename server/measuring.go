package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// measuring makes queries beside the syncs that want them, and keeps the results for
// the syncs that come after. No sync ever waits for one. What it keeps may be lost at
// any time: another service, or the next process, asks for the same instant again.
//
// A nil measuring is one without a Prometheus.
type measuring struct {
	prometheus *prometheus
	metrics    *metrics
	log        *slog.Logger
	clock      func() time.Time
	// slots is a place for each query that is being made.
	slots chan struct{}

	mu       sync.Mutex
	releases map[string]map[moment]*measured
	count    int
	swept    time.Time
	failing  seldom
}

// moment is a query as it is compared.
type moment struct {
	text    string
	seconds int64 // since 1970
}

// measured is a query with what came of it.
type measured struct {
	greyrelease.Measurement
	done  bool
	since time.Time
}

const (
	// keptFor is how long a result is kept. A release gives a measurement up after a
	// minute.
	keptFor = 2 * time.Minute
	// maxResults bounds the results of all releases together. One takes about 3 KB,
	// so they take 12 MB.
	maxResults = 4096
)

func newMeasuring(p *prometheus, concurrency int, clock func() time.Time, m *metrics, log *slog.Logger) *measuring {
	if p == nil {
		return nil
	}
	return &measuring{
		prometheus: p, metrics: m, log: log, clock: clock, slots: make(chan struct{}, concurrency),
		releases: map[string]map[moment]*measured{},
	}
}

// have is what is known for a release.
func (m *measuring) have(release string) greyrelease.Measurements {
	if m == nil {
		return greyrelease.Measurements{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	have := greyrelease.Measurements{Available: true}
	for _, r := range m.releases[release] {
		if r.done {
			have.Finished = append(have.Finished, r.Measurement)
		}
	}
	return have
}

// start makes the queries of a release that were not made yet, as far as there is
// room; the others are asked for again in a second or two.
func (m *measuring) start(release string, queries []greyrelease.Query) {
	if m == nil || len(queries) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	for _, q := range queries {
		at := moment{q.Text, q.Time.Unix()}
		if m.releases[release][at] != nil {
			continue
		}
		select {
		case m.slots <- struct{}{}:
		default:
			m.metrics.queries.add(1, outcomeBusy)
			continue
		}
		if m.count >= maxResults {
			<-m.slots
			m.metrics.queries.add(1, outcomeBusy)
			continue
		}
		if m.releases[release] == nil {
			m.releases[release] = map[moment]*measured{}
		}
		r := &measured{Measurement: greyrelease.Measurement{Query: q}, since: m.clock()}
		m.releases[release][at] = r
		m.count++
		go m.run(release, r)
	}
}

// run makes one query.
func (m *measuring) run(release string, r *measured) {
	defer func() { <-m.slots }()
	began := time.Now()
	value, refused := m.prometheus.ask(context.Background(), r.Query)
	outcome := outcomeValue
	if refused != nil {
		outcome = refused.outcome
	}
	m.metrics.queries.add(1, outcome)
	m.metrics.queryDuration.observe(time.Since(began).Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Value, r.done = value, true
	if refused != nil {
		r.Problem = refused.text
		m.note(release, refused)
	}
}

// note writes a line about a Prometheus that does not do its work, but not one for
// each query. What is wrong with queries is the business of those who wrote them, and
// stands in the status of their releases.
func (m *measuring) note(release string, r *refusal) {
	switch r.outcome {
	case outcomeNoData, outcomeNotOne, outcomeRefused, outcomeTooLarge, outcomeWarning:
		return
	}
	if others, may := m.failing.now(m.clock()); may {
		attributes := []any{"release", release, "outcome", r.outcome, "problem", r.text, "others", others}
		if r.cause != nil {
			attributes = append(attributes, "error", oneLine(r.cause.Error()))
		}
		m.log.Warn("query of metrics failed", attributes...)
	}
}

// sweep forgets results that are old.
func (m *measuring) sweep() {
	now := m.clock()
	if now.Sub(m.swept) < time.Second {
		return
	}
	m.swept = now
	for name, results := range m.releases {
		for at, r := range results {
			if r.done && now.Sub(r.since) > keptFor {
				delete(results, at)
				m.count--
			}
		}
		if len(results) == 0 {
			delete(m.releases, name)
		}
	}
}
