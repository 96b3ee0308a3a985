package rollout

import (
	"testing"
	"time"
)

// A crash loop of the target fails the attempt that the facts are about, and no other.
func TestCrashLoopFailsTheTarget(t *testing.T) {
	loop := func(restarts int64) *Crash {
		return &Crash{Restarts: restarts, Text: "pod web-x, container app: CrashLoopBackOff"}
	}
	for _, tt := range []struct {
		why      string
		revision int64
		crash    *Crash
		change   func(m *model, f *Facts)
		stage    Stage
		message  string
	}{
		{"no crash is known", 2, nil, nil, Rolling, ""},
		{"too few restarts", 2, loop(2), nil, Rolling, ""},
		{"three restarts", 2, loop(3), nil, RollingBack, "pod web-x, container app: CrashLoopBackOff; health.maxRestarts is 3"},
		{"the limit of the spec", 2, loop(6), func(m *model, _ *Facts) { m.wish.Settings.MaxRestarts = 7 }, Rolling, ""},
		{"the limit of the spec is reached", 2, loop(7), func(m *model, _ *Facts) { m.wish.Settings.MaxRestarts = 7 }, RollingBack,
			"pod web-x, container app: CrashLoopBackOff; health.maxRestarts is 7"},
		{"the stable revision", 1, loop(100), nil, Rolling, ""},
		{"the Deployment is on its way out, and its pods with it", 2, loop(100), func(_ *model, f *Facts) { f.of(2).Deleting = true }, Rolling, ""},
		{"paused", 2, loop(100), func(m *model, _ *Facts) { m.wish.Settings.Paused = true }, Rolling, ""},
		{"the spec is invalid, and the last valid limit counts", 2, loop(3), func(m *model, _ *Facts) { m.wish.Valid = false }, RollingBack,
			"pod web-x, container app: CrashLoopBackOff; health.maxRestarts is 3"},
		{"no way back is wanted", 2, loop(3), func(m *model, _ *Facts) { m.wish.Settings.AutoRollback = false }, Held,
			"pod web-x, container app: CrashLoopBackOff; health.maxRestarts is 3"},
		{"scaled to 0", 2, loop(100), func(m *model, _ *Facts) { m.wish.Replicas = 0 }, Rolling, ""},
		{"another target begins with this step", 2, loop(100), func(m *model, _ *Facts) { m.wish.Content = Revision{Number: 3, Hash: "c", Version: "3.0"} }, Rolling, ""},
		{"the stable revision becomes the target again", 2, loop(100), func(m *model, _ *Facts) { m.wish.Content = m.rev[1] }, Restoring, ""},
	} {
		t.Run(tt.why, func(t *testing.T) {
			m := installed(t, 4)
			m.ready[2] = -1
			m.target(2)
			m.run(5 * time.Second)
			f := m.facts()
			f.of(tt.revision).Crash = tt.crash
			if tt.change != nil {
				tt.change(m, f)
			}
			next, _ := Next(m.record, &m.wish, f, m.now)
			if next.Stage != tt.stage {
				t.Errorf("want %s, got %s", tt.stage, next.Stage)
			}
			message := ""
			if next.Failure != nil {
				message = next.Failure.Message
				if next.Failure.Reason != ReasonCrashLoop {
					t.Errorf("want the reason %s, got %s", ReasonCrashLoop, next.Failure.Reason)
				}
			}
			if message != tt.message {
				t.Errorf("want %q, got %q", tt.message, message)
			}
		})
	}
}

// A retry is not ended by what is known of the pods of before, in the step that begins
// it: nobody could ever try again.
func TestRetryIsNotEndedByOldCrashes(t *testing.T) {
	m := installed(t, 4)
	m.wish.Settings.AutoRollback = false
	m.ready[2] = -1
	m.target(2)
	m.run(5 * time.Second)
	f := m.facts()
	f.of(2).Crash = &Crash{Restarts: 3, Text: "pod web-x"}
	m.record, _ = Next(m.record, &m.wish, f, m.now)
	if m.record.Stage != Held {
		t.Fatalf("want Held, got %s", m.record.Stage)
	}
	m.wish.Command = m.record.Retry()
	next, _ := Next(m.record, &m.wish, f, m.now)
	if next.Stage != Rolling || next.Attempt != 2 {
		t.Errorf("want attempt 2 to begin, got %s in attempt %d", next.Stage, next.Attempt)
	}
}

// What a completed revision does later fails nothing.
func TestCrashesAfterCompletionFailNothing(t *testing.T) {
	m := installed(t, 4)
	f := m.facts()
	f.of(1).Crash = &Crash{Restarts: 1000, Text: "pod web-x"}
	if next, _ := Next(m.record, &m.wish, f, m.now); next != m.record {
		t.Errorf("want nothing to change, got %+v", next)
	}
}

// The message of a deadline says what is known of the pods.
func TestDeadlineSaysWhatIsWrong(t *testing.T) {
	m := installed(t, 4)
	m.ready[2] = -1
	m.target(2)
	m.run(5 * time.Second)
	f := m.facts()
	f.of(2).Trouble = "pod web-x, container app: ImagePullBackOff"
	next, _ := Next(m.record, &m.wish, f, m.now.Add(time.Hour))
	want := "0 of 1 pods of revision 2 were available, and no further one became so within 600 s: pod web-x, container app: ImagePullBackOff"
	if next.Failure == nil || next.Failure.Message != want {
		t.Errorf("want %q, got %+v", want, next.Failure)
	}
}
