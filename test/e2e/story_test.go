package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// patience is how long anything may take on a busy machine. Nothing is asserted
// about time but that it came to pass.
const patience = 2 * time.Minute

// object is a JSON object.
type object = map[string]any

var releases = schema.GroupVersionResource{Group: "greyrelease.example.com", Version: "v1", Resource: "greyreleases"}

// story is one release in a namespace of its own, with a Service on all its pods,
// watched by a guard.
type story struct {
	*testing.T
	ctx       context.Context
	namespace string
	name      string
	guard     *guard
}

// begin makes the namespace of a story.
func begin(t *testing.T, name string) *story {
	t.Helper()
	return beginServing(t, name, map[string]string{greyrelease.LabelName: name})
}

// beginServing is begin with a Service that selects pods by other labels.
func beginServing(t *testing.T, name string, serves map[string]string) *story {
	t.Helper()
	s := &story{T: t, name: name, ctx: t.Context()}
	ns, err := client.CoreV1().Namespaces().Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "-")) + "-",
	}}, metav1.CreateOptions{})
	s.must(err)
	s.namespace = ns.Name
	_, err = client.CoreV1().Services(s.namespace).Create(s.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: serves,
			Ports:    []corev1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.guard = watch(s, serves)
	started := time.Now()
	t.Cleanup(func() { s.end(started) })
	return s
}

// end looks at what the guard saw, notes the writes, and writes down everything if
// the story failed.
func (s *story) end(started time.Time) {
	for _, breach := range s.guard.stop() {
		s.Error(breach)
	}
	writes, err := plane.Writes(cluster.Metacontroller, s.namespace)
	if err != nil {
		s.Error(err)
	}
	_, text := cluster.Count(writes)
	s.Logf("%v, writes of Metacontroller: %s", time.Since(started).Round(100*time.Millisecond), text)
	// The context of the test has ended by now.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.Failed() {
		s.dump(ctx)
		return // and the namespace stays, to be looked at under -failfast
	}
	background := metav1.DeletePropagationBackground
	// A restart of the API server can make a namespace go without its releases: while
	// their kind is not served yet, nobody finds them.
	err = s.gr().DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Error(err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		s.Error(err)
	}
}

func (s *story) dump(ctx context.Context) {
	text, err := plane.Kubectl(ctx, "-n", s.namespace, "get", "gr,deploy,rs,pods,cm,events,endpointslices", "-o", "wide")
	s.Logf("%s (%v)", text, err)
	text, err = plane.Kubectl(ctx, "-n", s.namespace, "get", "gr,deploy,cm", "-o", "yaml")
	path := filepath.Join(plane.Dir, s.namespace+".yaml")
	if werr := os.WriteFile(path, []byte(text), 0o644); werr != nil || err != nil {
		s.Logf("cannot dump: %v, %v", err, werr)
	}
	s.Logf("objects are in %s", path)
	if dead := plane.Dead(); len(dead) > 0 {
		s.Logf("programs that ended: %v", dead)
	}
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// gr is the client of the story's releases.
func (s *story) gr() dynamic.ResourceInterface { return dyn.Resource(releases).Namespace(s.namespace) }

// spec is a spec for n replicas of a version, with more fields on top.
func spec(n int64, version string, more object) object {
	sp := object{
		"replicas":      n,
		"targetVersion": version,
		"template": object{"spec": object{"containers": []any{object{
			"name": "web", "image": "nginx", "ports": []any{object{"containerPort": int64(80)}},
		}}}},
	}
	maps.Copy(sp, more)
	return sp
}

// behaving is a template whose pods meet a fate of stages.yaml.
func behaving(fate string) object {
	return object{
		"metadata": object{"annotations": object{"test/behave": fate}},
		"spec":     spec(0, "", nil)["template"].(object)["spec"],
	}
}

func (s *story) create(sp object) {
	s.Helper()
	_, err := s.gr().Create(s.ctx, s.release(sp), metav1.CreateOptions{})
	s.must(err)
}

func (s *story) release(sp object) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "greyrelease.example.com/v1", "kind": "GreyRelease",
		"metadata": object{"name": s.name}, "spec": sp,
	}}
}

// patch merges into the spec. nil removes a field.
func (s *story) patch(sp object) {
	s.Helper()
	s.merge(object{"spec": sp})
}

func (s *story) merge(change object, subresources ...string) {
	s.Helper()
	text, err := json.Marshal(change)
	s.must(err)
	_, err = s.gr().Patch(s.ctx, s.name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
	s.must(err)
}

// status is what the release says of itself, and whether it says so about the
// current spec.
func (s *story) status() (greyrelease.GreyReleaseStatus, bool) {
	s.Helper()
	u, err := s.gr().Get(s.ctx, s.name, metav1.GetOptions{})
	s.must(err)
	text, err := json.Marshal(u.Object["status"])
	s.must(err)
	var st greyrelease.GreyReleaseStatus
	s.must(json.Unmarshal(text, &st))
	return st, st.ObservedGeneration == u.GetGeneration()
}

// until waits for something. check says whether it is there and what it saw.
func (s *story) until(what string, check func() (bool, string)) {
	s.Helper()
	if seen, ok := wait(check); !ok {
		st, _ := s.status()
		s.Fatalf("want %s, got %s\nphase %s: %s", what, seen, st.Phase, st.Message)
	}
}

// eventually is until for a release that may be gone.
func (s *story) eventually(what string, check func() (bool, string)) {
	s.Helper()
	if seen, ok := wait(check); !ok {
		s.Fatalf("want %s, got %s", what, seen)
	}
}

func wait(check func() (bool, string)) (string, bool) {
	deadline := time.Now().Add(patience)
	for {
		ok, seen := check()
		if ok || time.Now().After(deadline) {
			return seen, ok
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// phase waits for a phase at the current spec.
func (s *story) phase(want greyrelease.Phase) {
	s.Helper()
	s.until("phase "+string(want), func() (bool, string) {
		st, current := s.status()
		return current && st.Phase == want, string(st.Phase)
	})
}

// settled waits for Ready=True about a version that is out completely.
func (s *story) settled(version string) {
	s.Helper()
	s.until(version+" released", func() (bool, string) {
		st, current := s.status()
		ready := slices.ContainsFunc(st.Conditions, func(c metav1.Condition) bool {
			return c.Type == greyrelease.ConditionReady && c.Status == metav1.ConditionTrue
		})
		return current && ready && st.Phase == greyrelease.PhaseHealthy && st.StableVersion == version,
			fmt.Sprintf("%s, stable %s", st.Phase, st.StableVersion)
	})
}

// says waits for a text in the message.
func (s *story) says(text string) {
	s.Helper()
	s.until(fmt.Sprintf("message with %q", text), func() (bool, string) {
		st, current := s.status()
		return current && strings.Contains(st.Message, text), st.Message
	})
}

// pods waits until the ready pods are these, by version, and the endpoints as many.
func (s *story) pods(want map[string]int) {
	s.Helper()
	total := 0
	for _, n := range want {
		total += n
	}
	s.until(fmt.Sprintf("pods %v and %d endpoints", want, total), func() (bool, string) {
		got := s.guard.readyPods()
		endpoints := s.guard.readyEndpoints()
		return maps.Equal(got, want) && endpoints == total, fmt.Sprintf("pods %v and %d endpoints", got, endpoints)
	})
}

// stays checks over some seconds that the ready pods stay these.
func (s *story) stays(want map[string]int) {
	s.Helper()
	s.pods(want)
	for range 15 {
		time.Sleep(200 * time.Millisecond)
		if got := s.guard.readyPods(); !maps.Equal(got, want) {
			s.Fatalf("want pods to stay %v, got %v", want, got)
		}
	}
}

// command waits until the message prints a command of this kind, and runs that
// line as it stands.
func (s *story) command(verb string) {
	s.Helper()
	line := regexp.MustCompile(`kubectl annotate [^;]*='` + verb + ` [^']*' --overwrite`)
	found := ""
	s.until("the command to "+verb, func() (bool, string) {
		st, current := s.status()
		found = line.FindString(st.Message)
		return current && found != "", st.Message
	})
	out, err := plane.Shell(s.ctx, found)
	s.must(err)
	if want := "annotated"; !strings.Contains(out, want) {
		s.Fatalf("want %q, got %q", want, out)
	}
}

// kubectl runs kubectl in the namespace.
func (s *story) kubectl(args ...string) string {
	s.Helper()
	out, err := plane.Kubectl(s.ctx, append([]string{"-n", s.namespace}, args...)...)
	s.must(err)
	return out
}

// writes counts what Metacontroller has written in the namespace.
func (s *story) writes() int {
	s.Helper()
	list, err := plane.Writes(cluster.Metacontroller, s.namespace)
	s.must(err)
	n, _ := cluster.Count(list)
	return n
}

// idle pokes the release, and expects a sync to cost no write.
func (s *story) idle() {
	s.Helper()
	s.quiet()
	before := s.writes()
	was, _ := s.status()
	s.merge(object{"metadata": object{"annotations": object{"poke": fmt.Sprint(before)}}})
	time.Sleep(2 * time.Second)
	if got := s.writes(); got != before {
		list, err := plane.Writes(cluster.Metacontroller, s.namespace)
		s.must(err)
		is, _ := s.status()
		s.Errorf("want no write after a poke, got %v\nstatus before: %+v\nstatus after: %+v", list[before:], was, is)
	}
}

// quiet waits until nothing has been written for seven seconds: counts of pods in
// the status may be held back for five after a write.
func (s *story) quiet() {
	s.Helper()
	last, since := s.writes(), time.Now()
	s.until("no writes for 7 s", func() (bool, string) {
		if n := s.writes(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 7*time.Second, fmt.Sprintf("%d writes", last)
	})
}
