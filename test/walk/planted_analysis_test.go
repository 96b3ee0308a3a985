package walk

import (
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
)

// lying is a service that makes something else of what Prometheus answers, which the
// rules see as it is.
func lying(bug func(value, problem string) (string, string)) func(*sim.Prometheus) sim.Hook {
	return func(p *sim.Prometheus) sim.Hook {
		q := &sim.Prometheus{}
		q.Answer = func(query string, at time.Time) (string, string) { return bug(p.Answer(query, at)) }
		return func(body []byte, now time.Time) (sim.Reply, error) {
			known := len(q.Log)
			reply, err := q.Sync(body, now)
			for _, a := range q.Log[known:] {
				a.Value, a.Problem = p.Answer(a.Text, a.Time)
				p.Log = append(p.Log, a)
			}
			return reply, err
		}
	}
}

// plantedAnalysis are bugs of analysis with the rule that catches each.
var plantedAnalysis = []struct {
	name, rule string
	hook       func(*sim.Prometheus) sim.Hook
}{
	{"what cannot be measured passes", "I13", lying(func(value, problem string) (string, string) {
		if problem != "" || value == "NaN" {
			return "0.01", ""
		}
		return value, problem
	})},
	{"a failure passes", "I13", lying(func(value, problem string) (string, string) {
		if value == "0.9" {
			return "0.01", ""
		}
		return value, problem
	})},
	{"what cannot be measured fails", "I13 for metrics", lying(func(value, problem string) (string, string) {
		if problem != "" || value == "NaN" {
			return "0.9", ""
		}
		return value, problem
	})},
}

// TestPlantedAnalysisBugs: each bug is caught by its rule in a walk that the product
// itself passes.
func TestPlantedAnalysisBugs(t *testing.T) {
	const seeds = 60
	for _, bug := range plantedAnalysis {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				err := WalkAnalysis(seed, bug.hook, nil)
				honest := func(p *sim.Prometheus) sim.Hook { return p.Sync }
				if err == nil || !strings.HasPrefix(err.Error(), bug.rule+":") || WalkAnalysis(seed, honest, nil) != nil {
					continue
				}
				text := err.Error()
				t.Logf("seed %d: %s", seed, text[:min(len(text), 200)])
				return
			}
			t.Errorf("not caught by %d walks", seeds)
		})
	}
}
