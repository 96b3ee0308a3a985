package walk

import (
	"math/rand/v2"

	"greyrelease.example.com/test/sim"
)

// WalkPods takes a release whose pods are looked at for the walk with this seed.
func WalkPods(seed uint64, hook sim.Hook, trace func(line string)) error {
	r := rand.New(rand.NewPCG(seed, 0x706f6473))
	options := temperament(seed, r)
	options.Pods, options.Customize = true, sim.Customize
	return walk(settled(options, hook, r), trace, podMoves)
}

// podMoves are what happens to pods, beside all else.
var podMoves = append([]move{
	{8, func(w *world) error { return w.respec(w.health) }},
	{10, func(w *world) error { w.Turn(w.version(), w.crashing()); return nil }},
	{6, func(w *world) error { w.Fit(2 + w.r.IntN(12)); return nil }},
}, moves...)

// crashing is how pods fail that say why.
func (w *world) crashing() sim.Behavior {
	b := w.temper(false)
	switch w.r.IntN(4) {
	case 0:
		b = sim.Behavior{Crash: true, OOM: w.r.IntN(2) == 0, Says: pick(w.r, "", "panic: no database")}
	case 1:
		b = sim.Behavior{Config: true}
	}
	return b
}

// health sets the part of a spec that is about crash loops.
func (w *world) health(spec map[string]any) {
	spec["health"] = nil
	if w.r.IntN(2) == 0 {
		spec["health"] = map[string]any{"maxRestarts": int64(pick(w.r, 1, 1, 2, 5, 10))}
	}
}
