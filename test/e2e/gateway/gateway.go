// Package gateway is a small gateway for tests: it serves the HTTPRoutes of one
// Gateway object by a haproxy, and Services as kube-proxy would, each at a port of
// its own. It can be as slow, as silent and as wrong about its work as a story asks.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"greyrelease.example.com/test/e2e/haproxy"
	"greyrelease.example.com/test/e2e/podserver"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// HTTPRoutes is the resource that a gateway watches.
var HTTPRoutes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}

// gather is how long changes are gathered before the proxy learns of them: pods come
// and go by the half dozen.
const gather = 100 * time.Millisecond

// Options say what to serve.
type Options struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Pods    *podserver.Servers
	Program haproxy.Program
	// Dir is where the proxy has its files; the path must be short.
	Dir string
	// Namespace of the Gateway, the routes and the Services; Name of the Gateway, ""
	// for none.
	Namespace, Name string
	// Services are served each at a port of its own, as kube-proxy does.
	Services []string
	// Manners are those it begins with.
	Manners Manners
}

// Gateway is a running gateway.
type Gateway struct {
	Options
	Proxy *haproxy.Proxy

	ports  map[string]int // by Service, "" for the routes
	cancel context.CancelFunc
	done   sync.WaitGroup
	wake   chan struct{}

	mu      sync.Mutex
	manners Manners
	queue   map[types.UID][]served // versions of routes that are not due yet, in order
	seen    map[types.UID]int64    // the latest generation
	applied map[types.UID]served
	states  []State
	err     error
}

// served is a version of a route that the proxy serves, or will.
type served struct {
	generation int64
	at         time.Time // when it was first seen
	route      route
	rules      []haproxy.Rule
	broken     []string // backends that do not exist
	wrong      error
}

// State is what the proxy served from an instant on.
type State struct {
	At     time.Time
	Config haproxy.Config
}

// Start starts a gateway. It serves until Stop.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	ctx, cancel := context.WithCancel(ctx)
	g := &Gateway{
		Options: o, cancel: cancel, wake: make(chan struct{}, 1), manners: o.Manners,
		ports: map[string]int{}, queue: map[types.UID][]served{}, seen: map[types.UID]int64{}, applied: map[types.UID]served{},
	}
	for _, name := range append([]string{""}, o.Services...) {
		port, err := haproxy.FreePort()
		if err != nil {
			cancel()
			return nil, err
		}
		g.ports[name] = port
	}
	config := g.config(nil)
	var err error
	if g.Proxy, err = haproxy.Start(ctx, o.Program, o.Dir, config); err != nil {
		cancel()
		return nil, err
	}
	g.states = []State{{time.Now(), config}}
	if err := g.watch(ctx); err != nil {
		cancel()
		g.Proxy.Stop()
		return nil, err
	}
	g.done.Go(func() { g.run(ctx) })
	return g, nil
}

// Stop ends the gateway and its proxy, and returns what went wrong.
func (g *Gateway) Stop() error {
	g.cancel()
	g.done.Wait()
	g.Proxy.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// URL is where a Service is served, "" for the routes.
func (g *Gateway) URL(service string) string {
	return fmt.Sprintf("http://127.0.0.1:%d", g.ports[service])
}

// States are what the proxy has served, in order.
func (g *Gateway) States() []State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.states)
}

// watch wakes the gateway by each change of what it serves.
func (g *Gateway) watch(ctx context.Context) error {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { g.poke() },
		UpdateFunc: func(any, any) { g.poke() },
		DeleteFunc: func(any) { g.poke() },
	}
	objects := informers.NewSharedInformerFactoryWithOptions(g.Client, 0, informers.WithNamespace(g.Namespace))
	watched := []cache.SharedIndexInformer{
		objects.Core().V1().Services().Informer(),
		objects.Discovery().V1().EndpointSlices().Informer(),
	}
	routes := dynamicinformer.NewFilteredDynamicSharedInformerFactory(g.Dynamic, 0, g.Namespace, nil)
	if g.Name != "" {
		watched = append(watched, routes.ForResource(HTTPRoutes).Informer())
	}
	for _, informer := range watched {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	objects.Start(ctx.Done())
	routes.Start(ctx.Done())
	objects.WaitForCacheSync(ctx.Done())
	routes.WaitForCacheSync(ctx.Done())
	g.done.Go(func() {
		<-ctx.Done()
		objects.Shutdown()
		routes.Shutdown()
	})
	return nil
}

func (g *Gateway) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// run follows the objects until the context ends.
func (g *Gateway) run(ctx context.Context) {
	for ctx.Err() == nil {
		again, err := g.reconcile(ctx)
		if err != nil && ctx.Err() == nil {
			g.mu.Lock()
			g.err = errors.Join(g.err, err)
			g.mu.Unlock()
			again = time.Second
		}
		var timer <-chan time.Time
		if again > 0 {
			timer = time.After(again)
		}
		select {
		case <-g.wake:
			time.Sleep(gather)
		case <-timer:
		case <-ctx.Done():
		}
	}
}

// reconcile serves what the API server has, then reports. It returns when to look
// again, 0 for never. What it serves is read live, routes first: whoever raised a
// weight has seen the endpoints before, so they are read as well.
func (g *Gateway) reconcile(ctx context.Context) (time.Duration, error) {
	manners := g.Manners()
	var routes []unstructured.Unstructured
	if g.Name != "" {
		list, err := g.Dynamic.Resource(HTTPRoutes).Namespace(g.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("cannot list routes: %w", err)
		}
		routes = slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return len(g.refs(&u)) == 0 })
	}
	again := g.take(routes, manners)
	services, err := g.Client.CoreV1().Services(g.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot list Services: %w", err)
	}
	list, err := g.Client.DiscoveryV1().EndpointSlices(g.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot list EndpointSlices: %w", err)
	}
	endpoints := map[string][]string{}
	ports := map[string][]int32{}
	for _, s := range services.Items {
		endpoints[s.Name] = nil
		for _, p := range s.Spec.Ports {
			ports[s.Name] = append(ports[s.Name], p.Port)
		}
	}
	for _, slice := range list.Items {
		service := slice.Labels[discoveryv1.LabelServiceName]
		if _, ok := endpoints[service]; !ok {
			continue
		}
		ready, known := g.addresses(slice)
		endpoints[service] = append(endpoints[service], ready...)
		if !known {
			again = gather
		}
	}
	g.resolve(ports)
	config := g.config(endpoints)
	if err := g.Proxy.Apply(ctx, config); err != nil {
		return 0, err
	}
	g.note(config)
	for i := range routes {
		if err := g.report(ctx, &routes[i], manners); err != nil {
			return 0, err
		}
	}
	return again, nil
}

// refs are the parentRefs of a route that name the gateway.
func (g *Gateway) refs(u *unstructured.Unstructured) []map[string]any {
	list, _, err := unstructured.NestedSlice(u.Object, "spec", "parentRefs")
	if err != nil {
		return nil
	}
	var refs []map[string]any
	for _, item := range list {
		ref, ok := item.(map[string]any)
		if ok && ref["name"] == g.Name && (ref["kind"] == nil || ref["kind"] == "Gateway") && (ref["namespace"] == nil || ref["namespace"] == g.Namespace) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// take makes the routes those to be served, each when it is due, and returns when
// the next one is.
func (g *Gateway) take(routes []unstructured.Unstructured, manners Manners) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var again time.Duration
	there := map[types.UID]bool{}
	for i := range routes {
		u := &routes[i]
		uid := u.GetUID()
		there[uid] = true
		if generation := u.GetGeneration(); g.seen[uid] != generation {
			g.seen[uid] = generation
			s := served{generation: generation, at: time.Now()}
			if s.route, s.wrong = decode(u); s.wrong == nil {
				s.rules, s.wrong = s.route.rules()
			}
			g.queue[uid] = append(g.queue[uid], s)
		}
		for len(g.queue[uid]) > 0 && manners.Verdict != Refuse { // what was served before is served on
			next := g.queue[uid][0]
			if wait := time.Until(next.at.Add(manners.Delay)); wait > 0 {
				if again == 0 || wait < again {
					again = wait
				}
				break
			}
			g.applied[uid], g.queue[uid] = next, g.queue[uid][1:]
		}
	}
	for uid := range g.applied {
		if !there[uid] {
			delete(g.applied, uid)
			delete(g.queue, uid)
			delete(g.seen, uid)
		}
	}
	return again
}

// resolve looks for the backends of the routes among the ports of the Services.
func (g *Gateway) resolve(ports map[string][]int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, s := range g.applied {
		s.broken = nil
		for _, rule := range s.route.Rules {
			for _, b := range rule.BackendRefs {
				if !slices.Contains(ports[b.Name], b.Port) {
					s.broken = append(s.broken, fmt.Sprintf("%s:%d", b.Name, b.Port))
				}
			}
		}
		g.applied[uid] = s
	}
}

// addresses are where the pods of the ready endpoints are served, and whether all are
// known by now.
func (g *Gateway) addresses(slice discoveryv1.EndpointSlice) (addresses []string, known bool) {
	known = true
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready == nil || !*e.Conditions.Ready || e.TargetRef == nil {
			continue
		}
		address, ok := g.Pods.Address(e.TargetRef.UID)
		if !ok {
			known = false
			continue
		}
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	return addresses, known
}

// config is that of the proxy for the routes to be served and these endpoints.
func (g *Gateway) config(endpoints map[string][]string) haproxy.Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	config := haproxy.Config{Services: map[string][]string{}}
	front := haproxy.Frontend{Port: g.ports[""]}
	for _, uid := range sortedKeys(g.applied) {
		front.Rules = append(front.Rules, g.applied[uid].rules...)
	}
	config.Frontends = append(config.Frontends, front)
	for _, name := range g.Services {
		config.Frontends = append(config.Frontends, haproxy.Frontend{Port: g.ports[name], Rules: []haproxy.Rule{
			{Weights: []haproxy.Weight{{Service: name, Weight: 1}}},
		}})
	}
	// A Service that a rule names and that does not exist has no endpoint: requests
	// for it fail, as they should.
	for _, f := range config.Frontends {
		for _, r := range f.Rules {
			for _, w := range r.Weights {
				config.Services[w.Service] = endpoints[w.Service]
			}
		}
	}
	return config
}

func (g *Gateway) note(config haproxy.Config) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if reloads := g.Proxy.Reloads(); len(reloads) == len(g.states) { // one more than was noted
		g.states = append(g.states, State{reloads[len(reloads)-1], config})
	}
}

func sortedKeys(m map[types.UID]served) []types.UID {
	keys := make([]types.UID, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
