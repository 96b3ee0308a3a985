package main

import (
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMetricsGolden(t *testing.T) {
	m := newMetrics(build{"v1.2.3", `a"b\c`, "go1.26"}, time.Unix(1796040000, 0))
	m.requests.add(1, "sync", "200")
	m.requests.add(2, "sync", "413")
	m.duration.observe(0.0005, "sync")
	m.duration.observe(0.0006, "sync")
	m.duration.observe(11, "sync")
	m.requestSize.observe(30000, "sync")
	m.responseSize.observe(12000, "sync")
	m.transitions.add(1, "", "Pending")
	m.transitions.add(1, "Pending", "Healthy")
	m.rollbacks.add(1, "Aborted")
	m.rejected.add(1, limitBody)
	text := scrape(m)
	// What the runtime says differs from run to run.
	text = regexp.MustCompile(`(?m)^(go_\w+) \S+$`).ReplaceAllString(text, "$1 N")
	checkGolden(t, "testdata/metrics.golden", text)
}

var (
	metricName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)`)
)

// The rules that promtool checks: HELP and TYPE before the samples and once,
// a full stop or words in HELP, names that say the unit, _total for counters
// and nothing else, no doubles, histograms that add up.
func TestMetricsAreWellFormed(t *testing.T) {
	f := start(t, echo())
	f.wantGood(t)
	f.post(t, "{}")
	f.metrics.transitions.add(1, `we"ird\`, "new\nline")

	kinds, seen := map[string]string{}, map[string]bool{}
	lastBucket, infinite := map[string]float64{}, map[string]float64{}
	help := ""
	for _, line := range strings.Split(strings.TrimSuffix(scrape(f.metrics), "\n"), "\n") {
		switch fields := strings.SplitN(line, " ", 4); {
		case strings.HasPrefix(line, "# HELP "):
			help = fields[2]
			if len(fields) < 4 || !metricName.MatchString(help) {
				t.Errorf("want a name and a text, got %s", line)
			}
			continue
		case strings.HasPrefix(line, "# TYPE "):
			name, kind := fields[2], fields[3]
			if name != help || kinds[name] != "" {
				t.Errorf("want TYPE once after HELP, got %s", line)
			}
			if (kind == "counter") != strings.HasSuffix(name, "_total") {
				t.Errorf("want _total for counters and for nothing else, got %s", line)
			}
			if kind == "histogram" && !strings.HasSuffix(name, "_seconds") && !strings.HasSuffix(name, "_bytes") {
				t.Errorf("want the unit in the name, got %s", line)
			}
			kinds[name] = kind
			continue
		}
		match := sampleLine.FindStringSubmatch(line)
		if match == nil {
			t.Errorf("want a sample, got %s", line)
			continue
		}
		if seen[match[1]+match[2]] {
			t.Errorf("want each series once, got %s again", line)
		}
		seen[match[1]+match[2]] = true
		value, err := strconv.ParseFloat(match[3], 64)
		if err != nil || value < 0 || math.IsNaN(value) {
			t.Errorf("want a number, got %s", line)
		}
		names, le := parseLabels(t, match[2])
		base := match[1]
		if kinds[help] == "histogram" {
			base = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(base, "")
		}
		if base != help {
			t.Errorf("want samples of %s, got %s", help, line)
		}
		series := base + fmt.Sprint(names)
		switch {
		case strings.HasSuffix(match[1], "_bucket"):
			if value < lastBucket[series] {
				t.Errorf("want buckets that grow, got %s after %v", line, lastBucket[series])
			}
			lastBucket[series] = value
			if le == "+Inf" {
				infinite[series] = value
			}
		case kinds[base] == "histogram" && strings.HasSuffix(match[1], "_count"):
			if all, there := infinite[series]; !there || all != value {
				t.Errorf("want the count of the last bucket, %v, got %s", all, line)
			}
		}
	}
	if len(kinds) < 13 {
		t.Errorf("want all metrics, got %v", kinds)
	}
}

// parseLabels returns the labels but le, and le.
func parseLabels(t *testing.T, text string) (names map[string]string, le string) {
	t.Helper()
	names = map[string]string{}
	for text != "" {
		match := labelPair.FindStringSubmatch(text)
		if match == nil {
			t.Errorf("want label pairs, got %s", text)
			return names, le
		}
		if match[1] == "le" {
			le = match[2]
		} else {
			names[match[1]] = match[2]
		}
		text = text[len(match[0]):]
	}
	return names, le
}

// A rollback for a reason that was never seen before is an increase too.
func TestEveryReasonIsCountedFromZero(t *testing.T) {
	source, err := os.ReadFile("../hooks/rollout/record.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 7 {
		t.Fatalf("want at least 7 reasons, found %d", len(reasons))
	}
	text := scrape(newMetrics(build{}, time.Now()))
	for _, reason := range append(reasons, []string{"", reverted}) {
		if line := fmt.Sprintf("greyrelease_rollbacks_total{reason=%q} 0\n", reason[1]); !strings.Contains(text, line) {
			t.Errorf("want %s", line)
		}
	}
}

func TestSeriesAreBounded(t *testing.T) {
	c := newCounter("x_total", "x", "a", "b")
	for i := range 10_000 {
		c.add(1, strconv.Itoa(i), "y")
	}
	if got, want := len(c.series), mostSeries+1; want != got {
		t.Errorf("want %d series, got %d", want, got)
	}
	if got, want := c.series[`a="other",b="other"`], float64(10_000-mostSeries); want != got {
		t.Errorf("want %v others, got %v", want, got)
	}
	c.add(1, "7", "y")
	if got := c.series[`a="7",b="y"`]; got != 2 {
		t.Errorf("want a known series counted further, got %v", got)
	}
}

func TestMetricsSayTheirFormat(t *testing.T) {
	w := httptest.NewRecorder()
	newMetrics(build{}, time.Now()).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got, want := w.Header().Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8"; want != got {
		t.Errorf("want %s, got %s", want, got)
	}
}
