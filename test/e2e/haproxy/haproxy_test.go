package haproxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/clients"
	"greyrelease.example.com/test/e2e/haproxy"
	"greyrelease.example.com/test/e2e/podserver"
)

// program finds haproxy, or says what is missing.
func program(t *testing.T) haproxy.Program {
	t.Helper()
	cache, err := debian.Cache()
	if err != nil {
		t.Fatal(err)
	}
	p, err := haproxy.Find(t.Context(), cache, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve starts a server that says it is of a version.
func serve(t *testing.T, version string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(podserver.VersionHeader, version)
		if r.URL.Path == "/slow" {
			time.Sleep(700 * time.Millisecond)
		}
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return l.Addr().String()
}

func start(t *testing.T, config haproxy.Config) *haproxy.Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "haproxy-") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p, err := haproxy.Start(t.Context(), program(t), dir, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// TestReloadsLoseNothing reloads 20 times under load while the weights go up. Three
// endpoints of one version against one of the other do not change the shares.
func TestReloadsLoseNothing(t *testing.T) {
	port, err := haproxy.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	old := []string{serve(t, "1.0"), serve(t, "1.0"), serve(t, "1.0")}
	updated := []string{serve(t, "2.0")}
	config := func(weight int) haproxy.Config {
		split := []haproxy.Weight{{Service: "old", Weight: 100 - weight}, {Service: "new", Weight: weight}}
		return haproxy.Config{
			Frontends: []haproxy.Frontend{{Port: port, Rules: []haproxy.Rule{
				{Headers: map[string]string{"X-Canary": "always"}, Weights: []haproxy.Weight{{Service: "new", Weight: 100}}},
				{Prefix: "/", Weights: split},
			}}},
			Services: map[string][]string{"old": old, "new": updated},
		}
	}
	p := start(t, config(0))
	load := clients.Start(t.Context(), clients.Load{
		URL: fmt.Sprintf("http://127.0.0.1:%d", port), Rate: 400, Headers: map[string]string{"X-Canary": "always"}, Most: 2 * time.Minute,
	})
	for weight := range 20 {
		if err := p.Apply(t.Context(), config(weight)); err != nil {
			t.Fatal(err)
		}
	}
	var shares []clients.Share
	for _, weight := range []int{10, 50, 100} {
		if err := p.Apply(t.Context(), config(weight)); err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		share := clients.Share{}
		for !share.Counted && time.Since(from) < time.Minute {
			time.Sleep(time.Second)
			share = clients.Measure(load.Results(), fmt.Sprint(weight, "%"), "2.0", weight, from, time.Now(), p.Reloads())
		}
		shares = append(shares, share)
	}
	results := load.Stop()
	t.Logf("%d requests, %d reloads\n%s", len(results), len(p.Reloads()), clients.Table(shares))
	if want := 22; len(p.Reloads()) != want {
		t.Errorf("want %d reloads, got %d", want, len(p.Reloads()))
	}
	for _, failure := range clients.Failures(results) {
		t.Error(failure)
	}
	for _, s := range shares {
		if wrong := s.Wrong(); wrong != "" {
			t.Error(wrong)
		}
	}
	for _, r := range results {
		if r.Kind == clients.Marked && r.Version != "2.0" {
			t.Errorf("want requests with the header answered by 2.0, got %q", r.Version)
		}
	}
}

// TestAnswersOfItsOwn are what clients get where there is nobody to answer.
func TestAnswersOfItsOwn(t *testing.T) {
	port, err := haproxy.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	weight := func(service string, weight int) []haproxy.Weight {
		return []haproxy.Weight{{Service: service, Weight: weight}}
	}
	start(t, haproxy.Config{
		Frontends: []haproxy.Frontend{{Port: port, Rules: []haproxy.Rule{
			{Hosts: []string{"shop.example.com", "*.shop.example.com"}, Prefix: "/cart", Weights: weight("here", 1)},
			{Prefix: "/empty", Weights: weight("empty", 1)},
			{Prefix: "/zero", Weights: weight("here", 0)},
			{Prefix: "/sticky", Weights: weight("pinned", 1), Cookie: "pin"},
		}}},
		Services: map[string][]string{"here": {serve(t, "1.0")}, "pinned": {serve(t, "1.0")}, "empty": nil},
	})
	for _, c := range []struct {
		host, path, why string
		want            int
		cookie          string
	}{
		{"shop.example.com", "/cart", "the path itself", 200, ""},
		{"shop.example.com:80", "/cart/1", "the path below, a port in the host", 200, ""},
		{"a.shop.example.com", "/cart", "a host below", 200, ""},
		{"shop.example.com", "/carts", "a path that begins alike", 404, ""},
		{"other.example.com", "/cart", "another host", 404, ""},
		{"any", "/empty", "a Service without ready endpoints", 503, ""},
		{"any", "/zero", "weights that are all 0", 500, ""},
		{"any", "/sticky", "a client that is not pinned yet", 200, "pin=pinned"},
	} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, c.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = c.host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.want || response.Header.Get("Set-Cookie") != c.cookie {
			t.Errorf("%s: want %d and cookie %q, got %d and %q", c.why, c.want, c.cookie, response.StatusCode, response.Header.Get("Set-Cookie"))
		}
	}
}

// TestRefusedConfiguration has the proxy go on with what it had.
func TestRefusedConfiguration(t *testing.T) {
	port, err := haproxy.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	good := haproxy.Config{
		Frontends: []haproxy.Frontend{{Port: port, Rules: []haproxy.Rule{{Weights: []haproxy.Weight{{Service: "web", Weight: 1}}}}}},
		Services:  map[string][]string{"web": {serve(t, "1.0")}},
	}
	p := start(t, good)
	bad := good
	bad.Services = map[string][]string{} // a rule leads to a Service that is not there
	if err := p.Apply(t.Context(), bad); err == nil {
		t.Error("want an error for a rule without its Service, got none")
	}
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if want := "1.0"; !slices.Contains(response.Header[podserver.VersionHeader], want) {
		t.Errorf("want an answer of %s, got %v", want, response.Header)
	}
}
