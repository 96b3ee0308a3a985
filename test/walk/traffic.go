package walk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// WalkTraffic takes a release with requests to lead for the walk with this seed,
// as Walk does for one without.
func WalkTraffic(seed uint64, hook sim.Hook, trace func(line string)) error {
	return walk(newTrafficWorld(seed, hook), trace, trafficMoves)
}

// newTrafficWorld is a world with a router.
func newTrafficWorld(seed uint64, hook sim.Hook) *world {
	r := rand.New(rand.NewPCG(seed, 0x74726166666963))
	options := temperament(seed, r)
	options.Children = []*sim.Kind{sim.ConfigMaps, sim.Deployments, sim.HTTPRoutes, sim.Ingresses, sim.Services}
	if r.IntN(3) > 0 {
		options.Customize = sim.Customize
	}
	w := settled(options, hook, r)
	w.router = pick(r, "httpRoute", "httpRoute", "ingress", "blue", "ports")
	w.batchwise = r.IntN(3) == 0
	w.Gateway = w.gateway()
	return w
}

// gateway is how a gateway behaves; most report within seconds, and few refuse.
func (w *world) gateway() sim.Gateway {
	ms := time.Millisecond
	slow := func() sim.Lag { return sim.Lag{Min: ms, Max: pick(w.r, 10*ms, 100*ms, 2000*ms, 8000*ms)} }
	refusal := ""
	if w.r.IntN(12) == 0 {
		refusal = "NoMatchingParent"
	}
	return sim.Gateway{
		Program: slow(), Status: slow(), Silent: w.r.IntN(6) == 0, Refuse: refusal,
		Other: pick(w.r, "", "", "accepts", "refuses"),
	}
}

// traffic sets the part of a spec that is about requests.
func (w *world) traffic(spec map[string]any) {
	if w.router == "" {
		return
	}
	traffic := map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	headers := map[string]any{}
	if w.r.IntN(2) == 0 {
		headers["headers"] = map[string]any{"x-canary": "yes"}
	}
	switch w.router {
	case "httpRoute":
		headers["parentRefs"] = []any{map[string]any{"name": "gw"}}
		traffic["httpRoute"] = headers
	case "ingress":
		headers["host"] = "web.example.com"
		traffic["ingress"] = headers
	case "blue":
		spec["strategy"] = "BlueGreen"
		gate := map[string]any{"replicas": "100%"}
		if w.r.IntN(2) == 0 {
			gate["approval"] = true
		}
		for _, name := range []string{"batchSize", "canaryWeight"} {
			spec[name] = nil
		}
		spec["batches"] = []any{gate}
	}
	if w.batchwise && (w.router == "httpRoute" || w.router == "ingress") {
		traffic["stableScaleDown"] = "WithBatches"
	}
	delay := int64(pick(w.r, 0, 5, 20, 120))
	if w.router == "ingress" {
		delay = max(delay, 10) // nobody reports there, and a reload takes as much as 8 s
	}
	if w.router != "ports" && w.r.IntN(2) == 0 {
		spec["scaleDownDelaySeconds"] = delay
	}
	spec["traffic"] = traffic
}

// trafficMoves are what happens to requests, beside all else.
var trafficMoves = append([]move{
	{6, func(w *world) error { w.SetGateway(w.gateway()); return nil }},
	{8, (*world).deleteRouting},
	{6, (*world).editRouting},
	{6, func(w *world) error {
		w.Metacontroller.Freeze(pick(w.r, sim.Services, sim.HTTPRoutes, sim.Ingresses, sim.EndpointSlices), between(w.r, 30*time.Second))
		return nil
	}},
	// A third version a moment after the second.
	{10, func(w *world) error {
		if err := w.edit(map[string]any{"targetVersion": w.version()}); err != nil {
			return err
		}
		if err := w.Run(between(w.r, time.Minute)); err != nil {
			return err
		}
		return w.edit(map[string]any{"targetVersion": w.version()})
	}},
}, moves...)

// routing are the objects that lead requests.
func (w *world) routing() []*sim.Object {
	var list []*sim.Object
	for _, k := range []*sim.Kind{sim.HTTPRoutes, sim.Ingresses, sim.Services} {
		list = append(list, w.Server.List(k)...)
	}
	return list
}

func (w *world) deleteRouting() error {
	list := w.routing()
	if len(list) == 0 {
		return nil
	}
	return w.Delete(pick(w.r, list...).Ref, sim.Background)
}

// editRouting does what somebody with kubectl might.
func (w *world) editRouting() error {
	list := w.routing()
	if len(list) == 0 {
		return nil
	}
	o := pick(w.r, list...)
	switch o.Kind {
	case sim.HTTPRoutes:
		name := o.Name
		if services := w.Server.List(sim.Services); len(services) > 0 {
			name = pick(w.r, services...).Name
		}
		refs := []any{map[string]any{"name": name, "port": int64(80), "weight": int64(pick(w.r, 1, 50, 100))}}
		return w.Edit(o.Ref, map[string]any{"spec": map[string]any{"rules": []any{map[string]any{"backendRefs": refs}}}})
	case sim.Ingresses:
		return w.Annotate(o.Ref, "nginx.ingress.kubernetes.io/canary-weight", fmt.Sprint(w.r.IntN(101)))
	}
	// A key that somebody adds is not ours to take away: one that is there is changed.
	keys := slices.Sorted(maps.Keys(apply.Object(o.Tree, "spec", "selector")))
	if len(keys) == 0 {
		return nil
	}
	selector := map[string]any{pick(w.r, keys...): pick[any](w.r, "other", nil)}
	return w.Edit(o.Ref, map[string]any{"spec": map[string]any{"selector": selector}})
}
