package greyrelease

import (
	"strings"
	"time"

	"greyrelease.example.com/hooks/rollout"
)

// routes are the observed objects that lead requests.
type routes struct {
	// given are the kinds that the controller was given.
	given map[string]bool
	// controller is the CompositeController; experimental tells whether it says that
	// the experimental channel of the Gateway API is installed.
	controller    string
	experimental  bool
	services      map[string]*observedService // by name
	httpRoute     *observedHTTPRoute
	mainIngress   *observedIngress
	canaryIngress *observedIngress
	// slices are the release's EndpointSlices; slicesKnown tells whether they came
	// along.
	slices      []Related
	slicesKnown bool
}

// channelExperimental is the value of AnnotationChannel that counts.
const channelExperimental = "experimental"

// sortRoutes takes in what leads requests, and what is none of the kinds of ours.
func (o *observation) sortRoutes(req *Request) {
	o.given = make(map[string]bool, len(req.Children))
	o.controller = req.Controller.Metadata.Name
	o.experimental = req.Controller.Metadata.Annotations[AnnotationChannel] == channelExperimental
	for _, kind := range req.Kinds() {
		o.given[kind] = true
		switch kind {
		case kindConfigMap, kindDeployment, kindSecret:
		case kindService:
			o.sortServices(req.All(kind))
		case kindHTTPRoute:
			o.sortHTTPRoutes(req.All(kind))
		case kindIngress:
			o.sortIngresses(req.All(kind))
		default:
			o.foreign = append(o.foreign, req.All(kind)...)
		}
	}
	if _, o.slicesKnown = req.Related[kindEndpointSlice]; o.slicesKnown {
		o.slices = req.AllRelated(kindEndpointSlice)
	}
}

// decided are the children that carry a decision.
func (o *observation) decided() []*Child {
	out := make([]*Child, 0, len(o.numbers)+4)
	for _, n := range o.numbers {
		out = append(out, o.deployments[n])
	}
	for _, s := range o.sortedServices() {
		out = append(out, s.child)
	}
	if o.httpRoute != nil {
		out = append(out, o.httpRoute.child)
	}
	for _, in := range []*observedIngress{o.mainIngress, o.canaryIngress} {
		if in != nil {
			out = append(out, in.child)
		}
	}
	return out
}

// traffic is what the routes were observed to do; nil without a router.
func (a *answer) traffic() *rollout.Traffic {
	router := a.settings().Router
	if router == rollout.RouterNone {
		return nil
	}
	t := &rollout.Traffic{Weights: map[int64]int64{}, Leads: map[int64]bool{}, Endpoints: a.endpoints()}
	for _, s := range a.sortedServices() {
		// The revisions' own lead only where a route says so.
		if n := a.selects(s); n != 0 && s.child.Metadata.Labels[LabelRevision] == "" {
			t.Leads[n] = true
		}
	}
	switch router {
	case rollout.RouterNone:
	case rollout.RouterSwitch:
		a.observeSwitch(t)
	case rollout.RouterWeights:
		a.observeHTTPRoute(t)
		a.observeFormer(t, a.ingressBackends())
	case rollout.RouterPair:
		a.observeIngresses(t)
		a.observeFormer(t, a.httpRouteBackends())
	}
	return t
}

// observeFormer takes in what the objects of a router lead to that the spec had
// before: they stay until those of today's are in place.
func (a *answer) observeFormer(t *rollout.Traffic, backends []string) {
	for _, name := range backends {
		if n := a.served(name); n != 0 {
			t.Leads[n] = true
		}
	}
}

// ingressBackends are the Services that the observed Ingresses lead to.
func (o *observation) ingressBackends() []string {
	var names []string
	for _, in := range []*observedIngress{o.mainIngress, o.canaryIngress} {
		if in != nil {
			names = append(names, in.backend)
		}
	}
	return names
}

// httpRouteBackends are the Services that the observed HTTPRoute leads requests to.
func (o *observation) httpRouteBackends() []string {
	if o.httpRoute == nil {
		return nil
	}
	var names []string
	for _, rule := range o.httpRoute.Rules {
		for _, b := range rule.BackendRefs {
			if b.weight() > 0 {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

// unseen fills in what is not seen because the controller was not given its kind:
// what the record says is taken to be there still, so that nothing it leads to is
// taken away.
func (a *answer) unseen(t *rollout.Traffic) {
	if a.record == nil || a.record.Route == nil {
		return
	}
	t.Header = a.record.Route.Header
	for _, share := range a.record.Route.Shares {
		t.Weights[share.Revision] = share.Weight
	}
}

func (a *answer) observeSwitch(t *rollout.Traffic) {
	if !a.given[kindService] {
		a.unseen(t)
		return
	}
	s := a.root()
	n := a.selects(s)
	if n == 0 {
		return
	}
	t.Weights[n] = 100
	// What only the root leads to is in the weights.
	if a.selects(a.services[previewName(a.name)]) != n {
		delete(t.Leads, n)
	}
	t.Placed = s.child.Metadata.DeletionTimestamp == "" && a.record != nil && a.record.Route.Of(n).Weight == 100
}

func (a *answer) observeHTTPRoute(t *rollout.Traffic) {
	if !a.given[kindHTTPRoute] {
		a.unseen(t)
		return
	}
	r := a.httpRoute
	if r == nil || len(r.Rules) == 0 {
		return
	}
	last := len(r.Rules) - 1
	a.addWeights(t, r.Rules[last].BackendRefs)
	for i, rule := range r.Rules[:last] {
		for _, b := range rule.BackendRefs {
			n := a.served(b.Name)
			if n == 0 || b.weight() == 0 {
				continue
			}
			t.Leads[n] = true
			if i == 0 && len(rule.BackendRefs) == 1 {
				t.Header = n
			}
		}
	}
	want := a.wantHTTPRoute()
	if !r.carries(want) {
		return
	}
	if r.dropsSession(want) && a.now.Sub(lastWrite(r.child.Metadata.ManagedFields)) > settleSeconds*time.Second {
		a.note("HTTPRoute %s keeps no sessionPersistence, so that no client is kept on its version: sticky needs the experimental channel of the Gateway API", a.name)
	}
	a.judgeAcceptance(t, want.ParentRefs)
}

// addWeights turns the weights of a rule, which are relative, into percentages.
// Those of our own sum to 100. Others are rounded up, so that what has any requests
// is not taken for idle: 1 of 3 is 34.
func (a *answer) addWeights(t *rollout.Traffic, backends []backendRef) {
	var sum int64
	for _, b := range backends {
		sum += min(b.weight(), maxNumber)
	}
	for _, b := range backends {
		n := a.served(b.Name)
		if n == 0 {
			continue
		}
		if sum > 0 {
			t.Weights[n] += (100*min(b.weight(), maxNumber) + sum - 1) / sum
		} else {
			t.Weights[n] += 0
		}
	}
}

// judgeAcceptance finds out whether a route that carries what it should is in
// force: a gateway of the spec has accepted it at its latest generation, or none of
// them has said anything for rollout.AcceptSeconds. It is refused when all that speak say
// no, and none is left to wait for.
func (a *answer) judgeAcceptance(t *rollout.Traffic, refs []parentRef) {
	reported, refusal := a.reports(refs)
	if reported[true] > 0 {
		t.Placed = true
		return
	}
	since := a.record.Route.Since
	if written := lastWrite(a.httpRoute.child.Metadata.ManagedFields); written.After(since) && !written.After(a.now.Add(clockSkew)) {
		since = written
	}
	left := since.Add(rollout.AcceptSeconds * time.Second).Sub(a.now)
	switch {
	case reported[false] >= len(refs) && len(refs) > 0:
		t.Refused = refusal
	case left > 0 && left <= rollout.AcceptSeconds*time.Second+clockSkew:
		a.routeWake = int64((left + time.Second - 1) / time.Second)
	case reported[false] > 0:
		t.Refused = refusal
	default:
		t.Placed = true
		if a.record.Stage != rollout.Complete {
			a.note("no gateway has reported on HTTPRoute %s within %d s: it counts as accepted", a.name, rollout.AcceptSeconds)
		}
	}
}

// reports counts the references to gateways with a yes and those with nothing but
// a no at the route's latest generation, and repeats the first reason of a no.
// What is said of other references is not about this release.
func (a *answer) reports(refs []parentRef) (count map[bool]int, refusal string) {
	count = map[bool]int{}
	c := a.httpRoute.child
	for _, ref := range refs {
		yes, no := false, false
		for _, parent := range a.httpRoute.parents {
			if a.full(parent.ParentRef) != a.full(ref) {
				continue
			}
			for _, condition := range parent.Conditions {
				if condition.Type != "Accepted" || condition.ObservedGeneration < c.Metadata.Generation {
					continue
				}
				switch condition.Status {
				case "True":
					yes = true
				case "False":
					no = true
					if refusal == "" {
						refusal = shorten(strings.TrimSuffix(condition.Reason+": "+condition.Message, ": "))
					}
				}
			}
		}
		if yes || no {
			count[yes]++
		}
	}
	return count, refusal
}

// full is a reference with its defaults.
func (o *observation) full(r parentRef) parentRef {
	if r.Group == "" {
		r.Group = gatewayGroup
	}
	if r.Kind == "" {
		r.Kind = kindGateway
	}
	if r.Namespace == "" {
		r.Namespace = o.namespace
	}
	return r
}

func (a *answer) observeIngresses(t *rollout.Traffic) {
	if !a.given[kindIngress] {
		a.unseen(t)
		return
	}
	seen := a.observedSplit()
	canary := a.canaryIngress
	if canary != nil && !canary.canary && seen.canary != 0 {
		// An Ingress for the same host: nobody can say which of the two gets what.
		t.Leads[seen.canary] = true
	}
	rest := int64(100)
	if canary != nil && canary.canary && a.mainIngress != nil {
		// A canary without a main Ingress leads nowhere.
		rest -= seen.weight
		if seen.canary != 0 {
			t.Weights[seen.canary] += seen.weight
			if seen.header {
				t.Header, t.Leads[seen.canary] = seen.canary, true
			}
		}
	}
	if seen.main != 0 {
		t.Weights[seen.main] += rest
		if rest == 0 {
			// ingress-nginx answers 503 when the main Service has no endpoints, even if
			// its canary takes all.
			t.Leads[seen.main] = true
		}
	}
	t.Placed = a.ingressCarries()
}

// endpoints are the ready endpoints of each revision's Service. Where
// EndpointSlices are not looked at, a Service that was observed counts with the
// pods that are available: its endpoints follow from both.
func (a *answer) endpoints() map[int64]int64 {
	counts := map[int64]int64{}
	if !a.slicesKnown {
		for _, n := range a.numbers {
			if s := a.services[revisionServiceName(a.name, a.identity[n].Hash)]; s != nil {
				counts[n] = a.facts.Available(n)
			}
		}
		return counts
	}
	// A Service with addresses of both families has a set of slices for each; while
	// slices are rearranged an address can stand in two of them.
	type key struct {
		revision int64
		family   string
	}
	ready := map[key]map[string]bool{}
	for i := range a.slices {
		c := &a.slices[i]
		k := key{a.served(c.Metadata.Labels["kubernetes.io/service-name"]), c.AddressType}
		if k.revision == 0 {
			continue
		}
		if ready[k] == nil {
			ready[k] = map[string]bool{}
		}
		for _, e := range c.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				ready[k][e.Addresses[0]] = true
			}
		}
	}
	for k, addresses := range ready {
		counts[k.revision] = max(counts[k.revision], int64(len(addresses)))
	}
	return counts
}
