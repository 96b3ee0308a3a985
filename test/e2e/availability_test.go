package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/binaries"
	"greyrelease.example.com/test/e2e/haproxy"
	"greyrelease.example.com/test/e2e/replicas"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shared is a story whose calls are answered by several replicas of the service.
type shared struct {
	*story
	set *replicas.Set
}

// share puts replicas in the place of the one service, until the story ends.
func share(s *story, flags ...string) *shared {
	s.Helper()
	cache, err := debian.Cache()
	s.must(err)
	program, err := haproxy.Find(s.ctx, cache, os.Stderr)
	s.must(err)
	_, text, _ := strings.Cut(plane.ServiceAddress(), ":")
	port, err := strconv.Atoi(text)
	s.must(err)
	plane.End("greyrelease", false)
	set, err := replicas.Start(s.ctx, replicas.Options{Proxy: program, Port: port, Dir: plane.Dir, Flags: flags})
	s.Cleanup(func() {
		if set != nil {
			if err := set.Stop(); err != nil {
				s.Error(err)
			}
		}
		if err := plane.StartService(context.Background()); err != nil {
			s.Error(err)
		}
	})
	s.must(err)
	return &shared{s, set}
}

func (r *shared) add(program string) string {
	r.Helper()
	address, err := r.set.Add(r.ctx, program)
	r.must(err)
	return address
}

func (r *shared) remove(address string) {
	r.Helper()
	r.must(r.set.Remove(r.ctx, address))
}

// TestUpgradeOfTheService replaces replicas of the service one by one, by another
// version and back, while a fleet of releases goes out: calls are answered by the old
// and the new in turn. Metacontroller sees no error, and what a later version has written
// into a record is still there in the end. Afterwards both versions' recordings are
// decided again, without a difference.
func TestUpgradeOfTheService(t *testing.T) {
	s := begin(t, "web")
	recordings, err := os.MkdirTemp(plane.Dir, "calls-")
	s.must(err)
	versions := map[string]string{}
	for _, version := range []string{"v0.1", "v0.2"} {
		versions[version] = filepath.Join(plane.Dir, "greyrelease-"+version)
		s.must(binaries.Build(s.ctx, plane.Root, "./server", versions[version], "-ldflags=-X main.version="+version))
	}
	flags := []string{"--record-dir=" + recordings}
	if older := os.Getenv("OLDER_SERVICE"); older != "" {
		versions["v0.1"], flags = older, nil // it may not know how to record
	}
	r := share(s, flags...)
	running := []string{r.add(versions["v0.1"]), r.add(versions["v0.1"])}

	s.install(6, object{"batchSize": int64(1), "soakSeconds": int64(1)})
	const fleet = 8
	for i := range fleet {
		other := s.release(spec(3, "1.0", object{"batchSize": int64(1), "soakSeconds": int64(1)}))
		other.SetName(fmt.Sprintf("other-%d", i))
		_, err := s.gr().Create(s.ctx, other, metav1.CreateOptions{})
		s.must(err)
	}
	s.out("1.0", fleet)

	// A field of a record that only a later version knows.
	s.kubectl("patch", "configmap", "web-rollout", "--type=merge", "-p", s.withField("web-rollout"))

	for round, target := range []string{"2.0", "3.0"} {
		edit := fmt.Appendf(nil, `{"spec":{"targetVersion":%q}}`, target)
		for i := range fleet {
			_, err := s.gr().Patch(s.ctx, fmt.Sprintf("other-%d", i), types.MergePatchType, edit, metav1.PatchOptions{})
			s.must(err)
		}
		s.patch(object{"targetVersion": target})
		to := versions[[]string{"v0.2", "v0.1"}[round]]
		for i := range running {
			added := r.add(to) // a surge of one, none unavailable
			time.Sleep(2 * time.Second)
			r.remove(running[i])
			running[i] = added
			time.Sleep(2 * time.Second)
		}
		s.settled(target)
		s.out(target, fleet)
	}
	s.pods(map[string]int{"3.0": 6})
	s.made(map[string]int{"1.0": 6, "2.0": 6, "3.0": 6})

	record, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, "web-rollout", metav1.GetOptions{})
	s.must(err)
	if want := `"laterField":{"kept":["byte","for","byte"]}`; !strings.Contains(record.Data["record.json"], want) {
		t.Errorf("want %s kept in the record, got %s", want, record.Data["record.json"])
	}
	events, err := client.CoreV1().Events(s.namespace).List(s.ctx, metav1.ListOptions{FieldSelector: "reason=SyncError"})
	s.must(err)
	for i := range events.Items {
		t.Errorf("want no error seen by Metacontroller, got %s", events.Items[i].Message)
	}
	if flags == nil {
		return
	}
	for _, address := range r.set.Addresses() {
		r.remove(address)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*"))
	s.must(err)
	for _, version := range versions {
		out, err := exec.CommandContext(s.ctx, version, append([]string{"replay"}, files...)...).CombinedOutput()
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		t.Logf("replayed by %s: %s", filepath.Base(version), lines[len(lines)-1])
		if err != nil || !bytes.Contains(lines[len(lines)-1], []byte(" 0 not readable, 0 differ")) {
			t.Errorf("want every call decided as it was, got %v and %s", err, out)
		}
		if want := []byte("Progressing -> Healthy"); !bytes.Contains(out, want) && !bytes.Contains(out, []byte("Promoting -> Healthy")) {
			t.Errorf("want the story told, got %s", out)
		}
	}
}

// out waits until a version is out in all releases of the fleet.
func (s *story) out(version string, fleet int) {
	s.Helper()
	s.until(version+" out in the fleet", func() (bool, string) {
		list, err := s.gr().List(s.ctx, metav1.ListOptions{})
		s.must(err)
		n := 0
		for i := range list.Items {
			text, err := json.Marshal(list.Items[i].Object["status"])
			s.must(err)
			var st greyrelease.GreyReleaseStatus
			s.must(json.Unmarshal(text, &st))
			if list.Items[i].GetName() != s.name && st.Phase == greyrelease.PhaseHealthy && st.StableVersion == version {
				n++
			}
		}
		return n == fleet, fmt.Sprint(n)
	})
}

// withField is a patch that adds a field to a record.
func (s *story) withField(name string) string {
	s.Helper()
	record, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	text := strings.TrimSuffix(strings.TrimSpace(record.Data["record.json"]), "}") + `,"laterField":{"kept":["byte","for","byte"]}}`
	patch, err := json.Marshal(object{"data": object{"record.json": text}})
	s.must(err)
	return string(patch)
}
