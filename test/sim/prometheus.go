package sim

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/sim/apply"
)

// Prometheus answers the queries of releases. Its method Sync is the hook of a
// service that asks it: as there, an answer comes after the sync that wanted it.
type Prometheus struct {
	// Absent: the service was not told of any.
	Absent bool
	// Told is when that last changed.
	Told time.Time
	// Delay is how long an answer takes, at least a moment.
	Delay time.Duration
	// Answer is what a query gives at an instant: a value, or a problem.
	Answer func(query string, at time.Time) (value, problem string)
	// Log is every answer there was.
	Log []Answered

	asked map[string]int // place in the log
}

// Answered is a query with its answer.
type Answered struct {
	greyrelease.Measurement
	// Ready is when the answer is there.
	Ready time.Time
}

// Sync is the product as a hook, with measurements.
func (p *Prometheus) Sync(body []byte, now time.Time) (Reply, error) {
	request, err := greyrelease.DecodeSync(body)
	if err != nil {
		return refusal(err), nil
	}
	response, err := greyrelease.Sync(request, p.finished(now), now.UTC().Truncate(time.Second))
	if err != nil {
		return refusal(err), nil
	}
	p.ask(response.Queries, now)
	text, err := response.Encode()
	if err != nil {
		return refusal(err), nil
	}
	return Reply{Status: http.StatusOK, Body: text}, nil
}

// Forget is what a restart of the service does: what it asked is lost.
func (p *Prometheus) Forget() { p.asked = nil }

func (p *Prometheus) finished(now time.Time) greyrelease.Measurements {
	have := greyrelease.Measurements{Available: !p.Absent}
	for _, at := range p.asked {
		// The last minutes are enough: what is older is not asked for any more.
		if a := p.Log[at]; !now.Before(a.Ready) && now.Sub(a.Ready) < 5*time.Minute {
			have.Finished = append(have.Finished, a.Measurement)
		}
	}
	return have
}

func (p *Prometheus) ask(queries []greyrelease.Query, now time.Time) {
	for _, q := range queries {
		key := fmt.Sprintf("%s@%d", q.Text, q.Time.Unix())
		if _, asked := p.asked[key]; asked {
			continue
		}
		if p.asked == nil {
			p.asked = map[string]int{}
		}
		m := greyrelease.Measurement{Query: q}
		if m.Value, m.Problem = p.Answer(q.Text, q.Time); p.Delay < time.Millisecond {
			p.Delay = time.Millisecond
		}
		p.asked[key] = len(p.Log)
		p.Log = append(p.Log, Answered{m, now.Add(p.Delay)})
	}
}

// answered tells whether an answer came between two instants, or the service was told
// of Prometheus or no longer.
func (p *Prometheus) answered(since, until time.Time) bool {
	if p != nil && !p.Told.IsZero() && !p.Told.Before(since) && !p.Told.After(until) {
		return true
	}
	return p != nil && slices.ContainsFunc(p.Log, func(a Answered) bool { return a.Ready.After(since) && !a.Ready.After(until) })
}

// measured is a metric of a spec as the rules see it. Its name is how its query
// begins, which stories and walks keep to.
type measured struct {
	name              string
	min, max          float64
	failures          int64
	inconclusiveLimit bool
}

func metricsOf(parent *Object) []measured {
	var list []measured
	for _, item := range apply.List(parent.Tree, "spec", "analysis", "metrics") {
		m := measured{name: apply.Text(item, "name"), min: math.Inf(-1), max: math.Inf(1), failures: number(item, "failureLimit")}
		if v := apply.Field(item, "min"); v != nil {
			m.min, _ = strconv.ParseFloat(fmt.Sprint(v), 64)
		}
		if v := apply.Field(item, "max"); v != nil {
			m.max, _ = strconv.ParseFloat(fmt.Sprint(v), 64)
		}
		m.inconclusiveLimit = apply.Field(item, "inconclusiveLimit") != nil
		list = append(list, m)
	}
	return list
}

// about tells whether an answer is one to this metric, for a version.
func (m measured) about(a Answered, version string) bool {
	return strings.HasPrefix(a.Text, m.name+"{") && strings.Contains(a.Text, `"`+version+`"`)
}

// good tells whether an answer is a success, or a failure; it may be neither.
func (m measured) good(a Answered) (success, failure bool) {
	v, err := strconv.ParseFloat(a.Value, 64)
	if a.Problem != "" || err != nil && !math.IsInf(v, 0) || math.IsNaN(v) {
		return false, false
	}
	return v >= m.min && v <= m.max, v < m.min || v > m.max
}

// passed tells whether each metric of a spec has had a success since an instant. Two
// batches that begin in one second are measured at one instant, with one answer.
func (p *Prometheus) passed(parent *Object, version string, since, now time.Time) bool {
	for _, m := range metricsOf(parent) {
		found := false
		for i := len(p.Log) - 1; i >= 0 && !found && !p.Log[i].Ready.Before(since.Truncate(time.Second)); i-- {
			a := p.Log[i]
			success, _ := m.good(a)
			found = success && m.about(a, version) && !a.Time.Before(since.Truncate(time.Second)) && !now.Before(a.Ready)
		}
		if !found {
			return false
		}
	}
	return true
}

// blamed is how a message says that metrics ended a release.
var blamed = regexp.MustCompile(`failed: metric ([a-z0-9-]+) (failed|was inconclusive)[^:]*: at (\S+Z)(?: it was (\S+),)?`)

// checkBlame: a version fails by a metric only if some spec of the release had that
// metric with a limit that its failures pass, the last of which is the one that the
// message tells of, or with a limit to what is inconclusive.
func checkBlame(c *Cluster, s *Sync) error {
	if !judged(s) || c.options.Prometheus == nil {
		return nil
	}
	message := apply.Text(s.Answer.Status, "message")
	m := blamed.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	version := apply.Text(s.Answer.Status, "targetVersion")
	for _, parent := range c.parents[s.Parent.UID] {
		for _, metric := range metricsOf(parent) {
			if metric.name != m[1] {
				continue
			}
			if m[2] == "was inconclusive" && metric.inconclusiveLimit {
				return nil
			}
			failures, told := int64(0), false
			for _, a := range c.options.Prometheus.Log {
				if _, failure := metric.good(a); failure && metric.about(a, version) {
					failures++
					told = told || a.Value == m[4] && a.Time.UTC().Format(time.RFC3339) == m[3]
				}
			}
			if m[2] == "failed" && told && failures > metric.failures {
				return nil
			}
		}
	}
	return fmt.Errorf("no limit of a metric was passed: %s", message)
}
