package rollout

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var routeSeeds = flag.Uint64("route-seeds", 200, "number of random lives of a release with a router")

// TestRoutesAtRandom lives through edits, scaling, commands, lost records, slow
// gateways and pods that come late or not at all. The model fails when requests
// are led to a version without pods; here it is also asked that a version's share
// never exceeds what its pods serve where the stable revision gives way with the
// batches, and that it comes to rest.
func TestRoutesAtRandom(t *testing.T) {
	for seed := uint64(1); seed <= *routeSeeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomRoutes(t, seed) })
	}
}

func randomRoutes(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	pick := func(n int) int { return r.IntN(n) }
	router := []Router{RouterWeights, RouterPair, RouterSwitch}[pick(3)]
	m := routed(t, int64(1+pick(12)), router, router == RouterSwitch || pick(2) == 0)
	s := &m.wish.Settings
	s.ScaleDownDelaySeconds = int64(pick(3) * 15)
	s.Headers = router != RouterSwitch && pick(2) == 0
	s.MaxUnavailable = Quantity{Value: int64(pick(2) * 25), Percent: true}
	last := int64(1)
	for range 25 {
		switch pick(12) {
		case 0, 1, 2:
			last++
			m.ready[last] = []time.Duration{0, time.Second, 5 * time.Second, 30 * time.Second, -1}[pick(5)]
			m.target(last)
		case 3:
			m.target(int64(1 + pick(int(last))))
		case 4:
			if router == RouterSwitch {
				zero := int64(0)
				s.Batches = []Batch{{Percent: 100, Weight: &zero, SoakSeconds: int64(pick(20)), Approval: pick(2) == 0}}
				break
			}
			s.Batches = nil
			for at := int64(1 + pick(30)); at < 100; at += int64(1 + pick(50)) {
				b := Batch{Percent: at, SoakSeconds: int64(pick(10)), Approval: pick(3) == 0}
				if w := int64(pick(101)); pick(3) == 0 {
					b.Weight = &w
				}
				s.Batches = append(s.Batches, b)
			}
		case 5:
			m.wish.Replicas = int64(1 + pick(12))
		case 6, 7:
			if m.record != nil {
				m.wish.Command = []string{m.record.Abort(), m.record.Retry(), m.record.Promote(0), m.record.Promote(1 + int64(pick(12)))}[pick(4)]
			}
		case 8:
			m.lag = time.Duration(pick(60)) * time.Second
		case 9:
			s.Paused = !s.Paused
		case 10:
			f := m.facts()
			for i := range f.Deployments {
				f.Deployments[i].Stable = f.Deployments[i].Revision == m.record.Stable.Number
			}
			h := Hints{Highest: last, Stable: m.record.Stable}
			if again := Rebuild(&m.wish, f, h, m.now); again != nil {
				m.record = again
			}
		case 11:
			s.ProgressDeadlineSeconds = int64(20 + pick(100))
		}
		m.run(time.Duration(1+pick(40)) * time.Second)
	}
	s.Paused, m.lag, m.wish.Command = false, 0, ""
	for n := range m.ready {
		m.ready[n] = 0
	}
	last++
	m.ready[last] = 0
	m.target(last)
	for range 20 {
		m.run(time.Minute)
		m.wish.Command = m.record.Promote(0)
	}
	m.run(time.Hour)
	wantLine(t, m, fmt.Sprintf("Complete target=%d.1 stable=%d %d:%d/%d@100%%", last, last, last, m.wish.Replicas, m.wish.Replicas))
}
