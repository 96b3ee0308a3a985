package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Options set up a cluster. The zero value of a field is its default.
type Options struct {
	Seed  uint64    // of everything that is left to chance
	Start time.Time // default 2026-11-30T12:00:00Z
	Mode  Mode      // how Metacontroller applies children, default Dynamic

	// Children are the kinds in the CompositeController, default ConfigMaps,
	// Deployments and Services.
	Children []*Kind
	// Customize is the customize hook, nil if none is registered.
	Customize Hook
	// Pods tells on the CompositeController that pods are looked at. Only then are
	// they in the store.
	Pods bool

	// Controllers is how long the controllers of Kubernetes take to act on a
	// change, status writes and garbage collection included; default 1 to 30 ms.
	Controllers Lag
	// Caches is how far Metacontroller's caches are behind, default 1 to 20 ms.
	Caches Lag
	// Writes is the time between two writes of one sync, default 0: a sync is
	// then carried out in one instant.
	Writes Lag

	// Prometheus is what the hook asks for metrics, for the rules; nil for none.
	Prometheus *Prometheus

	// Pace, if not nil, is called before time moves on, for a show in real time.
	Pace func(until time.Time)
}

// Lag is a range of delays. Each delay is drawn from it.
type Lag struct{ Min, Max time.Duration }

// Cluster is a simulated cluster: API server, controllers, pods and
// Metacontroller, driven by one clock. It is single-threaded, and two clusters
// with the same options that are told the same do the same.
type Cluster struct {
	Server         *Server
	Metacontroller *Metacontroller

	// Quota is the number of pods a namespace may have, terminating ones
	// included; 0 is no limit.
	Quota int
	// Capacity is the number of pods that fit on the nodes; 0 is no limit. Pods
	// beyond it stay pending.
	Capacity int
	// Eviction is how long after the loss of a node its pods are replaced,
	// default 5 minutes as in Kubernetes.
	Eviction time.Duration
	// Gateway is how routes get to the proxies.
	Gateway Gateway

	// Checks run while the cluster runs. The first failure stops it.
	Checks []Check
	// Look, if not nil, is called after everything that happens.
	Look func()

	options   Options
	clock     clock
	chance    *rand.Rand
	workloads map[string]*workload // by the uid of the Deployment
	orphans   []*replicaSet        // sets whose Deployment was deleted without them
	services  map[Ref]*endpoints   // of the Services there are
	proxies   proxies
	behaviors map[string]Behavior
	nodes     []*node
	pods      int64 // pods made so far, for their names
	history   []change
	parents   map[string][]*Object // the versions of each release, by uid
	lastLoss  time.Time            // when pods were last lost through no write of ours
	lastHand  time.Time            // when somebody last laid hands on a child
	edited    map[string]bool      // uids of children that somebody edited
	roads     int64                // grows with each change of where requests go
	// lastRouting is when the part of a spec that is about requests last changed.
	lastRouting time.Time
	refused     map[edition]bool
	failure     error
	trace       func(string)
}

// change is an event with its time.
type change struct {
	at time.Time
	Event
}

// New returns an empty cluster that is served by the hook.
func New(o Options, hook Hook) *Cluster {
	if o.Start.IsZero() {
		o.Start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	}
	if o.Children == nil {
		o.Children = []*Kind{ConfigMaps, Deployments, Services}
	}
	if o.Controllers == (Lag{}) {
		o.Controllers = Lag{time.Millisecond, 30 * time.Millisecond}
	}
	if o.Caches == (Lag{}) {
		o.Caches = Lag{time.Millisecond, 20 * time.Millisecond}
	}
	c := &Cluster{
		Eviction:  5 * time.Minute,
		options:   o,
		clock:     clock{now: o.Start},
		chance:    rand.New(rand.NewPCG(o.Seed, 0x6772657972656c65)),
		workloads: map[string]*workload{},
		services:  map[Ref]*endpoints{},
		proxies:   proxies{map[Ref]*Object{}, map[Ref]*Object{}, map[string]*event{}},
		behaviors: map[string]Behavior{},
		parents:   map[string][]*Object{},
		edited:    map[string]bool{},
		refused:   map[edition]bool{},
	}
	for i := range 5 {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("node-%d", i+1), up: true})
	}
	c.Server = newServer(c.Now, c.onEvent)
	c.Metacontroller = newMetacontroller(c, hook)
	return c
}

// Now returns the virtual time.
func (c *Cluster) Now() time.Time { return c.clock.now }

// Since returns how long ago an instant was.
func (c *Cluster) Since(t time.Time) time.Duration { return c.clock.now.Sub(t) }

// Elapsed returns the virtual time since the start.
func (c *Cluster) Elapsed() time.Duration { return c.Since(c.options.Start) }

// Run lets time pass. It returns the first failure of a check, if there is one.
func (c *Cluster) Run(d time.Duration) error {
	_, err := c.Until(d, func() bool { return false })
	return err
}

// Until lets time pass until the condition holds after some event, but at most
// for d. It tells whether the condition holds.
func (c *Cluster) Until(d time.Duration, holds func() bool) (bool, error) {
	end := c.clock.now.Add(d)
	for c.failure == nil {
		if holds() {
			return true, nil
		}
		at, ok := c.clock.next()
		if !ok || at.After(end) {
			c.pace(end)
			c.clock.now = end
			return holds(), c.failure
		}
		c.pace(at)
		c.clock.step()
		c.passed()
		if c.Look != nil {
			c.Look()
		}
	}
	return false, c.failure
}

// Quiet tells whether nothing is going to happen any more unless somebody does
// something.
func (c *Cluster) Quiet() bool {
	_, ok := c.clock.next()
	return !ok
}

func (c *Cluster) pace(until time.Time) {
	if c.options.Pace != nil && until.After(c.clock.now) {
		c.options.Pace(until)
	}
}

// Trace sends a line for everything that happens to the function.
func (c *Cluster) Trace(f func(line string)) { c.trace = f }

func (c *Cluster) logf(format string, args ...any) {
	if c.trace != nil {
		c.trace(fmt.Sprintf("%11.3fs  %s", c.Elapsed().Seconds(), fmt.Sprintf(format, args...)))
	}
}

// lag draws a delay.
func (c *Cluster) lag(l Lag) time.Duration {
	if l.Max <= l.Min {
		return l.Min
	}
	return l.Min + time.Duration(c.chance.Int64N(int64(l.Max-l.Min)))
}

// fail records the first failure of a check.
func (c *Cluster) fail(err error) {
	if err != nil && c.failure == nil {
		c.failure = err
		c.logf("FAILURE %v", err)
	}
}

// onEvent is called by the server for every change in the store.
func (c *Cluster) onEvent(e Event) {
	ch := change{c.clock.now, e}
	c.history = append(c.history, ch)
	if routes(e.Ref().Kind) {
		c.roads++
	}
	if e.Old != nil && e.New != nil && e.New.Kind == Releases && reroutes(e) {
		c.lastRouting = c.clock.now
	}
	if e.New != nil && e.New.Kind == Releases {
		c.parents[e.New.UID] = append(c.parents[e.New.UID], e.New)
	}
	c.onDeployment(e)
	c.onService(e)
	c.onRoute(e)
	c.onOwned(e)
	c.Metacontroller.observe(ch)
}
