package main

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestCollectorIsTunedUnlessItIs(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	c := &config{maxBuffered: 100 << 20}
	for _, row := range []struct {
		why         string
		environment map[string]string
		percent     int
		limit       int64
	}{
		{"nothing is set", nil, 200, 364 << 20},
		{"GOGC is", map[string]string{"GOGC": "100"}, 100, 364 << 20},
		{"GOMEMLIMIT is", map[string]string{"GOMEMLIMIT": "1GiB"}, 200, math.MaxInt64},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		tuneCollector(c, func(name string) (string, bool) {
			value, set := row.environment[name]
			return value, set
		})
		if got := debug.SetGCPercent(100); got != row.percent {
			t.Errorf("%s: want %d%%, got %d%%", row.why, row.percent, got)
		}
		if got := debug.SetMemoryLimit(-1); got != row.limit {
			t.Errorf("%s: want a limit of %d, got %d", row.why, row.limit, got)
		}
	}
}
