package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// reaction is how long a release may take to lead requests away from pods that
// were lost through no doing of its own: it learns of it, has the route changed,
// and may wait for a change before that to be reported on, which it does for at
// most 30 s.
const reaction = 60 * time.Second

// drain is how long any version is kept after its last request, at least, where
// the spec does not say less.
const drain = 10 * time.Second

// follow is how long weights may take to follow pods that come.
const follow = 10 * time.Second

// roads holds the rules about requests.
type roads struct {
	hampered bool
	bounds   *bounds
	gates    *gates
	version  int64 // of what the proxies go by, when it was looked at last

	lived   map[string]bool               // by uid and entrance, whether somebody has answered there
	outages map[string]*outage            // by uid, entrance and Service
	led     map[string]map[string]string  // by uid: the revisions that stored objects lead to
	until   map[string]time.Time          // by uid and hash: when they last did
	over    map[string]time.Time          // by uid and hash: since when a version has more requests than pods
	last    map[string]float64            // by uid and hash: its share when it was looked at last
	scaled  map[string]scale              // by uid: how many pods the spec asks for
	written map[string]map[string]float64 // by uid: the weights as we wrote them last
	stables map[string][2]int64           // by uid: the stable revision and the one before it
}

// scale is how many pods the spec asks for, and how many of them requests are to get
// along with, and since when.
type scale struct {
	replicas, floor int64
	since           time.Time
	short           time.Time // when pods were missing last
}

// outage is a share of requests for which nobody is there.
type outage struct {
	Flow
	since   time.Time
	base    time.Time // since when nothing excuses it any more
	excused bool
	nothing bool // when it was looked at last, nobody was to answer
}

func newRoads(b *bounds, g *gates) *roads {
	return &roads{
		bounds: b, gates: g, version: -1,
		lived: map[string]bool{}, outages: map[string]*outage{}, led: map[string]map[string]string{},
		until: map[string]time.Time{}, over: map[string]time.Time{}, last: map[string]float64{}, scaled: map[string]scale{}, written: map[string]map[string]float64{}, stables: map[string][2]int64{},
	}
}

// checkInstant looks at where requests go after everything that happens.
func (r *roads) checkInstant(c *Cluster) error {
	if c.roads == 0 {
		return nil
	}
	if c.roads != r.version {
		r.version = c.roads
		for _, parent := range c.Server.List(Releases) {
			if err := r.look(c, parent); err != nil {
				return err
			}
		}
	}
	return r.judge(c)
}

func (r *roads) look(c *Cluster, parent *Object) error {
	if apply.Object(parent.Tree, "spec", "traffic") == nil {
		return nil
	}
	// Who looks at a preview is not to be spared a gap.
	led := c.ledTo(parent, slices.DeleteFunc(c.stored(parent), func(f Flow) bool { return f.Entrance == EntrancePreview }))
	for hash := range r.led[parent.UID] {
		// Where somebody led them there for a moment, the time before that counts.
		if led[hash] == "" && c.Since(c.lastHand) > reaction {
			r.until[parent.UID+hash] = c.clock.now
		}
	}
	r.led[parent.UID] = led
	r.findOutages(c, parent)
	return r.checkShares(c, parent)
}

// findOutages opens an outage for each flow that nobody answers, and for each
// entrance that was there and is not; it closes those that are over.
func (r *roads) findOutages(c *Cluster, parent *Object) {
	dead := map[string]Flow{}
	there := map[string]bool{}
	for _, f := range c.Flows(parent.Ref) {
		there[f.Entrance] = true
		key := parent.UID + f.Entrance
		if c.alive(parent.Namespace, f.Service) {
			r.lived[key] = true
		} else if r.lived[key] {
			dead[key+f.Service] = f
		}
	}
	routing := routingOf(c.lastValid(parent))
	for entrance, wanted := range map[string]bool{EntranceRoute: routing.routed, EntranceRoot: true, EntrancePreview: false, EntranceHeaders: false} {
		key := parent.UID + entrance
		if wanted && r.lived[key] && !there[entrance] {
			dead[key] = Flow{entrance, "", 100}
		}
		if !wanted && !there[entrance] {
			delete(r.lived, key)
		}
	}
	for key := range r.outages {
		if _, still := dead[key]; !still && key[:len(parent.UID)] == parent.UID {
			delete(r.outages, key)
		}
	}
	for key, f := range dead {
		if r.outages[key] == nil {
			c.logf("nobody answers at %s %s", f.Entrance, f.Service)
			r.outages[key] = &outage{Flow: f, since: c.clock.now, base: c.clock.now}
		}
	}
}

// judge: at every instant the share of the requests that nobody is there for is
// 0, as long as some pod of the release is ready. What breaks through no doing of
// the release is excused for the time of a reaction.
func (r *roads) judge(c *Cluster) error {
	relieved := r.hampered && !c.hampered()
	r.hampered = c.hampered()
	for _, key := range sorted(r.outages) {
		o := r.outages[key]
		parent := c.byUID(o.uid(key))
		if parent == nil || parent.Deleting() {
			delete(r.outages, key)
			continue
		}
		// At 0 replicas nobody is to answer, and what a refused spec does not say any
		// more nobody can make again.
		nothing := parent.Int("spec", "replicas") == 0 || !c.anyReady(parent) || o.Entrance == EntrancePreview && c.targetDown(parent) ||
			o.Service == "" && (c.refused[edition{parent.UID, parent.Generation()}] || parent.Text("status", "phase") == "Invalid")
		if c.troubled(o.since) || nothing || o.Entrance == EntrancePreview {
			o.excused = true // Who looks at a preview is not to be spared a gap.
		}
		if o.excused && (c.hampered() || relieved || nothing || o.nothing) {
			o.base = c.clock.now
		}
		o.nothing = nothing
		if o.Entrance == EntranceRoot && routingOf(c.lastValid(parent)).routed && o.excused {
			continue // it selects the stable revision and nothing else
		}
		if o.Entrance == EntranceRoot && c.Since(o.since) <= time.Second {
			continue // its endpoints follow its selector
		}
		if c.Metacontroller.mode == ServerSide && parent.Int("status", "stableRevision") == 0 && c.Since(o.since) <= follow {
			// Without a lock an answer to an old record can take away the pods of a version
			// that was replaced before any had been out.
			continue
		}
		limit := reaction + c.Gateway.Program.Max + c.Gateway.Status.Max
		for _, trouble := range []time.Time{c.lastLoss, c.lastHand, c.lastRouting} {
			if trouble.After(o.base) {
				o.base = trouble
			}
		}
		if !o.excused || c.Since(o.base) > limit {
			return fmt.Errorf("%.3g%% of the requests at %s are led to %q, which has no ready endpoint, since %s", o.Percent, o.Entrance, o.Service, stamp(o.since))
		}
	}
	return nil
}

// uid is the part of an outage's key that names the release.
func (o *outage) uid(key string) string {
	return key[:len(key)-len(o.Entrance)-len(o.Service)]
}

func sorted[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// troubled tells whether pods were lost, or somebody laid hands on something,
// shortly before an instant or since.
func (c *Cluster) troubled(t time.Time) bool {
	t = t.Add(-reaction - c.Gateway.Program.Max - c.Gateway.Status.Max)
	return c.lastLoss.After(t) || c.lastHand.After(t) || c.lastRouting.After(t)
}

// hampered tells whether something keeps the release from reacting.
func (c *Cluster) hampered() bool {
	m := c.Metacontroller
	frozen := slices.ContainsFunc(m.every, func(i *informer) bool { return i.frozen.After(c.clock.now) })
	return frozen || m.Down || m.Faults != (Faults{}) || c.Server.Refuse != nil || c.Gateway.Refuse != ""
}

// mute tells whether the gateway keeps to itself, or too long for anybody to wait,
// what it has done with a route.
func (c *Cluster) mute() bool {
	return c.Gateway.Silent || c.Gateway.Refuse != "" || c.Gateway.Program.Max+c.Gateway.Status.Max > 25*time.Second
}

func (c *Cluster) anyReady(parent *Object) bool {
	for _, d := range c.deployments(parent.UID) {
		if c.Workload(d.Ref).Ready > 0 {
			return true
		}
	}
	return false
}

// targetDown tells whether no pod of the target is ready: a preview shows just that.
func (c *Cluster) targetDown(parent *Object) bool {
	for _, d := range c.deployments(parent.UID) {
		if d.Label(numberLabel) == strconv.FormatInt(parent.Int("status", "targetRevision"), 10) {
			return c.Workload(d.Ref).Ready == 0
		}
	}
	return false
}

// numberOf is the number of the revision with this hash, as its Deployment says.
func (c *Cluster) numberOf(parent *Object, hash string) string {
	for _, d := range c.deployments(parent.UID) {
		if d.Label(revisionLabel) == hash {
			return d.Label(numberLabel)
		}
	}
	return ""
}

// checkShares: where stable is scaled with the batches, no version has a larger
// share of the requests than of the pods, by more than one percent and what
// rounding to whole percents takes.
func (r *roads) checkShares(c *Cluster, parent *Object) error {
	routing := routingOf(c.lastValid(parent))
	replicas := parent.Int("spec", "replicas")
	least := limitsOf(parent, c.lastValid(parent)).floor
	if s := r.scaled[parent.UID]; s.replicas != replicas || s.floor != least {
		r.scaled[parent.UID] = scale{replicas: replicas, floor: least, since: c.clock.now}
	}
	if !routing.routed || routing.keeps || replicas == 0 || c.troubled(c.clock.now) || c.hampered() {
		r.unknown(parent)
		return nil
	}
	by, all := c.availableBy(parent)
	asks := r.scaled[parent.UID]
	if all < replicas {
		asks.short = c.clock.now
		r.scaled[parent.UID] = asks
	}
	if all == 0 || parent.Int("status", "stableRevision") == 0 {
		r.unknown(parent)
		return nil // Before a first version has been out, whatever serves is good.
	}
	stable := strconv.FormatInt(parent.Int("status", "stableRevision"), 10)
	serves := map[string]int64{}
	for hash, n := range by {
		serves[c.numberOf(parent, hash)] += n
	}
	flows := c.Flows(parent.Ref)
	if apply.Field(parent.Tree, "spec", "traffic", "ingress") != nil || c.mute() {
		// Nobody is told when proxies have followed.
		flows = c.stored(parent)
	}
	for _, f := range flows {
		hash := f.Service[min(len(parent.Name)+1, len(f.Service)):]
		ready := 100 * float64(by[hash]) / float64(max(1, min(int(least), int(all))))
		key := parent.UID + hash
		if f.Entrance != EntranceRoute {
			continue
		}
		before, known := r.last[key]
		r.last[key] = f.Percent
		raised := known && f.Percent > before
		if f.Percent <= math.Ceil(ready)+1 {
			delete(r.over, key)
			continue
		}
		if _, over := r.over[key]; !over && f.Percent <= before && (c.numberOf(parent, hash) == stable || serves[stable] == 0) {
			continue // No version that failed or was superseded is given more to relieve it.
		}
		if _, known := r.over[key]; !known {
			r.over[key] = c.clock.now
		}
		// A share that rises must have its pods; one that others' pods make too large
		// follows within the limit. While pods are missing, each one that comes makes the others' share smaller,
		// and so does a release of more pods, or one that is to get along with more of
		// them; the weights follow. Without a lock an
		// answer to an old record can take pods away for a moment.
		limit := follow + c.Gateway.Program.Max + c.Gateway.Status.Max
		locked := c.Metacontroller.mode != ServerSide
		if locked && raised && c.Since(asks.short) > limit && c.Since(asks.since) > limit || c.Since(r.over[key]) > limit {
			return fmt.Errorf("%.3g%% of the requests are led to %s, whose %d of %d pods can serve %.3g%%", f.Percent, f.Service, by[hash], replicas, ready)
		}
	}
	return nil
}

// unknown forgets what was seen of shares, where nothing was judged.
func (r *roads) unknown(parent *Object) {
	mine := func(key string) bool { return strings.HasPrefix(key, parent.UID) }
	maps.DeleteFunc(r.over, func(key string, _ time.Time) bool { return mine(key) })
	maps.DeleteFunc(r.last, func(key string, _ float64) bool { return mine(key) })
}
