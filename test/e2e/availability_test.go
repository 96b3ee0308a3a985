package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/binaries"
	"greyrelease.example.com/test/e2e/cluster"
	"greyrelease.example.com/test/e2e/haproxy"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// replicas are processes of the service behind a proxy that stands for its Service: it
// sends each call to another one, and follows what is ready as endpoints do.
type replicas struct {
	*story
	proxy    *haproxy.Proxy
	port     int
	programs map[string]*cluster.Program // by address
	flags    []string
}

// share puts replicas in the place of the one service, until the story ends.
func share(s *story, flags ...string) *replicas {
	s.Helper()
	cache, err := debian.Cache()
	s.must(err)
	program, err := haproxy.Find(s.ctx, cache, os.Stderr)
	s.must(err)
	dir, err := os.MkdirTemp("", "hooks-") // short, for the sockets of the proxy
	s.must(err)
	_, port, _ := strings.Cut(plane.ServiceAddress(), ":")
	r := &replicas{story: s, programs: map[string]*cluster.Program{}, flags: flags}
	r.port, err = strconv.Atoi(port)
	s.must(err)
	plane.End("greyrelease", false)
	r.proxy, err = haproxy.Start(s.ctx, program, dir, r.config())
	s.Cleanup(func() {
		for _, p := range r.programs {
			p.Kill()
		}
		if r.proxy != nil {
			r.proxy.Stop()
		}
		if err := plane.StartService(context.Background()); err != nil {
			s.Error(err)
		}
		if s.Failed() {
			s.Logf("log of haproxy is in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			s.Error(err)
		}
	})
	s.must(err)
	return r
}

// config has the replicas that are to get calls.
func (r *replicas) config(without ...string) haproxy.Config {
	var addresses []string
	for address := range r.programs {
		if !slices.Contains(without, address) {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return haproxy.Config{
		Frontends: []haproxy.Frontend{{Port: r.port, Rules: []haproxy.Rule{{Weights: []haproxy.Weight{{Service: "hook", Weight: 1}}}}}},
		Services:  map[string][]string{"hook": addresses},
	}
}

// add starts a replica, and lets calls come to it once it is ready. It goes on for ten
// seconds after it was told to end: on a busy machine a proxy takes some to follow.
func (r *replicas) add(program string) string {
	r.Helper()
	port, err := haproxy.FreePort()
	r.must(err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := cluster.StartProgram("greyrelease", program, filepath.Join(plane.Dir, fmt.Sprintf("greyrelease-%d.log", port)),
		append([]string{"--listen=" + address, "--metrics-listen=", "--drain-delay=10s"}, r.flags...)...)
	r.must(err)
	r.programs[address] = p
	r.eventually("a replica ready", func() (bool, string) {
		response, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, response.Status
	})
	r.must(r.proxy.Apply(r.ctx, r.config()))
	return address
}

// remove ends a replica as Kubernetes does: it is told, endpoints follow a moment
// later, and it ends when it has finished.
func (r *replicas) remove(address string) {
	r.Helper()
	p := r.programs[address]
	r.must(syscall.Kill(p.Pid(), syscall.SIGTERM))
	time.Sleep(300 * time.Millisecond)
	r.must(r.proxy.Apply(r.ctx, r.config(address)))
	r.eventually("the end of a replica", func() (bool, string) { return !p.Alive(), "it runs" })
	delete(r.programs, address)
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
	for address := range r.programs {
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
