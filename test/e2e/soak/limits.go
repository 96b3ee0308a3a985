package main

import (
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// limits are the numbers of pods that a spec promises.
type limits struct{ replicas, floor, ceiling int }

// limitsOf resolves them as the documentation says, without the product's code.
func limitsOf(spec *greyrelease.GreyReleaseSpec) limits {
	replicas := 1
	if spec.Replicas != nil {
		replicas = int(*spec.Replicas)
	}
	surge := resolve(spec.MaxSurge, intstr.FromString("25%"), replicas, true)
	unavailable := resolve(spec.MaxUnavailable, intstr.FromInt32(0), replicas, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	l := limits{replicas, replicas - min(unavailable, replicas), replicas + surge}
	if spec.Traffic != nil && spec.Traffic.HTTPRoute != nil {
		l.ceiling += replicas // the version that requests are leaving is kept for a while
	}
	return l
}

func resolve(value *intstr.IntOrString, absent intstr.IntOrString, of int, up bool) int {
	if value == nil {
		value = &absent
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, of, up)
	if err != nil {
		return 0
	}
	return n
}

// linger is how long the limits of a spec stay in force after a later one was observed:
// what an answer does follows the record that it found, which was written under the spec
// before, and a busy machine takes seconds for the next.
const linger = 10 * time.Second

// wish is a generation of a spec.
type wish struct {
	generation int64
	limits
	passed time.Time // when it was seen that a later one was observed; zero before
}

// wishes are the generations that may be in force, the live one last.
type wishes []wish

// add takes up a generation.
func (w *wishes) add(generation int64, l limits) {
	if n := len(*w); n > 0 && (*w)[n-1].generation == generation {
		return
	}
	*w = append(*w, wish{generation: generation, limits: l})
}

// observe takes note that the status answers a generation.
func (w wishes) observe(generation int64, now time.Time) {
	for i := range w {
		if w[i].generation < generation && w[i].passed.IsZero() {
			w[i].passed = now
		}
	}
}

// inForce forgets what is in force no more, and returns the widest of what is.
func (w *wishes) inForce(now time.Time) limits {
	last := len(*w) - 1
	kept := wishes{}
	for i, one := range *w {
		if i == last || one.passed.IsZero() || now.Sub(one.passed) < linger {
			kept = append(kept, one)
		}
	}
	*w = kept
	if len(kept) == 0 {
		return limits{}
	}
	wide := kept[len(kept)-1].limits
	for _, one := range kept {
		wide.floor, wide.ceiling = min(wide.floor, one.floor), max(wide.ceiling, one.ceiling)
	}
	return wide
}
