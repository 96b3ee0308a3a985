package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

const (
	serviceYAML = `{apiVersion: v1, kind: Service, metadata: {name: s1, labels: {greyrelease.example.com/name: web}}, spec: {selector: {app: d}, ports: [{port: 80, protocol: TCP, targetPort: 8080}]}}`
	routeYAML   = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: web}, spec: {
  parentRefs: [{name: gw}], rules: [
  {matches: [{path: {type: PathPrefix, value: /}, headers: [{type: Exact, name: x, value: "1"}]}], backendRefs: [{group: "", kind: Service, name: s2, port: 80, weight: 100}]},
  {matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{group: "", kind: Service, name: s1, port: 80, weight: 90}, {group: "", kind: Service, name: s2, port: 80, weight: 10}]}]}}`
	ingressYAML = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s1, port: {number: 80}}}}]}}]}}`
	canaryYAML  = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web-canary, annotations: {nginx.ingress.kubernetes.io/canary: "true", nginx.ingress.kubernetes.io/canary-weight: "25"}}, spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s2, port: {number: 80}}}}]}}]}}`
)

var everyKind = []*Kind{ConfigMaps, Deployments, HTTPRoutes, Ingresses, Services}

// routed is a cluster with a parent whose hook answers with these children.
func routed(t *testing.T, mode Mode, children ...string) (*Cluster, *scripted) {
	t.Helper()
	h := &scripted{children: children}
	c := New(Options{Mode: mode, Children: everyKind, Customize: h.customize}, h.sync)
	create(t, c, parentYAML)
	mustRun(t, c, time.Minute)
	return c, h
}

// customize asks for the EndpointSlices of the release.
func (h *scripted) customize([]byte, time.Time) (Reply, error) {
	h.customs++
	text, err := json.Marshal(map[string]any{"relatedResources": []any{map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "resource": "endpointslices",
		"labelSelector": map[string]any{"matchLabels": map[string]any{"greyrelease.example.com/name": "web"}},
	}}})
	return Reply{Status: 200, Body: text}, err
}

func second(text string) string {
	return strings.NewReplacer("name: s1", "name: s2", "app: d", "app: next").Replace(text)
}

func wantFlows(t *testing.T, c *Cluster, want string) {
	t.Helper()
	var list []string
	for _, f := range c.Flows(Release("web")) {
		list = append(list, fmt.Sprintf("%s %s %g", f.Entrance, f.Service, f.Percent))
	}
	if got := strings.Join(list, ", "); want != got {
		t.Errorf("want %s, got %s", want, got)
	}
}

// Every kind that routers are made of is written once and never again.
func TestRoutesAreWrittenOnce(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		c, h := routed(t, mode, serviceYAML, second(serviceYAML), routeYAML, ingressYAML, canaryYAML)
		if got := h.seen(HTTPRoutes); !slices.Equal(got, []string{"web"}) {
			t.Fatalf("want the route in the request, got %v", got)
		}
		if ip := c.Server.Get(Service("s1")).Text("spec", "clusterIP"); ip == "" {
			t.Error("want an address for the Service")
		}
		before := written(c)
		if err := c.Annotate(Release("web"), "poke", "1"); err != nil {
			t.Fatal(err)
		}
		mustRun(t, c, time.Minute)
		if n := written(c) - before; n != 0 {
			t.Errorf("want no write on a poke, got %d", n)
		}
		h.children[2] = strings.NewReplacer("weight: 90", "weight: 80", "weight: 10}", "weight: 20}").Replace(routeYAML)
		if err := c.Annotate(Release("web"), "poke", "2"); err != nil {
			t.Fatal(err)
		}
		mustRun(t, c, time.Minute)
		if n := written(c) - before; n != 1 {
			t.Errorf("want one write for new weights, got %d", n)
		}
	})
}

func TestEndpointsFollowThePods(t *testing.T) {
	c, h := routed(t, Dynamic, serviceYAML)
	c.Behave("1", Behavior{Ready: 10 * time.Second, Grace: 5 * time.Second})
	d := create(t, c, deploymentYAML)
	addresses := func() (ready, all int) {
		for _, slice := range c.Server.List(EndpointSlices) {
			if slice.Label(serviceName) != "s1" || slice.Label("greyrelease.example.com/name") != "web" {
				t.Errorf("want the labels of the Service, got %v", slice.Tree["metadata"])
			}
			for _, e := range apply.List(slice.Tree, "endpoints") {
				all++
				if apply.Field(e, "conditions", "ready") == true {
					ready++
				}
			}
		}
		return ready, all
	}
	for _, step := range []struct {
		why        string
		do         func()
		ready, all int
	}{
		{"starting pods are listed and not ready", func() {}, 0, 4},
		{"ready ones are", func() { mustRun(t, c, 10*time.Second) }, 4, 4},
		{"pods on their way out are not", func() { mustScale(t, c, d.Ref, 3) }, 3, 4},
		{"and leave", func() { mustRun(t, c, 5*time.Second) }, 3, 3},
	} {
		step.do()
		mustRun(t, c, time.Second)
		if ready, all := addresses(); ready != step.ready || all != step.all {
			t.Errorf("%s: want %d of %d, got %d of %d", step.why, step.ready, step.all, ready, all)
		}
	}
	last := h.asked[len(h.asked)-1]
	for _, slice := range apply.Object(last, "related", EndpointSlices.GroupKey()) {
		if n := len(apply.List(slice, "endpoints")); n != 3 {
			t.Errorf("want the slice with 3 endpoints in the request, got %d", n)
		}
	}
	if n := len(apply.Object(last, "related", EndpointSlices.GroupKey())); n != 1 {
		t.Errorf("want one slice in the request, got %d", n)
	}

	// The answer of the customize hook is kept until the spec changes.
	before := h.customs
	if err := c.Annotate(Release("web"), "poke", "1"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	if h.customs != before {
		t.Errorf("want the answer kept, got %d more calls", h.customs-before)
	}
	if err := c.Edit(Release("web"), map[string]any{"spec": map[string]any{"targetVersion": "2"}}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	if h.customs != before+1 {
		t.Errorf("want one more call after an edit, got %d", h.customs-before)
	}

	// A Service that is dropped takes its slice with it.
	h.children = nil
	if err := c.Annotate(Release("web"), "poke", "2"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	if n := len(c.Server.List(EndpointSlices)); n != 0 {
		t.Errorf("want no slice left, got %d", n)
	}
}

func TestGatewayTakesItsTime(t *testing.T) {
	c, h := routed(t, Dynamic)
	fixed := func(d time.Duration) Lag { return Lag{d, d} }
	c.Gateway = Gateway{Program: fixed(10 * time.Second), Status: fixed(5 * time.Second), Other: "accepts"}
	route := func(weights string) {
		t.Helper()
		h.children = []string{serviceYAML, second(serviceYAML), strings.Replace(routeYAML, "weight: 90}", weights+"}", 1)}
		if err := c.Annotate(Release("web"), "poke", weights); err != nil {
			t.Fatal(err)
		}
	}
	reports := func() string {
		var list []string
		for _, p := range apply.List(c.Server.Get(HTTPRoute("web")).Tree, "status", "parents") {
			for _, condition := range apply.List(p, "conditions") {
				if apply.Text(condition, "type") == "Accepted" {
					list = append(list, fmt.Sprintf("%s %s %v", apply.Text(p, "parentRef", "name"), apply.Text(condition, "status"), apply.Field(condition, "observedGeneration")))
				}
			}
		}
		return strings.Join(list, ", ")
	}
	expect := func(why, flows, report string) {
		t.Helper()
		wantFlows(t, c, flows)
		if got := reports(); report != got {
			t.Errorf("%s: want %q reported, got %q", why, report, got)
		}
	}
	route("weight: 90")
	mustRun(t, c, 9*time.Second)
	expect("not yet there", "", "other True 1")
	mustRun(t, c, 2*time.Second)
	expect("there and not yet reported", "headers s2 100, route s1 90, route s2 10", "other True 1")
	mustRun(t, c, 5*time.Second)
	expect("reported", "headers s2 100, route s1 90, route s2 10", "other True 1, gw True 1")

	c.Gateway.Refuse, c.Gateway.Other = "NoMatchingParent", ""
	route("weight: 30")
	mustRun(t, c, 16*time.Second)
	expect("refused", "headers s2 100, route s1 90, route s2 10", "other True 1, gw False 2")

	c.Gateway.Refuse, c.Gateway.Silent = "", true
	route("weight: 0")
	mustRun(t, c, time.Minute)
	expect("taken without a word", "headers s2 100, route s2 100", "other True 1, gw False 2")

	h.children = nil
	if err := c.Annotate(Release("web"), "poke", "none"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, 9*time.Second)
	wantFlows(t, c, "headers s2 100, route s2 100")
	mustRun(t, c, 2*time.Second)
	wantFlows(t, c, "")
}

// Without endpoints of the main Service nginx answers 503, also where the canary
// has a weight.
func TestIngressesNeedTheMainService(t *testing.T) {
	c, h := routed(t, Dynamic, serviceYAML, second(serviceYAML), ingressYAML, canaryYAML)
	wantFlows(t, c, "route s1 100")
	create(t, c, deploymentYAML)
	mustRun(t, c, time.Second)
	wantFlows(t, c, "route s2 25, route s1 75")
	split := c.Splits(Release("web"))[EntranceRoute]
	if split.Lost != 25 {
		t.Errorf("want a quarter lost, got %g", split.Lost)
	}
	h.children[3] = strings.Replace(canaryYAML, `"25"`, `"0", nginx.ingress.kubernetes.io/canary-by-header: x`, 1)
	if err := c.Annotate(Release("web"), "poke", "1"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	wantFlows(t, c, "headers s2 100, route s1 100")
}
