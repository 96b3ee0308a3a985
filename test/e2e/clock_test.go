package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// TestClockOff runs the service with a clock that is five minutes off: a good
// release soaks as long as it should, a bad one is taken back and not before its
// deadline, an idle one costs nothing. Then the clock is put right in the middle of
// a release, as it would be where two instances disagree. It disturbs everybody, so
// it does not run in parallel.
func TestClockOff(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": 5 * time.Minute, "behind": -5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			plane.End("greyrelease", false)
			t.Cleanup(func() {
				// The context of the test has ended by now.
				plane.End("greyrelease", false)
				if err := plane.StartService(context.Background()); err != nil {
					t.Error(err)
				}
			})
			if err := plane.StartServiceAhead(t.Context(), ahead); err != nil {
				t.Fatal(err)
			}
			const soak, deadline = 5, 6
			s := begin(t, "web")
			s.install(4, object{"batchSize": int64(2), "soakSeconds": int64(soak)})
			s.patch(object{"targetVersion": "2.0"})
			s.says("soaking until")
			s.pods(map[string]int{"1.0": 2, "2.0": 2})
			full := time.Now()
			s.settled("2.0")
			s.pods(map[string]int{"2.0": 4})
			sizes, at := s.guard.asks("2.0")
			// The batch was full when it was seen so, or a moment before.
			if waited := at[slices.Index(sizes, 4)].Sub(full); waited < (soak-2)*time.Second {
				t.Errorf("want a soak of %d s, got %v", soak, waited)
			}
			s.idle()

			s.patch(object{"targetVersion": "3.0", "template": behaving("hang"), "progressDeadlineSeconds": int64(deadline)})
			s.phase(greyrelease.PhaseRolledBack)
			s.stays(map[string]int{"2.0": 4})
			sizes, at = s.guard.asks("3.0")
			if took := at[slices.Index(sizes, 0)].Sub(at[0]); took < (deadline-1)*time.Second {
				t.Errorf("want a deadline of %d s, got %v", deadline, took)
			}

			s.patch(object{
				"targetVersion": "4.0", "template": object{"metadata": nil}, "progressDeadlineSeconds": nil, "soakSeconds": nil,
				"batches": []any{object{"replicas": int64(2), "approval": true}},
			})
			s.phase(greyrelease.PhasePaused)
			s.pods(map[string]int{"2.0": 2, "4.0": 2})
			plane.End("greyrelease", false)
			s.must(plane.StartService(s.ctx))
			s.merge(object{"metadata": object{"annotations": object{"poke": name}}})
			s.stays(map[string]int{"2.0": 2, "4.0": 2})
			s.command("promote")
			s.settled("4.0")
			s.pods(map[string]int{"4.0": 4})
			s.idle()
			s.made(map[string]int{"1.0": 4, "2.0": 4, "3.0": 1, "4.0": 4})
		})
	}
}
