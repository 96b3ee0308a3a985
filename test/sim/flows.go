package sim

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"greyrelease.example.com/test/sim/apply"
)

// Entrances are where requests to a release come in.
const (
	EntranceRoute   = "route"   // the HTTPRoute or the pair of Ingresses
	EntranceHeaders = "headers" // the same with the release's headers
	EntranceRoot    = "root"    // the root Service
	EntrancePreview = "preview" // the preview Service
)

// The names of the annotations that make an Ingress a canary of another one.
const (
	nginx         = "nginx.ingress.kubernetes.io/"
	nginxCanary   = nginx + "canary"
	nginxWeight   = nginx + "canary-weight"
	nginxTotal    = nginx + "canary-weight-total"
	nginxHeader   = nginx + "canary-by-header"
	nginxHeaderIs = nginx + "canary-by-header-value"
)

// Flow is a part of the requests that come in at an entrance: what share of them
// is led to which Service. A Service of no name is nobody: the proxy itself
// answers, with an error.
type Flow struct {
	Entrance string
	Service  string
	Percent  float64
}

// Flows returns where the proxies lead requests to a release at this instant. An
// entrance that does not exist has no flows.
func (c *Cluster) Flows(release Ref) []Flow {
	parent := c.Server.Get(release)
	if parent == nil {
		return nil
	}
	var flows []Flow
	for _, route := range c.ownedBy(c.proxies.routes, parent) {
		flows = append(flows, routeFlows(route)...)
	}
	flows = append(flows, ingressFlows(c.ownedBy(c.proxies.ingresses, parent), c.endpointsOf)...)
	return append(flows, c.serviceFlows(parent)...)
}

// serviceFlows are those of the Services that people use by name.
func (c *Cluster) serviceFlows(parent *Object) []Flow {
	var flows []Flow
	for _, f := range []Flow{{EntranceRoot, rootService(c.lastValid(parent)), 100}, {EntrancePreview, parent.Name + "-preview", 100}} {
		if o := c.Server.Get(Ref{Services, parent.Namespace, f.Service}); o != nil && o.OwnedBy(parent.UID) {
			flows = append(flows, f)
		}
	}
	return flows
}

// rootService is the name of a release's root Service.
func rootService(parent *Object) string {
	if name := parent.Text("spec", "traffic", "serviceName"); name != "" {
		return name
	}
	return parent.Name
}

// ownedBy returns those objects that a parent controls, sorted by name.
func (c *Cluster) ownedBy(objects map[Ref]*Object, parent *Object) []*Object {
	var list []*Object
	for _, o := range objects {
		if o.OwnedBy(parent.UID) {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *Object) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// routeFlows: the last rule is for everybody, those before it for requests with
// headers. Weights are relative.
func routeFlows(route *Object) []Flow {
	var flows []Flow
	rules := apply.List(route.Tree, "spec", "rules")
	for i, rule := range rules {
		entrance := EntranceHeaders
		if i == len(rules)-1 {
			entrance = EntranceRoute
		}
		var total int64
		refs := apply.List(rule, "backendRefs")
		for _, ref := range refs {
			total += number(ref, "weight")
		}
		if total == 0 {
			flows = append(flows, Flow{entrance, "", 100})
		}
		for _, ref := range refs {
			if weight := number(ref, "weight"); weight > 0 {
				flows = append(flows, Flow{entrance, apply.Text(ref, "name"), 100 * float64(weight) / float64(total)})
			}
		}
	}
	return flows
}

// ingressFlows are those of an Ingress with the canary beside it. Without ready
// endpoints of the main Service nginx answers 503 itself, whatever the canary's
// weight is.
func ingressFlows(list []*Object, ready func(namespace, service string) int) []Flow {
	var main, canary *Object
	for _, o := range list {
		if o.Annotation(nginxCanary) == "true" {
			canary = o
		} else {
			main = o
		}
	}
	if main == nil {
		return nil
	}
	if ready(main.Namespace, ingressBackend(main)) == 0 {
		return []Flow{{EntranceRoute, ingressBackend(main), 100}}
	}
	if canary == nil {
		return []Flow{{EntranceRoute, ingressBackend(main), 100}}
	}
	weight, total := int64(0), int64(100)
	for name, n := range map[string]*int64{nginxWeight: &weight, nginxTotal: &total} {
		if v, err := strconv.ParseInt(canary.Annotation(name), 10, 64); err == nil {
			*n = v
		}
	}
	var flows []Flow
	if canary.Annotation(nginxHeader) != "" {
		flows = append(flows, Flow{EntranceHeaders, ingressBackend(canary), 100})
	}
	share := 100 * float64(min(weight, total)) / float64(total)
	if share > 0 {
		flows = append(flows, Flow{EntranceRoute, ingressBackend(canary), share})
	}
	if share < 100 {
		flows = append(flows, Flow{EntranceRoute, ingressBackend(main), 100 - share})
	}
	return flows
}

// ingressBackend is the Service of an Ingress that has one.
func ingressBackend(o *Object) string {
	for _, rule := range apply.List(o.Tree, "spec", "rules") {
		for _, path := range apply.List(rule, "http", "paths") {
			return apply.Text(path, "backend", "service", "name")
		}
	}
	return o.Text("spec", "defaultBackend", "service", "name")
}

// endpointsOf counts the ready endpoints of a Service as the proxies know them.
func (c *Cluster) endpointsOf(namespace, service string) int {
	if s := c.services[Ref{Services, namespace, service}]; s != nil {
		return len(s.ready)
	}
	return 0
}

// Split is how the requests of an entrance divide.
type Split struct {
	// To is the percentage of the requests by the revision that serves them: the
	// hash of its content.
	To map[string]float64
	// Lost is the percentage that no ready endpoint is there for.
	Lost float64
}

// Splits returns how the requests to a release divide at this instant, for each
// entrance that there is.
func (c *Cluster) Splits(release Ref) map[string]*Split {
	splits := map[string]*Split{}
	for _, f := range c.Flows(release) {
		split := splits[f.Entrance]
		if split == nil {
			split = &Split{To: map[string]float64{}}
			splits[f.Entrance] = split
		}
		s := c.services[Ref{Services, release.Namespace, f.Service}]
		if s == nil || len(s.ready) == 0 {
			split.Lost += f.Percent
			continue
		}
		for _, p := range s.ready {
			hash, _ := p.set.labels[revisionLabel].(string)
			split.To[hash] += f.Percent / float64(len(s.ready))
		}
	}
	return splits
}

// String writes a split with the numbers of revisions, as in "1:90 2:10".
func (s *Split) String(numbers map[string]string) string {
	var list []string
	for hash, percent := range s.To {
		list = append(list, fmt.Sprintf("%s:%.3g", numbers[hash], percent))
	}
	sort.Strings(list)
	if s.Lost > 0 {
		list = append(list, fmt.Sprintf("lost:%.3g", s.Lost))
	}
	return strings.Join(list, " ")
}
