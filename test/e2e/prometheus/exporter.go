package prometheus

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Exporter is what pods of stories would export.
type Exporter struct {
	mu     sync.Mutex
	series map[string]*series
}

// series is a gauge, or a counter that grows by itself.
type series struct {
	value func(at time.Time) float64
}

func newExporter() *Exporter { return &Exporter{series: map[string]*series{}} }

// Set makes a series a gauge with a value; name is the metric with its labels.
func (e *Exporter) Set(name string, value float64) {
	e.put(name, func(time.Time) float64 { return value })
}

// Count makes a series a counter that grows by so much a second.
func (e *Exporter) Count(name string, perSecond float64) {
	from := time.Now()
	e.put(name, func(at time.Time) float64 { return perSecond * at.Sub(from).Seconds() })
}

// Flap makes a series a gauge that is 0 and 1 in turns of this length, 0 first.
func (e *Exporter) Flap(name string, turn time.Duration) {
	from := time.Now()
	e.put(name, func(at time.Time) float64 { return float64(at.Sub(from) / turn % 2) })
}

// Remove takes a series away.
func (e *Exporter) Remove(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.series, name)
}

func (e *Exporter) put(name string, value func(time.Time) float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.series[name] = &series{value}
}

// ServeHTTP is the page that is scraped.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, name := range slices.Sorted(maps.Keys(e.series)) {
		fmt.Fprintf(w, "%s %g\n", name, e.series[name].value(now))
	}
}
