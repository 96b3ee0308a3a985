package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"greyrelease.example.com/hooks/greyrelease"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
)

// changes are what became of the Ingresses and Deployments of a story, in the order
// in which the API server made them: by resource versions, which count the writes of
// all kinds.
type changes struct {
	mu       sync.Mutex
	list     []change
	versions map[string]string // of Deployments, by name
	after    uint64
}

type change struct {
	at   uint64
	what string // with the name of a Deployment or Service in braces
}

// follow begins to note changes.
func (sh *shop) follow() *changes {
	sh.Helper()
	c := &changes{versions: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(sh.namespace))
	follow(sh.story, factory.Networking().V1().Ingresses().Informer(),
		func(in *networkingv1.Ingress) {
			c.note(in.ObjectMeta, fmt.Sprintf("%s leads to {%s}", in.Name, in.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name))
		},
		func(in *networkingv1.Ingress) { c.note(in.ObjectMeta, in.Name+" is gone") })
	gone := func(d *appsv1.Deployment) { c.note(d.ObjectMeta, fmt.Sprintf("{%s} is asked for 0", d.Name)) }
	follow(sh.story, factory.Apps().V1().Deployments().Informer(),
		func(d *appsv1.Deployment) {
			if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
				gone(d)
			} else {
				c.note(d.ObjectMeta, fmt.Sprintf("{%s} is asked for some", d.Name))
			}
		}, gone)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	sh.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	return c
}

func (c *changes) note(m metav1.ObjectMeta, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version := m.Annotations[greyrelease.AnnotationVersion]; version != "" {
		c.versions[m.Name] = version
	}
	at, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		what = err.Error()
	}
	c.list = append(c.list, change{at, what})
}

// before waits until all these changes have happened since the last call, and checks
// that each first happened before the next.
func (c *changes) before(sh *shop, want ...string) {
	sh.Helper()
	var firsts []uint64
	sh.until(fmt.Sprintf("%q to happen", want), func() (bool, string) {
		var seen []string
		firsts, seen = c.firsts(want)
		return !slices.Contains(firsts, 0), fmt.Sprintf("%q", seen)
	})
	if !slices.IsSorted(firsts) {
		_, seen := c.firsts(want)
		sh.Errorf("want %q in this order, got %q", want, seen)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = slices.Max(firsts)
}

// firsts are when each of these changes first happened, 0 for never, and all that
// happened.
func (c *changes) firsts(want []string) (at []uint64, seen []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.list, func(a, b change) int { return int(a.at) - int(b.at) })
	at = make([]uint64, len(want))
	for _, change := range c.list {
		if change.at <= c.after {
			continue
		}
		what := change.what
		for name, version := range c.versions {
			what = strings.ReplaceAll(what, "{"+name+"}", version)
		}
		seen = append(seen, what)
		if i := slices.Index(want, what); i >= 0 && at[i] == 0 {
			at[i] = change.at
		}
	}
	return at, seen
}
