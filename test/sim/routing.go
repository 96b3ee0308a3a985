package sim

import (
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// routing is what the spec of a release says about its requests. The rules read
// it for themselves.
type routing struct {
	routed bool // an HTTPRoute or Ingresses
	blue   bool // strategy BlueGreen
	keeps  bool // stable keeps all its pods until requests have left it
	delay  time.Duration
}

func routingOf(parent *Object) routing {
	spec := apply.Object(parent.Tree, "spec")
	traffic := apply.Object(spec, "traffic")
	r := routing{
		routed: traffic["httpRoute"] != nil || traffic["ingress"] != nil,
		blue:   spec["strategy"] == "BlueGreen",
	}
	r.keeps = r.blue || r.routed && traffic["stableScaleDown"] != "WithBatches"
	if r.routed || r.blue {
		r.delay = 30 * time.Second
	}
	if spec["scaleDownDelaySeconds"] != nil {
		r.delay = time.Duration(number(spec, "scaleDownDelaySeconds")) * time.Second
	}
	return r
}

// splits tells whether requests are led to versions one by one.
func (r routing) splits() bool { return r.routed || r.blue }

// stored are the flows as the stored objects ask for them, whatever the proxies
// know of that. Main Services count as ready.
func (c *Cluster) stored(parent *Object) []Flow {
	var flows []Flow
	var pair []*Object
	for _, o := range c.Server.List(HTTPRoutes) {
		if o.OwnedBy(parent.UID) {
			flows = append(flows, routeFlows(o)...)
		}
	}
	for _, o := range c.Server.List(Ingresses) {
		if o.OwnedBy(parent.UID) {
			pair = append(pair, o)
		}
	}
	flows = append(flows, ingressFlows(pair, func(string, string) int { return 1 })...)
	return append(flows, c.serviceFlows(parent)...)
}

// weights are what the stored objects ask for, by the hash of the revision: of
// routes, or of the root Service where that is the switch.
func (c *Cluster) weights(parent *Object) map[string]float64 {
	weights := map[string]float64{}
	valid := c.lastValid(parent)
	r := routingOf(valid)
	if r.blue && !r.routed {
		if o := c.Server.Get(Ref{Services, parent.Namespace, rootService(valid)}); o != nil && o.OwnedBy(parent.UID) {
			weights[o.Text("spec", "selector", revisionLabel)] = 100
		}
		return weights
	}
	for _, f := range c.stored(parent) {
		if f.Entrance == EntranceRoute {
			weights[strings.TrimPrefix(f.Service, parent.Name+"-")] += f.Percent
		}
	}
	return weights
}

// ledTo returns the revisions that flows lead to, by hash, with the entrance.
func (c *Cluster) ledTo(parent *Object, flows []Flow) map[string]string {
	led := map[string]string{}
	for _, f := range flows {
		o := c.Server.Get(Ref{Services, parent.Namespace, f.Service})
		hash := strings.TrimPrefix(f.Service, parent.Name+"-")
		if o != nil {
			hash = o.Text("spec", "selector", revisionLabel)
		}
		if hash != "" && (f.Entrance == EntranceRoute || led[hash] == "") {
			led[hash] = f.Entrance
		}
	}
	return led
}

// alive tells whether a Service has a ready endpoint: one that the proxies know
// of, or where the release is not told of endpoints, a ready pod.
func (c *Cluster) alive(namespace, service string) bool {
	if c.options.Customize != nil {
		return c.endpointsOf(namespace, service) > 0
	}
	o := c.Server.Get(Ref{Services, namespace, service})
	if o == nil {
		return false
	}
	for _, p := range c.selected(o) {
		if p.Ready {
			return true
		}
	}
	return false
}

// availableBy counts the available pods of each revision of a release, by hash.
func (c *Cluster) availableBy(parent *Object) (by map[string]int64, all int64) {
	by = map[string]int64{}
	for _, d := range c.deployments(parent.UID) {
		n := c.availableAt(d, c.clock.now)
		by[d.Label(revisionLabel)] += n
		all += n
	}
	return by, all
}

// reroutes tells whether an edit changes what a spec says about requests.
func reroutes(e Event) bool {
	for _, name := range []string{"traffic", "strategy"} {
		if !apply.Equal(apply.Field(e.Old.Tree, "spec", name), apply.Field(e.New.Tree, "spec", name)) {
			return true
		}
	}
	return false
}
