package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The stories of this file disturb the whole cluster, so they do not run in
// parallel: go test runs them before all that do.

// TestServiceAway edits a release while nobody answers for it. Nothing moves, the
// user is told by an event, and the edit is carried out later.
func TestServiceAway(t *testing.T) {
	s := halfway(begin(t, "web"))
	plane.End("greyrelease", true)
	s.guard.limit(6 + surge(6))
	s.kubectl("scale", "gr", "web", "--replicas=6")
	s.until("a SyncError event", func() (bool, string) {
		events, err := client.CoreV1().Events(s.namespace).List(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=GreyRelease,reason=SyncError"})
		s.must(err)
		return len(events.Items) > 0, "none"
	})
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.must(plane.StartService(s.ctx))
	s.pods(map[string]int{"1.0": 4, "2.0": 2})
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 6})
	s.made(map[string]int{"1.0": 6, "2.0": 6})
}

// TestServiceAwayForAMinute proves TI-08 on a real cluster: the service is away for
// longer than the deadline while a batch is starting. What becomes available
// meanwhile does not fail, a pod that dies is replaced, and the release goes on.
func TestServiceAwayForAMinute(t *testing.T) {
	s := begin(t, "web")
	s.install(6, object{"batchSize": int64(2), "soakSeconds": int64(3), "progressDeadlineSeconds": int64(20)})
	s.patch(object{"targetVersion": "2.0"})
	s.until("2.0 asked for", func() (bool, string) {
		sizes, _ := s.guard.asks("2.0")
		return len(sizes) > 0, "nothing"
	})
	plane.End("greyrelease", true)
	gone := time.Now()
	s.until("the pods of 2.0 ready", func() (bool, string) {
		got := s.guard.readyPods()
		return got["2.0"] == 2, fmt.Sprint(got)
	})
	was := s.guard.readyPods()
	// A node that is lost takes one pod with it.
	s.guard.keep(5)
	s.guard.forgive("1.0", 1)
	pods := client.CoreV1().Pods(s.namespace)
	list, err := pods.List(s.ctx, metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=web"})
	s.must(err)
	i := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return strings.HasSuffix(p.Spec.Containers[0].Image, ":1.0") })
	s.must(pods.Delete(s.ctx, list.Items[i].Name, metav1.DeleteOptions{}))
	s.pods(was)
	s.guard.keep(6)
	for time.Since(gone) < time.Minute {
		s.stays(was)
	}
	s.must(plane.StartService(s.ctx))
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 6})
	s.made(map[string]int{"1.0": 7, "2.0": 6})
}

// TestRestarts has each program crash again and again, at random moments, while a
// release goes out.
func TestRestarts(t *testing.T) {
	for _, c := range []struct {
		program string
		start   func(*story) error
	}{
		{"greyrelease", func(s *story) error { return plane.StartService(s.ctx) }},
		{"metacontroller", func(s *story) error { return plane.StartMetacontroller(s.ctx) }},
		{"kube-apiserver", func(s *story) error { return plane.StartAPIServer(s.ctx) }},
	} {
		t.Run(c.program, func(t *testing.T) {
			s := begin(t, "web")
			s.install(6, object{"batchSize": int64(1), "soakSeconds": int64(1)})
			if c.program == "kube-apiserver" {
				s.sampled(6)
			}
			s.patch(object{"targetVersion": "2.0"})
			for range 3 {
				moment := 300*time.Millisecond + rand.N(1500*time.Millisecond)
				t.Logf("%s ends after %v", c.program, moment)
				time.Sleep(moment)
				plane.End(c.program, true)
				s.must(c.start(s))
			}
			s.settled("2.0")
			s.pods(map[string]int{"2.0": 6})
			s.made(map[string]int{"1.0": 6, "2.0": 6})
		})
	}
}

// sampled has lists of pods and EndpointSlices in the place of the guard: a watch
// that was broken off goes on with what is different, in no particular order.
func (s *story) sampled(n int) {
	s.guard.keep(0)
	s.guard.miss()
	ended, stopped := make(chan struct{}), make(chan struct{})
	s.Cleanup(func() {
		close(ended)
		<-stopped
	})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
			pods, err := client.CoreV1().Pods(s.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=" + s.name})
			if err != nil { // the API server is away
				continue
			}
			got := 0
			for i := range pods.Items {
				if cluster.Ready(&pods.Items[i]) {
					got++
				}
			}
			list, err := client.DiscoveryV1().EndpointSlices(s.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.name})
			if err != nil {
				continue
			}
			endpoints := 0
			for i := range list.Items {
				endpoints += serving(&list.Items[i])
			}
			if got < n || endpoints < n {
				s.Errorf("want at least %d ready pods and endpoints, got %d and %d", n, got, endpoints)
				return
			}
		}
	}()
}

// TestApplyStrategySwitched restarts Metacontroller with the other apply strategy
// under a release that is halfway, and back.
func TestApplyStrategySwitched(t *testing.T) {
	first, second := cluster.DynamicApply, cluster.ServerSideApply
	if *applyStrategy == second {
		first, second = second, first
	}
	use := func(strategy string) {
		plane.End("metacontroller", false)
		plane.Apply = strategy
		if err := plane.StartMetacontroller(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := halfway(begin(t, "web"))
	use(second)
	t.Cleanup(func() {
		if plane.Apply != first {
			use(first)
		}
	})
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.finish(map[string]int{"1.0": 4, "2.0": 4})
	s.idle()
	use(first)
	s.patch(object{"targetVersion": "3.0", "batches": nil})
	s.settled("3.0")
	s.pods(map[string]int{"3.0": 4})
	s.made(map[string]int{"1.0": 4, "2.0": 4, "3.0": 4})
	s.idle()
	if out := s.kubectl("get", "deployments,configmaps", "-o", "yaml"); (first == cluster.ServerSideApply) == strings.Contains(out, "metacontroller.k8s.io/last-applied-configuration") {
		t.Errorf("want the annotation of dynamic apply only there, got\n%s", out)
	}
}
