package clients

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Share is what was measured of a version while the weights stood.
type Share struct {
	Batch   string
	Asked   int // percent
	Hits, N int
	Failed  int
	Counted bool // enough requests to judge
}

// enough is how many requests a share is measured by.
const enough = 2000

// settle is how long after a reload of the proxy nothing is measured.
const settle = time.Second

// Measure counts the requests without the header that were sent from one instant to
// another and that a version answered. Those within a second of a reload are left
// out of the share, and of what failed none.
func Measure(results []Result, batch, version string, asked int, from, to time.Time, reloads []time.Time) Share {
	s := Share{Batch: batch, Asked: asked}
	for _, r := range results {
		if r.At.Before(from) || !r.At.Before(to) {
			continue
		}
		if r.Failure != "" {
			s.Failed++
			continue
		}
		if r.Kind == Marked || near(r.At, r.Took, reloads) {
			continue
		}
		s.N++
		if r.Version == version {
			s.Hits++
		}
	}
	s.Counted = s.N >= enough
	return s
}

// near tells whether a request met a reload, or was sent within a second of one.
// An instant is noted when the reload is over; it began at most as long before.
func near(at time.Time, took time.Duration, reloads []time.Time) bool {
	return slices.ContainsFunc(reloads, func(reload time.Time) bool {
		return at.Add(took).After(reload.Add(-settle)) && at.Before(reload.Add(settle))
	})
}

// Measured is the share that the version got.
func (s Share) Measured() float64 { return float64(s.Hits) / float64(max(1, s.N)) }

// Bound is four standard deviations of a share of n requests: for 2,000 requests of
// which 20% are asked, 4*sqrt(0.2*0.8/2000) = 3.6 points. For 0 and 100% it is none.
func (s Share) Bound() float64 {
	w := float64(s.Asked) / 100
	return 4 * math.Sqrt(w*(1-w)/float64(max(1, s.N)))
}

// Wrong says what is wrong with the share, or "".
func (s Share) Wrong() string {
	switch off := math.Abs(s.Measured() - float64(s.Asked)/100); {
	case !s.Counted:
		return fmt.Sprintf("want at least %d requests in %s, got %d", enough, s.Batch, s.N)
	case off > s.Bound():
		return fmt.Sprintf("want %d%% of the requests in %s, within %.1f points, got %.1f%% of %d", s.Asked, s.Batch, 100*s.Bound(), 100*s.Measured(), s.N)
	}
	return ""
}

// Table prints shares, one a line.
func Table(shares []Share) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s %6s %9s %6s %7s %7s\n", "batch", "asked", "measured", "±", "n", "failed")
	for _, s := range shares {
		fmt.Fprintf(&b, "%-28s %5d%% %8.1f%% %6.1f %7d %7d\n", s.Batch, s.Asked, 100*s.Measured(), 100*s.Bound(), s.N, s.Failed)
	}
	return b.String()
}

// Failures lists the failed requests, at most ten by name and the number of the rest.
func Failures(results []Result) []string {
	var list []string
	n := 0
	for _, r := range results {
		if r.Failure == "" {
			continue
		}
		if n++; n <= 10 {
			list = append(list, fmt.Sprintf("%s %s: %s (%s)", r.At.UTC().Format("15:04:05.000"), r.Kind, r.Failure, r.Pod))
		}
	}
	if n > 10 {
		list = append(list, fmt.Sprintf("and %d more", n-10))
	}
	return list
}

// Lost counts the requests that failed.
func Lost(results []Result) int {
	n := 0
	for _, r := range results {
		if r.Failure != "" {
			n++
		}
	}
	return n
}
