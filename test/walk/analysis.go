package walk

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"greyrelease.example.com/test/sim"
)

// WalkAnalysis takes a release that is judged by metrics for the walk with this seed,
// as Walk does for one without. hook makes the hook out of what answers queries.
func WalkAnalysis(seed uint64, hook func(*sim.Prometheus) sim.Hook, trace func(line string)) error {
	return walk(newAnalysisWorld(seed, hook), trace, analysisMoves)
}

// newAnalysisWorld is a world with a Prometheus.
func newAnalysisWorld(seed uint64, hook func(*sim.Prometheus) sim.Hook) *world {
	r := rand.New(rand.NewPCG(seed, 0x6d657472696373))
	options := temperament(seed, r)
	p := &sim.Prometheus{Absent: r.IntN(8) == 0}
	options.Prometheus = p
	w := settled(options, hook(p), r)
	w.prometheus, w.mood = p, r.IntN(4)
	p.Answer = w.answer
	p.Delay = between(r, 10*time.Second)
	return w
}

// answer draws what a query gives at an instant. Whoever asks again is told the same.
func (w *world) answer(query string, at time.Time) (value, problem string) {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64([]byte(query), uint64(at.Unix())))
	n := h.Sum64() % 100
	// Good, flapping, mostly blind, bad.
	bad := []uint64{2, 30, 10, 90}[w.mood]
	blind := []uint64{5, 30, 80, 5}[w.mood]
	switch {
	case w.calm:
		return "0.01", ""
	case n < bad:
		return "0.9", ""
	case n < bad+blind:
		return []string{"NaN", "", ""}[n%3], []string{"", "the query returned no data", "no answer in time"}[n%3]
	}
	return "0.01", ""
}

// analysis sets the part of a spec that is about metrics.
func (w *world) analysis(spec map[string]any) {
	if w.prometheus == nil {
		return
	}
	spec["analysis"] = nil
	var metrics []any
	for _, name := range []string{"errors", "latency"}[:pick(w.r, 0, 1, 1, 1, 2, 2, 2)] {
		m := map[string]any{
			"name": name, "query": name + `{version="$(version)",of="$(stableRevision)"}`, "max": pick[any](w.r, 0.05, 0.05, 1.5, int64(1)),
			"intervalSeconds": int64(pick(w.r, 1, 5, 10, 60)), "failureLimit": int64(pick(w.r, 0, 1, 3)),
		}
		if w.r.IntN(4) == 0 {
			m["inconclusiveLimit"] = int64(pick(w.r, 0, 2, 5))
		}
		if w.r.IntN(4) == 0 {
			m["initialDelaySeconds"] = int64(pick(w.r, 5, 30, 120))
		}
		metrics = append(metrics, m)
	}
	if len(metrics) > 0 {
		spec["analysis"] = map[string]any{"metrics": metrics}
	}
}

// another releases another version, and gives it the time to be measured.
func (w *world) another() error {
	if err := w.Run(5 * time.Second); err != nil {
		return err
	}
	if err := w.edit(map[string]any{"targetVersion": w.version()}); err != nil {
		return err
	}
	return w.Run(5*time.Second + between(w.r, 2*time.Minute))
}

// analysisMoves are what happens to metrics, beside all else.
var analysisMoves = append([]move{
	{90, (*world).another}, {30, func(w *world) error { return w.edit(map[string]any{"targetVersion": w.version()}) }},
	{10, func(w *world) error { w.mood = w.r.IntN(4); return nil }},
	{6, func(w *world) error { return w.respec(w.analysis) }},
	{4, func(w *world) error { w.prometheus.Forget(); return nil }},
	{4, func(w *world) error { w.prometheus.Delay = between(w.r, 10*time.Second); return nil }},
	{3, func(w *world) error {
		w.prometheus.Absent, w.prometheus.Told = !w.prometheus.Absent, w.Now()
		return w.Run(time.Second)
	}},
}, moves...)
