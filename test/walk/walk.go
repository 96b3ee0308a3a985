package walk

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
)

// Walk takes a release for the walk with this seed. trace, if not nil, is called
// with a line for everything that happens. The error is the first broken rule.
func Walk(seed uint64, hook sim.Hook, trace func(line string)) error {
	return walk(newWorld(seed, hook), trace, moves)
}

func walk(w *world, trace func(line string), moves []move) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if trace != nil {
		w.Trace(trace)
	}
	if err := w.create(); err != nil {
		return err
	}
	if err := w.rest(); err != nil {
		return err
	}
	for range 8 + w.r.IntN(16) {
		if err := w.move(moves); err != nil {
			return fmt.Errorf("cannot make a move: %w", err)
		}
		if err := w.rest(); err != nil {
			return err
		}
	}
	return w.settle()
}

// rest lets some time pass.
func (w *world) rest() error {
	if w.r.IntN(4) > 0 {
		return w.Run(between(w.r, 2*time.Minute))
	}
	if _, err := w.Until(10*time.Minute, w.Quiet); err != nil {
		return err
	}
	return w.checkQuiet()
}

// checkQuiet is I10: where nothing more is going to happen, the release is at an
// end or waits for somebody.
func (w *world) checkQuiet() error {
	o := w.Server.Get(w.release)
	if o == nil || !w.Quiet() || o.Int("status", "observedGeneration") != o.Generation() {
		return nil
	}
	phase, message := w.text("phase"), w.text("message")
	switch phase {
	case "Healthy", "RolledBack", "Degraded", "Invalid":
		return nil
	case "Paused":
		for _, reason := range []string{"spec.paused", "scaled to 0", "approval"} {
			if strings.Contains(message, reason) {
				return nil
			}
		}
	}
	return fmt.Errorf("I10: nothing is going to happen, and it waits for nobody: %s: %s", phase, message)
}
