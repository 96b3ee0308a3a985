package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// family is one metric with all its series.
type family interface {
	write(out *bytes.Buffer)
}

// mostSeries bounds the series of one metric, whatever its labels are given.
// Label values come from closed sets (9 phases make at most 90 transitions),
// so that only a mistake reaches it. What is above counts as other.
const mostSeries = 100

// counter only goes up.
type counter struct {
	name, help string
	labelNames []string

	mu     sync.Mutex
	series map[string]float64 // by labels
}

func newCounter(name, help string, labelNames ...string) *counter {
	return &counter{name: name, help: help, labelNames: labelNames, series: map[string]float64{}}
}

// add counts n, for one value of each label. Adding 0 makes the series visible.
func (c *counter) add(n float64, labelValues ...string) {
	key := labels(c.labelNames, labelValues)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.series[key]; !known && len(c.series) >= mostSeries {
		key = labels(c.labelNames, slices.Repeat([]string{"other"}, len(c.labelNames)))
	}
	c.series[key] += n
}

func (c *counter) write(out *bytes.Buffer) {
	writeHead(out, c.name, c.help, "counter")
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.series)) {
		writeSample(out, c.name, key, c.series[key])
	}
}

// histogram counts observations by size.
type histogram struct {
	name, help string
	labelNames []string
	bounds     []float64 // ascending

	mu     sync.Mutex
	series map[string]*distribution // by labels
}

// distribution has one count for each bound, and the last for what is above.
type distribution struct {
	counts []uint64
	sum    float64
}

func newHistogram(name, help string, bounds []float64, labelNames ...string) *histogram {
	return &histogram{name: name, help: help, labelNames: labelNames, bounds: bounds, series: map[string]*distribution{}}
}

// observe adds one value. The values of labels must be from a closed set.
func (h *histogram) observe(value float64, labelValues ...string) {
	key := labels(h.labelNames, labelValues)
	// A value on a bound belongs below it.
	at, _ := slices.BinarySearch(h.bounds, value)
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.series[key]
	if d == nil {
		d = &distribution{counts: make([]uint64, len(h.bounds)+1)}
		h.series[key] = d
	}
	d.counts[at]++
	d.sum += value
}

func (h *histogram) write(out *bytes.Buffer) {
	writeHead(out, h.name, h.help, "histogram")
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(h.series)) {
		d := h.series[key]
		var total uint64
		for i, count := range d.counts {
			total += count
			bound := "+Inf"
			if i < len(h.bounds) {
				bound = number(h.bounds[i])
			}
			within := labels([]string{"le"}, []string{bound})
			if key != "" {
				within = key + "," + within
			}
			writeSample(out, h.name+"_bucket", within, float64(total))
		}
		writeSample(out, h.name+"_sum", key, d.sum)
		writeSample(out, h.name+"_count", key, float64(total))
	}
}

// gauge is read when it is asked for.
type gauge struct {
	name, help string
	labels     string
	read       func() float64
}

func (g *gauge) write(out *bytes.Buffer) {
	writeHead(out, g.name, g.help, "gauge")
	writeSample(out, g.name, g.labels, g.read())
}

func writeHead(out *bytes.Buffer, name, help, kind string) {
	fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help), name, kind)
}

func writeSample(out *bytes.Buffer, name, labels string, value float64) {
	out.WriteString(name)
	if labels != "" {
		out.WriteString("{" + labels + "}")
	}
	out.WriteString(" " + number(value) + "\n")
}

// labels renders label pairs as they stand between the braces.
func labels(names, values []string) string {
	if len(names) != len(values) {
		panic(fmt.Sprintf("labels %q with values %q", names, values))
	}
	pairs := make([]string, len(names))
	for i, name := range names {
		pairs[i] = name + `="` + labelEscapes.Replace(strings.ToValidUTF8(values[i], "\ufffd")) + `"`
	}
	return strings.Join(pairs, ",")
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func number(value float64) string {
	return strconv.FormatFloat(value, 'f', -1, 64)
}
