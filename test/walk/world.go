package walk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"greyrelease.example.com/test/sim"
)

// world is a cluster with one release and what the walk knows of it.
type world struct {
	*sim.Cluster
	r        *rand.Rand
	release  sim.Ref
	versions int    // how many there are: "1", "2" and so on
	broken   bool   // the spec is one that the hook refuses
	edited   bool   // somebody changed a Deployment's template by hand
	mended   bool   // all versions are good ones
	routed   bool   // there is something to lead requests
	router   string // what leads requests: httpRoute, ingress, blue, ports or nothing
	// batchwise: stable is scaled down with the batches.
	batchwise bool
	entered   time.Time // when the trouble ended
	// secrets: snapshots can be kept in Secrets.
	secrets bool

	prometheus *sim.Prometheus // nil in walks without metrics
	mood       int             // how the metrics are
	calm       bool            // they are good, in the end
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// between returns a duration up to max; short ones are as likely as long ones.
func between(r *rand.Rand, max time.Duration) time.Duration {
	d := max
	for range r.IntN(5) {
		d /= 8
	}
	return time.Duration(r.Int64N(int64(d) + 1))
}

// newWorld makes a cluster of some temperament, and pods of some.
func newWorld(seed uint64, hook sim.Hook) *world {
	r := rand.New(rand.NewPCG(seed, 0x77616c6b))
	return settled(temperament(seed, r), hook, r)
}

// temperament is how fast a cluster is.
func temperament(seed uint64, r *rand.Rand) sim.Options {
	ms := time.Millisecond
	return sim.Options{
		Seed:        seed,
		Mode:        pick(r, sim.Dynamic, sim.ServerSide),
		Controllers: sim.Lag{Min: ms, Max: pick(r, 5*ms, 30*ms, 30*ms, 500*ms)},
		Caches:      sim.Lag{Min: ms, Max: pick(r, 5*ms, 20*ms, 20*ms, 300*ms, 2000*ms)},
		Writes:      sim.Lag{Max: pick(r, 0, 0, 20*ms, 400*ms)},
	}
}

// settled is a cluster with versions of some temper.
func settled(options sim.Options, hook sim.Hook, r *rand.Rand) *world {
	w := &world{Cluster: sim.New(options, hook), r: r, release: sim.Release("web"), versions: 6}
	w.Checks = sim.Invariants(w.Cluster)
	w.routed = slices.Contains(options.Children, sim.HTTPRoutes)
	w.Eviction = pick(r, time.Second, 30*time.Second, 5*time.Minute)
	for v := 1; v <= w.versions; v++ {
		w.Behave(fmt.Sprint(v), w.temper(v == 1))
	}
	return w
}

// temper is how pods of a version behave; most are good.
func (w *world) temper(good bool) sim.Behavior {
	s := time.Second
	b := sim.Behavior{Ready: between(w.r, 20*s), Grace: between(w.r, 10*s)}
	if good {
		return b
	}
	switch w.r.IntN(12) {
	case 0:
		b.Hang = true
	case 1:
		b.Crash = true
	case 2:
		b.Image = true
	case 3:
		b.CrashAfter = between(w.r, 60*s)
	case 4:
		b.Up, b.Down = 3*s+between(w.r, 60*s), 3*s+between(w.r, 30*s)
		if w.routed {
			// Each pod that comes or goes moves endpoints and weights too: those that do it
			// every few seconds, for hours, would take most of the time of all walks.
			b.Up += 20 * s
		}
	case 5:
		b.Ready = 20*s + between(w.r, 400*s)
	}
	return b
}

// spec is a random spec with the version.
func (w *world) spec(version string) map[string]any {
	spec := map[string]any{
		"replicas":                int64(pick(w.r, 1, 2, 3, 4, 5, 7, 10, 10, 10, 13, 20)),
		"targetVersion":           version,
		"progressDeadlineSeconds": int64(pick(w.r, 30, 60, 120, 600)),
		"template":                template(0),
	}
	w.plan(spec)
	w.limits(spec)
	w.traffic(spec)
	w.analysis(spec)
	if w.secrets {
		spec["snapshotKind"] = pick[any](w.r, nil, "ConfigMap", "Secret", "Secret")
	}
	if w.r.IntN(3) == 0 {
		spec["revisionHistoryLimit"] = int64(w.r.IntN(4))
	}
	if w.r.IntN(8) == 0 {
		spec["autoRollback"] = false
	}
	return spec
}

// plan sets one of the two kinds of plan and takes the other away.
func (w *world) plan(spec map[string]any) {
	for _, name := range []string{"batches", "batchSize", "canaryWeight", "soakSeconds"} {
		spec[name] = nil
	}
	if w.r.IntN(3) > 0 {
		spec["soakSeconds"] = int64(pick(w.r, 5, 20, 60))
	}
	if w.r.IntN(2) == 0 {
		spec["batchSize"] = int64(1 + w.r.IntN(5))
		if w.r.IntN(2) == 0 {
			spec["canaryWeight"] = int64(pick(w.r, 1, 10, 30, 100))
		}
		return
	}
	var batches []any
	size := 0
	percent := w.r.IntN(2) == 0
	for range 1 + w.r.IntN(4) {
		size += 1 + w.r.IntN(pick(w.r, 3, 40))
		b := map[string]any{"replicas": int64(size)}
		if percent {
			b["replicas"] = fmt.Sprintf("%d%%", min(size, 100))
		}
		if w.r.IntN(4) == 0 {
			b["approval"] = true
			if w.r.IntN(3) == 0 {
				b["approvalTimeoutSeconds"] = int64(pick(w.r, 30, 600))
			}
		}
		if w.r.IntN(4) == 0 {
			b["soakSeconds"] = int64(w.r.IntN(40))
		}
		batches = append(batches, b)
		if percent && size >= 100 {
			break
		}
	}
	spec["batches"] = batches
}

// limits sets surge, unavailable and minReadySeconds.
func (w *world) limits(spec map[string]any) {
	spec["maxSurge"] = pick[any](w.r, nil, nil, int64(1), int64(3), "10%", "50%", "100%", int64(0))
	spec["maxUnavailable"] = pick[any](w.r, nil, nil, nil, int64(1), "25%", "60%")
	if spec["maxSurge"] == int64(0) {
		spec["maxUnavailable"] = pick[any](w.r, int64(1), "25%")
	}
	spec["minReadySeconds"] = pick[any](w.r, nil, nil, int64(1), int64(10))
}

// template is a pod template; its number makes it another content.
func template(n int) map[string]any {
	container := map[string]any{"name": "web", "image": "nginx", "ports": []any{map[string]any{"containerPort": int64(80)}}}
	if n > 0 {
		container["env"] = []any{map[string]any{"name": "N", "value": fmt.Sprint(n)}}
	}
	return map[string]any{"spec": map[string]any{"containers": []any{container}}}
}

func (w *world) create() error {
	return w.Apply(map[string]any{
		"apiVersion": sim.Releases.APIVersion(), "kind": sim.Releases.Name,
		"metadata": map[string]any{"name": w.release.Name, "namespace": w.release.Namespace},
		"spec":     clean(w.spec("1")),
	})
}

// clean drops the fields that are nil, for a creation.
func clean(m map[string]any) map[string]any {
	for k, v := range m {
		if v == nil {
			delete(m, k)
		}
	}
	return m
}

func (w *world) version() string { return fmt.Sprint(1 + w.r.IntN(w.versions)) }

func (w *world) status() map[string]any {
	o := w.Server.Get(w.release)
	if o == nil {
		return nil
	}
	status, _ := o.Tree["status"].(map[string]any)
	return status
}

func (w *world) text(name string) string {
	s, _ := w.status()[name].(string)
	return s
}
