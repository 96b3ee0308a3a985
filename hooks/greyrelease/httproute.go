package greyrelease

import (
	"bytes"
	"encoding/json"
	"slices"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
)

const (
	gatewayGroup = "gateway.networking.k8s.io"
	kindGateway  = "Gateway"
)

// httpRoute is an HTTPRoute to answer with. The types have only the fields that
// are ours, all of them with their defaults written out: those that the API server
// fills in would make every sync write. Rules have no names: in dynamic mode lists
// with one are merged item by item, and then all backends, which share a port,
// would become the same.
type httpRoute struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   history.Metadata `json:"metadata"`
	Spec       httpRouteSpec    `json:"spec"`
}

type httpRouteSpec struct {
	ParentRefs []parentRef     `json:"parentRefs"`
	Hostnames  []string        `json:"hostnames,omitempty"`
	Rules      []httpRouteRule `json:"rules"`
}

type parentRef struct {
	Group       string `json:"group"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName,omitempty"`
	Port        int64  `json:"port,omitempty"`
}

type httpRouteRule struct {
	Matches            []httpRouteMatch    `json:"matches"`
	BackendRefs        []backendRef        `json:"backendRefs"`
	SessionPersistence *sessionPersistence `json:"sessionPersistence,omitempty"`
}

type httpRouteMatch struct {
	Path    typedValue    `json:"path"`
	Headers []headerMatch `json:"headers,omitempty"`
}

type typedValue struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type headerMatch struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// backendRef names a Service. An absent weight is 1.
type backendRef struct {
	Group  string `json:"group"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Port   int64  `json:"port"`
	Weight *int64 `json:"weight"`
}

func (b backendRef) weight() int64 {
	if b.Weight == nil {
		return 1
	}
	return max(0, *b.Weight)
}

type sessionPersistence struct {
	SessionName string `json:"sessionName"`
	Type        string `json:"type"`
}

// observedHTTPRoute is the release's HTTPRoute. What cannot be read is empty.
type observedHTTPRoute struct {
	child *Child
	httpRouteSpec
	parents []routeParent
}

// routeParent is what one controller says of the route at one of its parents.
type routeParent struct {
	ParentRef  parentRef        `json:"parentRef"`
	Conditions []routeCondition `json:"conditions"`
}

type routeCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	ObservedGeneration int64  `json:"observedGeneration"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
}

func (o *observation) sortHTTPRoutes(children []Child) {
	for i := range children {
		c := &children[i]
		if c.Metadata.Name != o.name {
			o.foreign = append(o.foreign, *c)
			continue
		}
		r := &observedHTTPRoute{child: c}
		if json.Unmarshal(orNull(c.Spec.ParentRefs), &r.ParentRefs) != nil || json.Unmarshal(orNull(c.Spec.Hostnames), &r.Hostnames) != nil ||
			json.Unmarshal(orNull(c.Spec.Rules), &r.Rules) != nil {
			r.httpRouteSpec = httpRouteSpec{}
		}
		if json.Unmarshal(orNull(c.Status.Parents), &r.parents) != nil {
			r.parents = nil
		}
		o.httpRoute = r
	}
}

// config is what an HTTPRoute has besides its backends, and the port of those; ok
// is false when it cannot be told.
func (r *observedHTTPRoute) config() (c httpRouteConfig, port int64, ok bool) {
	if r == nil || len(r.Rules) == 0 {
		return c, 0, false
	}
	last := r.Rules[len(r.Rules)-1]
	if len(last.Matches) != 1 || len(last.BackendRefs) == 0 {
		return c, 0, false
	}
	c = httpRouteConfig{ParentRefs: r.ParentRefs, Hostnames: r.Hostnames, Path: last.Matches[0].Path.Value}
	if last.SessionPersistence != nil {
		c.Cookie = last.SessionPersistence.SessionName
	}
	if len(r.Rules) > 1 && len(r.Rules[0].Matches) == 1 {
		for _, h := range r.Rules[0].Matches[0].Headers {
			c.Headers = append(c.Headers, header{Name: h.Name, Value: h.Value})
		}
	}
	return c, last.BackendRefs[0].Port, true
}

// httpRouteConfig is how the route is to look besides its weights: as the spec
// says, or while that is invalid or has none any more, as it looks already.
func (a *answer) httpRouteConfig() (httpRouteConfig, int64, bool) {
	t := a.spec.Traffic
	asked := t != nil && t.HTTPRoute != nil
	if a.wish.Valid && asked {
		return *t.HTTPRoute, t.Ports[0].Port, true
	}
	if c, port, ok := a.httpRoute.config(); ok {
		return c, port, true
	}
	if asked {
		return *t.HTTPRoute, t.Ports[0].Port, true
	}
	return httpRouteConfig{}, 0, false
}

// wantHTTPRoute is the route of the observed record; nil when it has none or it
// cannot be made.
func (a *answer) wantHTTPRoute() *httpRouteSpec {
	r := a.record
	if r == nil || r.Route == nil || r.Settings.Router != rollout.RouterWeights {
		return nil
	}
	c, port, ok := a.httpRouteConfig()
	if !ok {
		return nil
	}
	spec := &httpRouteSpec{ParentRefs: c.ParentRefs, Hostnames: c.Hostnames}
	match := httpRouteMatch{Path: typedValue{Type: "PathPrefix", Value: c.Path}}
	var session *sessionPersistence
	if c.Cookie != "" {
		session = &sessionPersistence{SessionName: c.Cookie, Type: "Cookie"}
	}
	backend := func(hash string, weight int64) backendRef {
		return backendRef{Kind: "Service", Name: revisionServiceName(a.name, hash), Port: port, Weight: &weight}
	}
	if hash := a.revision(r.Route.Header).Hash; hash != "" && len(c.Headers) > 0 {
		pinned := match
		for _, h := range c.Headers {
			pinned.Headers = append(pinned.Headers, headerMatch{Type: "Exact", Name: h.Name, Value: h.Value})
		}
		spec.Rules = append(spec.Rules, httpRouteRule{
			Matches: []httpRouteMatch{pinned}, BackendRefs: []backendRef{backend(hash, 100)}, SessionPersistence: session,
		})
	}
	var backends []backendRef
	for _, share := range r.Route.Shares {
		hash := a.revision(share.Revision).Hash
		switch {
		case hash != "":
			backends = append(backends, backend(hash, share.Weight))
		case share.Weight > 0:
			return nil
		}
	}
	spec.Rules = append(spec.Rules, httpRouteRule{Matches: []httpRouteMatch{match}, BackendRefs: backends, SessionPersistence: session})
	return spec
}

// renderHTTPRoute answers with the HTTPRoute.
func (a *answer) renderHTTPRoute() {
	if !a.given[kindHTTPRoute] {
		return
	}
	observed := a.httpRoute
	spec := a.wantHTTPRoute()
	if spec == nil {
		if observed != nil && a.keepsRoute(rollout.RouterWeights) {
			a.children = append(a.children, a.asObserved(observed.child))
		}
		return
	}
	out := httpRoute{
		APIVersion: gatewayGroup + "/v1", Kind: "HTTPRoute",
		Metadata: history.Metadata{Name: a.name, Labels: map[string]string{LabelName: a.name}},
		Spec:     *spec,
	}
	if observed != nil && sameJSON(backendsOf(observed.Rules), backendsOf(spec.Rules)) {
		out.Metadata.Annotations = keptDecision(observed.child)
	} else {
		out.Metadata.Annotations = a.newDecision()
	}
	a.children = append(a.children, out)
	if observed == nil {
		a.missing = append(a.missing, "HTTPRoute "+a.name)
	}
	a.writes = a.writes || observed == nil || !sameJSON(observed.httpRouteSpec, *spec)
}

// backendsOf are the backends of each rule: where requests go.
func backendsOf(rules []httpRouteRule) [][]backendRef {
	out := make([][]backendRef, 0, len(rules))
	for _, rule := range rules {
		out = append(out, rule.BackendRefs)
	}
	return out
}

// keepsRoute tells whether observed routes of a router stay although none can be
// made now: the record is lost or has no route yet, or was made again while the
// spec did not say what it wants, or those of another router are not in place.
func (a *answer) keepsRoute(router rollout.Router) bool {
	if !a.wish.Valid || a.record == nil || a.record.Settings.Router == router || a.settings().Router == router {
		return true
	}
	other := a.record.Settings.Router
	return (other == rollout.RouterWeights || other == rollout.RouterPair) && (a.facts.Traffic == nil || !a.facts.Traffic.Placed)
}

// carries tells whether the observed route is what the record says, acceptance
// aside. Stickiness is not waited for: without the experimental channel the API
// server drops the field.
func (r *observedHTTPRoute) carries(spec *httpRouteSpec) bool {
	if r == nil || spec == nil || r.child.Metadata.DeletionTimestamp != "" {
		return false
	}
	return sameJSON(withoutSession(r.Rules), withoutSession(spec.Rules))
}

// dropsSession tells whether the API server has dropped the rules' stickiness.
func (r *observedHTTPRoute) dropsSession(spec *httpRouteSpec) bool {
	return r.carries(spec) && spec.Rules[0].SessionPersistence != nil &&
		!slices.ContainsFunc(r.Rules, func(rule httpRouteRule) bool { return rule.SessionPersistence != nil })
}

func withoutSession(rules []httpRouteRule) []httpRouteRule {
	out := slices.Clone(rules)
	for i := range out {
		out[i].SessionPersistence = nil
	}
	return out
}

// sameJSON compares two values of one type by what they say.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// rawObject is an object of ours as it was observed.
type rawObject struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   history.Metadata `json:"metadata"`
	Spec       rawSpec          `json:"spec"`
}

type rawSpec struct {
	IngressClassName json.RawMessage `json:"ingressClassName,omitempty"`
	TLS              json.RawMessage `json:"tls,omitempty"`
	ParentRefs       json.RawMessage `json:"parentRefs,omitempty"`
	Hostnames        json.RawMessage `json:"hostnames,omitempty"`
	Rules            json.RawMessage `json:"rules,omitempty"`
}

// asObserved repeats a route, so that nothing is written.
func (a *answer) asObserved(c *Child) rawObject {
	return rawObject{
		APIVersion: c.APIVersion, Kind: c.Kind,
		Metadata: history.Metadata{Name: c.Metadata.Name, Labels: map[string]string{LabelName: a.name}, Annotations: ownAnnotations(c)},
		Spec: rawSpec{
			IngressClassName: c.Spec.IngressClassName, TLS: c.Spec.TLS,
			ParentRefs: c.Spec.ParentRefs, Hostnames: c.Spec.Hostnames, Rules: c.Spec.Rules,
		},
	}
}
