package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// guard sees every change of the pods, EndpointSlices and Deployments of a
// release, in the order in which the API server made them, and notes where a
// promise is broken.
type guard struct {
	release string
	serves  labels.Selector // the pods that the Service sends to
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu                      sync.Mutex
	pods                    map[types.UID]pod
	created                 map[string]int // pods of the release, by version
	raised                  map[string]int // what Deployments were raised by in all, by version
	endpoints               map[string]int // ready ones, by slice
	asked                   map[string]int32
	sizes                   map[string][]int32 // what each version's Deployment was asked for, in order
	at                      map[string][]time.Time
	floor                   int
	ceiling                 int
	podsHeld, endpointsHeld bool // the floor was reached since it was set
	unsure                  bool // events were missed, so what was created cannot be judged
	breaches                []string
}

type pod struct {
	version string
	ready   bool
	ends    time.Time // of a pod that is deleted: when its grace period is over
}

// watch begins to watch the release of a story, and the pods that serve beside its.
func watch(s *story, serves map[string]string) *guard {
	g := &guard{
		release: s.name, serves: labels.SelectorFromSet(serves),
		pods: map[types.UID]pod{}, created: map[string]int{}, raised: map[string]int{}, endpoints: map[string]int{},
		asked: map[string]int32{}, sizes: map[string][]int32{}, at: map[string][]time.Time{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(s.namespace))
	follow(s, factory.Core().V1().Pods().Informer(), g.seePod, g.losePod)
	follow(s, factory.Discovery().V1().EndpointSlices().Informer(), g.seeSlice, g.loseSlice)
	follow(s, factory.Apps().V1().Deployments().Informer(), g.seeDeployment, g.loseDeployment)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(s.ctx.Done())
	g.done.Go(func() {
		<-ctx.Done()
		factory.Shutdown()
	})
	return g
}

// follow calls see for each version of each object and lose when it is gone.
func follow[T any](s *story, informer cache.SharedIndexInformer, see, lose func(*T)) {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { see(obj.(*T)) },
		UpdateFunc: func(_, obj any) { see(obj.(*T)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			lose(obj.(*T))
		},
	})
	s.must(err)
}

// stop ends the watch and returns the breaches. No pod of the release may ever have
// been made but by raising a Deployment: one more, and some pod was restarted.
func (g *guard) stop() []string {
	// Pods and Deployments come by different watches.
	for range 20 {
		if g.needless() == "" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	needless := g.needless()
	g.cancel()
	g.done.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if needless != "" {
		g.breach("%s", needless)
	}
	return g.breaches
}

// needless says which pods were made in the place of others, or "".
func (g *guard) needless() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for version, n := range g.created {
		if n > g.raised[version] && !g.unsure {
			return fmt.Sprintf("want no pod restarted: %s was raised by %d in all, and %d of its pods were created", version, g.raised[version], n)
		}
	}
	return ""
}

// miss says that events may be missed from here on.
func (g *guard) miss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsure = true
}

// forgive expects n pods of a version to be made in the place of others.
func (g *guard) forgive(version string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.raised[version] += n
}

// keep makes n the least number of ready pods and of ready endpoints, from when
// that many are there. 0 lifts the promise.
func (g *guard) keep(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.floor, g.podsHeld, g.endpointsHeld = n, false, false
	g.check("the promise was made")
}

// limit makes n the greatest number of pods that may be asked for. 0 lifts it.
func (g *guard) limit(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ceiling = n
}

func (g *guard) check(event string) {
	if g.floor > 0 {
		g.podsHeld = g.hold("pods", g.countPods(), g.podsHeld, event)
		n := 0
		for _, ready := range g.endpoints {
			n += ready
		}
		g.endpointsHeld = g.hold("endpoints", n, g.endpointsHeld, event)
	}
}

func (g *guard) hold(what string, n int, held bool, event string) bool {
	if n >= g.floor {
		return true
	}
	if held {
		g.breach("want at least %d ready %s, got %d after %s", g.floor, what, n, event)
	}
	return false // one breach for each time it falls below
}

func (g *guard) breach(format string, args ...any) {
	g.breaches = append(g.breaches, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (g *guard) countPods() int {
	n := 0
	for _, p := range g.pods {
		if p.ready {
			n++
		}
	}
	return n
}

func (g *guard) seePod(p *corev1.Pod) {
	if !g.serves.Matches(labels.Set(p.Labels)) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	version := p.Spec.Containers[0].Image
	version = version[strings.LastIndex(version, ":")+1:]
	was, known := g.pods[p.UID]
	if !known && p.Labels[greyrelease.LabelName] == g.release {
		g.created[version]++
	}
	is := pod{version, cluster.Ready(p), was.ends}
	if p.DeletionTimestamp != nil && was.ends.IsZero() && p.Annotations["test/end"] == "slow" {
		is.ends = p.DeletionTimestamp.Time
	}
	g.pods[p.UID] = is
	g.check("pod " + p.Name + " changed")
}

func (g *guard) losePod(p *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.pods[p.UID].ends) {
		g.breach("want pod %s to have its grace period, it went %v early", p.Name, time.Until(g.pods[p.UID].ends))
	}
	delete(g.pods, p.UID)
	g.check("pod " + p.Name + " went")
}

func (g *guard) seeSlice(e *discoveryv1.EndpointSlice) {
	if e.Labels[discoveryv1.LabelServiceName] != g.release {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endpoints[e.Name] = serving(e)
	g.check("slice " + e.Name + " changed")
}

// serving counts the ready endpoints of a slice.
func serving(e *discoveryv1.EndpointSlice) int {
	n := 0
	for _, endpoint := range e.Endpoints {
		if endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
			n++
		}
	}
	return n
}

func (g *guard) loseSlice(e *discoveryv1.EndpointSlice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.endpoints, e.Name)
	g.check("slice " + e.Name + " went")
}

func (g *guard) seeDeployment(d *appsv1.Deployment) {
	if d.Labels[greyrelease.LabelName] != g.release || d.Spec.Replicas == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	version := d.Annotations[greyrelease.AnnotationVersion]
	sizes := g.sizes[version]
	if len(sizes) == 0 || sizes[len(sizes)-1] != *d.Spec.Replicas {
		g.sizes[version] = append(sizes, *d.Spec.Replicas)
		g.at[version] = append(g.at[version], time.Now())
	}
	g.raised[version] += max(0, int(*d.Spec.Replicas-g.asked[d.Name]))
	g.asked[d.Name] = *d.Spec.Replicas
	total := int32(0)
	for _, n := range g.asked {
		total += n
	}
	if g.ceiling > 0 && int(total) > g.ceiling {
		g.breach("want at most %d pods asked for, got %v", g.ceiling, g.asked)
	}
}

func (g *guard) loseDeployment(d *appsv1.Deployment) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asked, d.Name)
}

// readyPods are the ready pods by version.
func (g *guard) readyPods() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := map[string]int{}
	for _, p := range g.pods {
		if p.ready {
			n[p.version]++
		}
	}
	return n
}

// allPods counts all pods that exist.
func (g *guard) allPods() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pods)
}

func (g *guard) readyEndpoints() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, ready := range g.endpoints {
		n += ready
	}
	return n
}

// createdPods are the pods ever created by version: more than were needed means
// that some were restarted.
func (g *guard) createdPods() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.created)
}

// asks returns what the Deployment of a version was asked for in order, and when.
func (g *guard) asks(version string) ([]int32, []time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]int32(nil), g.sizes[version]...), append([]time.Time(nil), g.at[version]...)
}
