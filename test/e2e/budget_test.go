package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// budget is the most that a release of 10 pods over 20, 40, 60 and 80% and
// promotion may write, by what is written: 28 in all.
//
// No release over four batches can do with less than 25. The two Deployments take
// 11: the new one is created with 2 and raised to 4, 6, 8 and 10; the old one is
// lowered to 8, 6, 4, 2 and 0, and deleted. Its memory takes 7: the snapshot, and
// the record when the target is taken up, at each of the four gates and when it is
// out, because what was passed has to be durable before anything acts on it. The
// status takes 7: a new target, four batches, promotion, the end.
//
// The Deployment above that is the label that says which one is stable should all
// else be lost. The statuses above that are counts of pods that come late.
var budget = map[string]int{
	"deployments": 12,
	"configmaps":  7,
	"status":      9,
}

// TestWriteBudget counts the writes of a release, and beside them those of a plain
// Deployment's rolling update. It does not run in parallel, to have the machine for
// itself.
func TestWriteBudget(t *testing.T) {
	s := begin(t, "web")
	s.install(10, object{"batches": []any{
		object{"replicas": "20%"}, object{"replicas": "40%"}, object{"replicas": "60%"}, object{"replicas": "80%"},
	}})
	s.quiet()
	since, began := s.mark(), time.Now()
	s.patch(object{"targetVersion": "2.0"})
	for {
		if st, current := s.status(); current && st.Phase == greyrelease.PhaseHealthy || time.Since(began) > patience {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	wall := time.Since(began)
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 10})
	s.quiet()
	s.made(map[string]int{"1.0": 10, "2.0": 10})
	s.steps("2.0", 2, 4, 6, 8, 10)
	s.steps("1.0", 10, 8, 6, 4, 2, 0)
	writes := s.since(since)
	own := slices.DeleteFunc(slices.Clone(writes), func(w cluster.Write) bool { return w.User != cluster.Metacontroller })
	t.Logf("a release of 10 pods over 20, 40, 60 and 80%%: Healthy after %v\n%s", wall.Round(10*time.Millisecond), table(writes))

	most := maps.Clone(budget)
	// On a busy machine pods come one by one, and what is seen of them is written;
	// and caches lag so far that a write is in conflict: one for each second begun.
	late := int(wall/time.Second) + 1
	most["status"] += late
	most["refused"] += late
	got := map[string]int{}
	for _, w := range own {
		switch {
		case w.Resource == "events":
		case w.Code >= 300:
			got["refused"]++
		case w.Subresource != "":
			got[w.Subresource]++
		default:
			got[w.Resource]++
		}
	}
	for kind, n := range got {
		if n > most[kind] {
			t.Errorf("want at most %d writes of %s, got %d", most[kind], kind, n)
		}
	}

	// The same pods as a plain Deployment.
	p := beginServing(t, "web", map[string]string{"app": "web"})
	deployments := client.AppsV1().Deployments(p.namespace)
	_, err := deployments.Create(p.ctx, plain(10, "1.0"), metav1.CreateOptions{})
	p.must(err)
	out := func(version string) {
		p.eventually(version+" out", func() (bool, string) {
			got := p.guard.readyPods()
			return maps.Equal(got, map[string]int{version: 10}) && p.guard.allPods() == 10 && p.guard.readyEndpoints() == 10, fmt.Sprint(got)
		})
		time.Sleep(2 * time.Second)
	}
	out("1.0")
	since, began = p.mark(), time.Now()
	change := `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:2.0"}]}}}}`
	_, err = deployments.Patch(p.ctx, "web", types.StrategicMergePatchType, []byte(change), metav1.PatchOptions{})
	p.must(err)
	for {
		d, err := deployments.Get(p.ctx, "web", metav1.GetOptions{})
		p.must(err)
		st := d.Status
		if st.ObservedGeneration == d.Generation && st.UpdatedReplicas == 10 && st.Replicas == 10 && st.AvailableReplicas == 10 || time.Since(began) > patience {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	wall = time.Since(began)
	out("2.0")
	writes = p.since(since)
	t.Logf("a plain Deployment of 10 pods: updated after %v\n%s", wall.Round(10*time.Millisecond), table(writes))
}

// mark is where the writes in the namespace of a story stand, for since.
func (s *story) mark() int {
	s.Helper()
	list, err := plane.AllWrites(s.namespace)
	s.must(err)
	return len(list)
}

// since are the writes in the namespace after a mark.
func (s *story) since(mark int) []cluster.Write {
	s.Helper()
	list, err := plane.AllWrites(s.namespace)
	s.must(err)
	return list[mark:]
}

// table counts writes by who made them, a line for each program.
func table(writes []cluster.Write) string {
	by := map[string][]cluster.Write{}
	for _, w := range writes {
		by[w.Agent] = append(by[w.Agent], w)
	}
	var lines []string
	for _, agent := range slices.Sorted(maps.Keys(by)) {
		_, text := cluster.Count(by[agent])
		lines = append(lines, fmt.Sprintf("%-28s %s", agent, text))
	}
	return strings.Join(lines, "\n")
}
