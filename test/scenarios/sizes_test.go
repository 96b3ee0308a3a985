package scenarios

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// SN-01: dynamic apply keeps a copy of each child in an annotation, and all
// annotations of an object together are limited to 256 KiB. What fits is released;
// what does not is refused, and the release goes on being managed.
func TestSN01LargeTemplates(t *testing.T) {
	const annotations, object = 256 << 10, 1 << 20
	for _, mode := range modes {
		for _, kib := range []int{130, 300} {
			s := after(t, mode, "create {replicas: 2}\nuntil phase=Healthy within 1m")
			s.Checks = nil // they would decode each request many times
			if err := s.Edit(s.Release, map[string]any{"spec": map[string]any{"targetVersion": "2.0", "template": envOf(kib)}}); err != nil {
				t.Fatal(err)
			}
			s.onward(t, "run 5s\nscale 3\nrun 5s\nexpect events=0 asked=3 available=3")
			phase, _ := s.value("phase")
			want := "Healthy"
			if mode == sim.Dynamic && kib > 250 {
				want = "Invalid"
			}
			if phase != want {
				t.Errorf("%s, %d KiB: want phase %s, got %s", mode, kib, want, s.show())
			}
			for _, k := range []*sim.Kind{sim.ConfigMaps, sim.Deployments} {
				for _, o := range s.Server.List(k) {
					size := 0
					for name, value := range apply.Object(o.Tree, "metadata", "annotations") {
						size += len(name) + len(value.(string))
					}
					if size > annotations || len(o.JSON()) > object {
						t.Errorf("%s, %d KiB: %s has %d bytes of annotations and %d in all", mode, kib, o.Ref, size, len(o.JSON()))
					}
				}
			}
		}
	}
}

// envOf is a pod template with about so many KiB of environment.
func envOf(kib int) map[string]any {
	random := rand.New(rand.NewPCG(1, 2))
	var env []any
	for i := range kib {
		value := make([]byte, 500)
		for j := range value {
			value[j] = byte(random.UintN(256))
		}
		env = append(env, map[string]any{"name": fmt.Sprintf("SETTING_%d", i), "value": hex.EncodeToString(value)})
	}
	container := map[string]any{"name": "web", "image": "nginx", "env": env}
	return map[string]any{"spec": map[string]any{"containers": []any{container}}}
}

// SN-03: without revisionHistoryLimit 10 revisions are kept beside the stable one.
func TestSN03HistoryStaysFinite(t *testing.T) {
	s := after(t, sim.Dynamic, "create {replicas: 1}\nuntil phase=Healthy within 1m")
	s.Checks = nil // the stories have them; here it is about numbers
	for v := 2; v <= 61; v++ {
		s.onward(t, fmt.Sprintf("edit {targetVersion: \"%d.0\"}\nuntil phase=Healthy targetRevision=%d within 1m", v, v))
	}
	s.onward(t, "run 1m\nexpect snapshots=51,52,53,54,55,56,57,58,59,60,61 deployments=61")
	o, err := s.Parent()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(apply.List(o.Tree, "status", "history")); n != 10 {
		t.Errorf("want 10 entries in status.history, got %d", n)
	}
}

// large is a request of about 6 MB: 50 snapshots of 80 KiB with their
// last-applied annotations, and Deployments with long managedFields.
func large(t *testing.T) (map[string]any, time.Time) {
	t.Helper()
	s := after(t, sim.Dynamic, "create {replicas: 2, revisionHistoryLimit: 100}\nuntil phase=Healthy within 1m")
	request := s.request(t)
	maps := apply.Object(request, "children", "ConfigMap.v1")
	uid := apply.Text(request, "parent", "metadata", "uid")
	owner := apply.List(deployment(t, request, "1"), "metadata", "ownerReferences")
	made := map[string]any{}
	last := ""
	for v := range 50 {
		// The next number follows the last snapshot; the others need not be there yet.
		name := fmt.Sprintf("%s%d", snapshotPrefix, v+2)
		spec := apply.Object(request, "parent", "spec")
		spec["targetVersion"], spec["template"] = fmt.Sprintf("%d.0", v+2), envOf(40)
		c := ask(t, request, s.Now()).children["ConfigMap "+name]
		if c == nil {
			t.Fatalf("no snapshot %s in the answer", name)
		}
		meta := apply.Object(c, "metadata")
		meta["namespace"], meta["uid"], meta["ownerReferences"] = "default", name, owner
		meta["creationTimestamp"] = "2026-11-30T12:00:00Z"
		apply.Object(meta, "labels")["controller-uid"] = uid
		apply.Object(meta, "annotations")["metacontroller.k8s.io/last-applied-configuration"] = strings.Repeat("x", 60<<10)
		delete(maps, last)
		last = "default/" + name
		maps[last], made[last] = c, c
	}
	for key, c := range made {
		maps[key] = c
	}
	for _, d := range apply.Object(request, "children", "Deployment.apps/v1") {
		meta := apply.Object(d, "metadata")
		meta["managedFields"] = []any{map[string]any{
			"manager": "metacontroller", "operation": "Update", "fieldsV1": map[string]any{"f:x": strings.Repeat("x", 200<<10)},
		}}
	}
	return request, s.Now()
}

// SP-01: a large request is answered well within the second, 20 of them in
// parallel too, with memory in proportion to its size.
func TestSP01ManySnapshots(t *testing.T) {
	request, now := large(t)
	body := encode(t, request)
	if len(body) < 6<<20 {
		t.Fatalf("want a request of 6 MB, got %d bytes", len(body))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fastest := time.Hour
	for range 5 {
		start := time.Now()
		if r, err := sim.Product(body, now); err != nil || r.Status != 200 {
			t.Fatalf("want status 200, got %d: %v", r.Status, err)
		}
		fastest = min(fastest, time.Since(start))
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / 5
	t.Logf("%d KiB: %v and %d KiB allocated for each call", len(body)>>10, fastest, each>>10)
	if fastest > time.Second || each > 8*uint64(len(body)) {
		t.Errorf("want less than 1 s and 8 times the request, got %v and %d bytes for %d", fastest, each, len(body))
	}

	var group sync.WaitGroup
	statuses := make([]int, 20)
	for i := range statuses {
		group.Go(func() {
			r, err := sim.Product(body, now)
			if err == nil {
				statuses[i] = r.Status
			}
		})
	}
	group.Wait()
	for i, status := range statuses {
		if status != 200 {
			t.Errorf("call %d: want status 200, got %d", i, status)
		}
	}
	for name, c := range ask(t, request, now).children {
		if text := string(encode(t, c)); strings.Contains(text, "last-applied") || strings.Contains(text, "managedFields") {
			t.Errorf("%s has fields that are not ours", name)
		}
	}
}

// SP-02: 500 releases are synced 200 at a time, as after a restart of
// Metacontroller; its limit of 10 seconds for each call is far away.
func TestSP02BurstOfReleases(t *testing.T) {
	s := after(t, sim.Dynamic, midBatch)
	body := encode(t, s.request(t))
	now := s.Now()
	var group sync.WaitGroup
	var lock sync.Mutex
	var slowest time.Duration
	slots := make(chan struct{}, 200)
	for range 500 {
		slots <- struct{}{}
		group.Go(func() {
			start := time.Now()
			r, err := sim.Product(body, now)
			took := time.Since(start)
			<-slots
			lock.Lock()
			defer lock.Unlock()
			slowest = max(slowest, took)
			if err != nil || r.Status != 200 {
				t.Errorf("want status 200, got %d: %v", r.Status, err)
			}
		})
	}
	group.Wait()
	if slowest > 5*time.Second {
		t.Errorf("want each call within 5 s, the slowest took %v", slowest)
	}
}
