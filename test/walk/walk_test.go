package walk

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
)

var (
	seeds = flag.Uint64("seeds", 300, "number of walks")
	from  = flag.Uint64("from", 1, "seed of the first walk")
	only  = flag.Uint64("seed", 0, "take this walk alone and log everything")
	most  = flag.Int("failures", 1, "stop after so many failures")
)

// TestMain collects garbage less often: walks make much of it and keep little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

func TestWalk(t *testing.T) { walks(t, Walk, *seeds) }

// TestTrafficWalk has seeds of its own: releases with routers.
func TestTrafficWalk(t *testing.T) { walks(t, WalkTraffic, *seeds/3) }

// TestAnalysisWalk has seeds of its own too: releases that metrics judge.
func TestAnalysisWalk(t *testing.T) {
	walks(t, func(seed uint64, _ sim.Hook, trace func(string)) error {
		return WalkAnalysis(seed, func(p *sim.Prometheus) sim.Hook { return p.Sync }, trace)
	}, *seeds/3)
}

// TestPodWalk has seeds of its own: releases whose pods are looked at.
func TestPodWalk(t *testing.T) { walks(t, WalkPods, *seeds/3) }

// TestSecretWalk has seeds of its own: releases whose revisions move between
// ConfigMaps and Secrets.
func TestSecretWalk(t *testing.T) { walks(t, WalkSecrets, *seeds/3) }

// walks takes walks until enough of them failed.
func walks(t *testing.T, walk func(uint64, sim.Hook, func(string)) error, seeds uint64) {
	if *only > 0 {
		err := walk(*only, sim.Product, func(line string) { fmt.Fprintln(os.Stderr, line) })
		if err != nil {
			t.Fatalf("seed %d: %v", *only, err)
		}
		return
	}
	var next, failures atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				n := uint64(next.Add(1) - 1)
				if n >= seeds || failures.Load() >= int64(*most) {
					return
				}
				seed, start := *from+n, time.Now()
				if err := walk(seed, sim.Product, nil); err != nil {
					failures.Add(1)
					t.Errorf("seed %d: %v\nthe end of it:\n%s\nthe whole: go test ./test/walk -run '%s$' -seed %d", seed, err, ending(walk, seed), t.Name(), seed)
				}
				if took := time.Since(start); took > 20*time.Second {
					t.Logf("seed %d took %v", seed, took.Round(time.Second))
				}
			}
		})
	}
	group.Wait()
}

// ending takes a walk again and returns its last lines.
func ending(walk func(uint64, sim.Hook, func(string)) error, seed uint64) string {
	const most = 25
	var lines []string
	if err := walk(seed, sim.Product, func(line string) {
		lines = append(lines, line[:min(len(line), 300)])
		if len(lines) > 2*most {
			lines = append([]string(nil), lines[most:]...)
		}
	}); err == nil {
		return "it went well the second time"
	}
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
