package sim

import (
	"cmp"
	"maps"
	"slices"

	"greyrelease.example.com/test/sim/apply"
)

const gatewayManager = "gateway-controller"

// Gateway is how the gateway controller and the proxies behave. Its zero value
// takes as long as the other controllers and accepts everything.
type Gateway struct {
	// Program is how long it takes until the proxies go by a new version of a route
	// or of an Ingress.
	Program Lag
	// Status is how long it takes from then until the status of a route says so.
	Status Lag
	// Refuse is the reason with which routes are refused. What was accepted last
	// stays in force.
	Refuse string
	// Silent: no status is ever written.
	Silent bool
	// Other is what another gateway says about each route at once, although the
	// route does not name it: "accepts", "refuses", or nothing.
	Other string
}

// proxies is what the proxies go by, and what is on its way to them.
type proxies struct {
	routes    map[Ref]*Object   // the last version of each HTTPRoute that was accepted
	ingresses map[Ref]*Object   // as at the last reload
	reload    map[string]*event // the reload that is planned, by namespace
}

// SetGateway changes how the gateway behaves. One that refuses no longer looks again
// at the routes that it has refused.
func (c *Cluster) SetGateway(g Gateway) {
	again := c.Gateway.Refuse != "" && g.Refuse == "" || c.Gateway.Silent && !g.Silent
	c.Gateway = g
	if !again {
		return
	}
	for _, route := range c.Server.List(HTTPRoutes) {
		c.program(route)
	}
}

func (c *Cluster) gatewayLag(l Lag) Lag {
	if l == (Lag{}) {
		return c.options.Controllers
	}
	return l
}

// onRoute is the watch of the gateway and of the Ingress controller.
func (c *Cluster) onRoute(e Event) {
	ref := e.Ref()
	switch ref.Kind {
	case HTTPRoutes:
		if e.New == nil {
			c.clock.after(c.lag(c.gatewayLag(c.Gateway.Program)), func() {
				if c.Server.Get(ref) == nil {
					delete(c.proxies.routes, ref)
					c.roads++
					c.logf("proxies drop the route %s", ref.Name)
				}
			})
			return
		}
		if e.Old == nil || e.Old.UID != e.New.UID || e.Old.generation != e.New.generation {
			c.program(e.New)
		}
	case Ingresses:
		c.reloadLater(ref.Namespace)
	case Services:
		if e.Old == nil || e.New == nil {
			c.reviewRoutes(ref)
		}
	}
}

// program takes a version of a route to the proxies, if it is accepted, and then
// reports.
func (c *Cluster) program(version *Object) {
	if c.Gateway.Other != "" {
		c.clock.after(c.lag(c.options.Controllers), func() { c.reportRoute(version, c.Gateway.Other != "refuses", true) })
	}
	c.clock.after(c.lag(c.gatewayLag(c.Gateway.Program)), func() {
		now := c.Server.Get(version.Ref)
		if now == nil || now.UID != version.UID || now.generation != version.generation {
			return // the later version is on its way
		}
		accepted := c.Gateway.Refuse == ""
		if accepted {
			c.proxies.routes[version.Ref] = now
			c.roads++
			c.logf("proxies go by route %s generation %d", now.Name, now.generation)
		}
		c.clock.after(c.lag(c.gatewayLag(c.Gateway.Status)), func() {
			if !c.Gateway.Silent {
				c.reportRoute(version, accepted, false)
			}
		})
	})
}

// reviewRoutes reports anew on the routes that lead to a Service that came or went.
func (c *Cluster) reviewRoutes(service Ref) {
	for _, route := range c.Server.List(HTTPRoutes) {
		if route.Namespace != service.Namespace || !slices.Contains(backends(route), service.Name) {
			continue
		}
		c.clock.after(c.lag(c.gatewayLag(c.Gateway.Status)), func() {
			if inForce := c.proxies.routes[route.Ref]; inForce != nil && inForce.UID == route.UID && !c.Gateway.Silent {
				c.reportRoute(inForce, true, false)
			}
		})
	}
}

// reportRoute writes what one controller says about a version of a route into its
// status. Entries of others stay.
func (c *Cluster) reportRoute(version *Object, accepted, other bool) {
	live := c.Server.Get(version.Ref)
	if live == nil || live.UID != version.UID {
		return
	}
	name, refs := "example.com/gateway", apply.List(version.Tree, "spec", "parentRefs")
	if other {
		name, refs = "example.com/other", []any{map[string]any{"group": HTTPRoutes.Group, "kind": "Gateway", "name": "other"}}
	}
	parents := slices.DeleteFunc(slices.Clone(apply.List(live.Tree, "status", "parents")), func(p any) bool {
		return apply.Text(p, "controllerName") == name
	})
	resolved := true
	for _, backend := range backends(version) {
		resolved = resolved && c.Server.Get(Ref{Services, live.Namespace, backend}) != nil
	}
	for _, ref := range refs {
		parents = append(parents, map[string]any{
			"controllerName": name, "parentRef": ref,
			"conditions": []any{
				c.routeCondition("Accepted", accepted, cmp.Or(c.Gateway.Refuse, "NotAllowedByListeners"), "Accepted", version.generation),
				c.routeCondition("ResolvedRefs", resolved, "BackendNotFound", "ResolvedRefs", version.generation),
			},
		})
	}
	slices.SortStableFunc(parents, func(a, b any) int {
		return -cmp.Compare(apply.Text(a, "controllerName"), apply.Text(b, "controllerName"))
	})
	status := map[string]any{"parents": parents}
	if _, err := c.Server.Update(gatewayManager, with(live.Tree, "status", status), "status"); err != nil {
		c.logf("cannot write status of %s: %v", live.Ref, err)
		c.clock.after(c.lag(c.options.Controllers), func() { c.reportRoute(version, accepted, other) })
	}
}

func (c *Cluster) routeCondition(kind string, ok bool, bad, good string, generation int64) map[string]any {
	condition := map[string]any{
		"type": kind, "status": "True", "reason": good, "message": "", "observedGeneration": generation, "lastTransitionTime": stamp(c.clock.now),
	}
	if !ok {
		condition["status"], condition["reason"], condition["message"] = "False", bad, "as the gateway was told"
	}
	return condition
}

// backends are the Services that a route names.
func backends(route *Object) []string {
	names := map[string]bool{}
	for _, rule := range apply.List(route.Tree, "spec", "rules") {
		for _, ref := range apply.List(rule, "backendRefs") {
			names[apply.Text(ref, "name")] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// reloadLater plans a reload of the Ingress proxies, which takes all Ingresses of
// the namespace as they are then.
func (c *Cluster) reloadLater(namespace string) {
	if c.proxies.reload[namespace] != nil {
		return
	}
	c.proxies.reload[namespace] = c.clock.after(c.lag(c.gatewayLag(c.Gateway.Program)), func() {
		delete(c.proxies.reload, namespace)
		c.roads++
		maps.DeleteFunc(c.proxies.ingresses, func(ref Ref, _ *Object) bool { return ref.Namespace == namespace })
		for _, o := range c.Server.List(Ingresses) {
			if o.Namespace == namespace {
				c.proxies.ingresses[o.Ref] = o
			}
		}
		c.logf("proxies reload the ingresses of %s", namespace)
	})
}
