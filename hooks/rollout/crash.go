package rollout

import "fmt"

// DefaultMaxRestarts is how often a container may be started again before its crash
// loop is a failure. The kubelet starts it again at once, then after 10 and 20 s: with
// 3 a version that crashes when it starts fails after some 30 s.
const DefaultMaxRestarts = 3

// Crash is a crash loop: a container that ends again and again, and waits for its
// next start.
type Crash struct {
	// Restarts is how often it was started again since its pod was made. It comes from
	// a cache: it can lag behind, and after a failover of the cache it can go back.
	Restarts int64
	// Text names the pod, the container and how it ended last.
	Text string
}

func (s Settings) maxRestarts() int64 {
	if s.MaxRestarts == 0 {
		return DefaultMaxRestarts
	}
	return s.MaxRestarts
}

// crashed fails the target when a container of it is in a crash loop. There is no
// waiting for the deadline then: the kubelet waits up to 5 minutes between starts, and
// nothing gets better by itself.
//
// Only pods made in this attempt count (see [Deployment.Crash]), so that after a retry
// those that crashed before don't end the new attempt at once: they have until the
// deadline. The facts are about the attempt that was observed: one that begins just now
// has no pods yet. Crashes of the stable revision are no reason to keep it.
func (t *transition) crashed() bool {
	r, o := t.r, t.observed
	d := t.facts.of(r.Target.Number)
	if d == nil || d.Deleting || d.Crash == nil || t.paused() {
		return false
	}
	if o == nil || o.Target.Number != r.Target.Number || o.Attempt != r.Attempt {
		return false
	}
	most := r.Settings.maxRestarts()
	if d.Crash.Restarts < most {
		return false
	}
	t.fail(ReasonCrashLoop, fmt.Sprintf("%s; health.maxRestarts is %d", d.Crash.Text, most))
	return true
}

// why is what is known of the pods of a target that failed for want of them.
func (t *transition) why() string {
	if d := t.facts.of(t.r.Target.Number); d != nil && d.Trouble != "" {
		return ": " + d.Trouble
	}
	return ""
}
