package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/clients"
	"greyrelease.example.com/test/e2e/gateway"
	"greyrelease.example.com/test/e2e/haproxy"
	"greyrelease.example.com/test/e2e/podserver"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// rate of the requests that shares are measured by, and gatewayName of the Gateway
	// that all routes refer to, each in its own namespace.
	rate        = 300
	gatewayName = "edge"
)

// always is the header that chooses the new version.
var always = map[string]string{"X-Canary": "always"}

// shop is a story whose pods are backed by real servers, behind a real proxy that
// follows the live objects.
type shop struct {
	*story
	servers *podserver.Servers
	edge    *gateway.Gateway
	load    *clients.Clients
	shares  []clients.Share
}

// open begins a story behind a gateway that also serves these Services. Each pod
// can answer so many requests a second; 0 means any number.
func open(t *testing.T, manners gateway.Manners, most int, services ...string) *shop {
	t.Helper()
	sh := &shop{story: begin(t, "web")}
	cache, err := debian.Cache()
	sh.must(err)
	program, err := haproxy.Find(sh.ctx, cache, os.Stderr)
	sh.must(err)
	dir, err := os.MkdirTemp("", "edge-") // short, for the sockets of the proxy
	sh.must(err)
	// The context of the test ends before its cleanup does.
	sh.servers, err = podserver.Start(t.Context(), client, sh.namespace, most)
	sh.must(err)
	t.Cleanup(func() {
		if err := sh.servers.Stop(); err != nil {
			t.Error(err)
		}
	})
	sh.edge, err = gateway.Start(t.Context(), gateway.Options{
		Client: client, Dynamic: dyn, Pods: sh.servers, Program: program, Dir: dir,
		Namespace: sh.namespace, Name: gatewayName, Services: services, Manners: manners,
	})
	sh.must(err)
	t.Cleanup(func() {
		if err := sh.edge.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log and configuration of haproxy are in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return sh
}

// visit begins to send requests to a Service, "" for the routes, once the first one
// is answered.
func (sh *shop) visit(service string) {
	sh.Helper()
	sh.eventually("an answer", func() (bool, string) {
		failure := sh.ask(service, "").Failure
		return failure == "", failure
	})
	sh.load = clients.Start(sh.ctx, clients.Load{URL: sh.edge.URL(service), Rate: rate, Headers: always, Most: 10 * time.Minute})
}

// ask sends one request to a Service, "" for the routes, with a cookie or "".
func (sh *shop) ask(service, cookie string) clients.Result {
	return clients.Ask(sh.edge.URL(service), cookie)
}

// measure waits until the weight of a version is served by the proxy, and then
// measures its share of the requests.
func (sh *shop) measure(batch, version string, asked int) {
	sh.Helper()
	sh.eventually(fmt.Sprintf("the gateway to give %s %d%%", version, asked), func() (bool, string) {
		got := sh.weights()
		return got[version] == asked, fmt.Sprint(got)
	})
	sh.settle(batch, version, asked)
	if got := sh.weights()[version]; got != asked {
		sh.Errorf("want the weight of %s to stay %d, got %d", version, asked, got)
	}
}

// settle measures a version's share of the requests from now on.
func (sh *shop) settle(batch, version string, asked int) {
	sh.Helper()
	from := time.Now()
	var s clients.Share
	sh.eventually(fmt.Sprintf("enough requests in %s", batch), func() (bool, string) {
		s = clients.Measure(sh.load.Results(), batch, version, asked, from, time.Now(), sh.edge.Proxy.Reloads())
		return s.Counted, fmt.Sprint(s.N)
	})
	sh.shares = append(sh.shares, s)
	if wrong := s.Wrong(); wrong != "" {
		sh.Error(wrong)
	}
}

// weights are those that the proxy serves now without the header, by version.
func (sh *shop) weights() map[string]int {
	sh.Helper()
	states := sh.edge.States()
	weights := map[string]int{}
	for _, rule := range states[len(states)-1].Config.Frontends[0].Rules {
		if len(rule.Headers) > 0 {
			continue
		}
		for _, w := range rule.Weights {
			weights[sh.version(w.Service)] += w.Weight
		}
	}
	return weights
}

// version is the one whose pods a Service selects: the version of the Deployment of
// the same name.
func (sh *shop) version(service string) string {
	sh.Helper()
	d, err := client.AppsV1().Deployments(sh.namespace).Get(sh.ctx, service, metav1.GetOptions{})
	if err != nil {
		return service
	}
	image := d.Spec.Template.Spec.Containers[0].Image
	return image[strings.LastIndex(image, ":")+1:]
}

// selects is the version that a Service selects: the version of the Deployment with
// the same labels.
func (sh *shop) selects(service string) string {
	sh.Helper()
	svc, err := client.CoreV1().Services(sh.namespace).Get(sh.ctx, service, metav1.GetOptions{})
	sh.must(err)
	return sh.version("web-" + svc.Spec.Selector[greyrelease.LabelRevision])
}

// close ends the load: no request may have failed, and requests with the header
// reached these versions while they had the header's rule.
func (sh *shop) close(headers ...string) {
	sh.Helper()
	results := sh.load.Stop()
	kinds := map[clients.Kind]int{}
	for _, r := range results {
		kinds[r.Kind]++
	}
	failures := clients.Failures(results)
	sh.Logf("%d requests %v, %d reloads, the slowest took %v, lost: %d\n%s", len(results), kinds, len(sh.edge.Proxy.Reloads()),
		sh.edge.Proxy.Slowest().Round(time.Millisecond), clients.Lost(results), clients.Table(sh.shares))
	if len(failures) > 0 {
		for _, state := range sh.edge.States() {
			sh.Logf("%s the proxy serves %v with %v", state.At.UTC().Format("15:04:05.000"), state.Config.Frontends[0].Rules, state.Config.Services)
		}
	}
	for _, failure := range failures {
		sh.Error(failure)
	}
	if len(headers) > 0 {
		sh.marked(results, headers)
	}
}

// marked checks that while the proxy had a rule for the header, its requests reached
// the pods of the Service that the rule names, and that each version had some of them.
func (sh *shop) marked(results []clients.Result, versions []string) {
	sh.Helper()
	answered := map[string]int{}
	states := sh.edge.States()
	for i, state := range states {
		at := slices.IndexFunc(state.Config.Frontends[0].Rules, func(r haproxy.Rule) bool { return len(r.Headers) > 0 })
		if at < 0 {
			continue
		}
		service := state.Config.Frontends[0].Rules[at].Weights[0].Service
		until := time.Now()
		if i+1 < len(states) {
			until = states[i+1].At
		}
		for _, r := range results {
			// The second after a reload and before one is left out.
			if r.Kind != clients.Marked || r.At.Before(state.At.Add(time.Second)) || r.At.Add(r.Took).After(until.Add(-time.Second)) {
				continue
			}
			answered[r.Version]++
			if !strings.HasPrefix(r.Pod, service+"-") {
				sh.Errorf("want a request with the header at %v answered by %s, got %s", r.At, service, r.Pod)
			}
		}
	}
	sh.Logf("requests with the header while there was a rule for it: %v", answered)
	for _, version := range versions {
		if answered[version] < 50 {
			sh.Errorf("want at least 50 requests with the header answered by %s, got %v", version, answered)
		}
	}
}
