package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"greyrelease.example.com/test/e2e/cluster"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// bench measures on a control plane.
type bench struct {
	plane   *cluster.Cluster
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

func newBench(plane *cluster.Cluster) (*bench, error) {
	client, err := kubernetes.NewForConfig(plane.Config(cluster.Tester))
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(plane.Config(cluster.Tester))
	if err != nil {
		return nil, err
	}
	return &bench{plane, client, dyn}, nil
}

// watched are the programs whose CPU time is measured.
var watched = []string{"greyrelease", "metacontroller", "kube-controller-manager", "kube-apiserver"}

// usage is what programs have used so far.
type usage struct {
	cpu   map[string]time.Duration
	syncs int
}

func (b *bench) usage(ctx context.Context) (usage, error) {
	u := usage{cpu: map[string]time.Duration{}}
	for _, name := range watched {
		cpu, err := cpuTime(b.plane.Pid(name))
		if err != nil {
			return u, fmt.Errorf("cannot measure %s: %w", name, err)
		}
		u.cpu[name] = cpu
	}
	var err error
	u.syncs, err = b.syncs(ctx)
	return u, err
}

// since is what was used since then.
func (u usage) since(then usage) usage {
	d := usage{cpu: map[string]time.Duration{}, syncs: u.syncs - then.syncs}
	for name := range u.cpu {
		d.cpu[name] = u.cpu[name] - then.cpu[name]
	}
	return d
}

var requests = regexp.MustCompile(`(?m)^greyrelease_requests_total\{.*hook="sync".*\} (\S+)$`)

// syncs is the number of calls that the service has answered since it started.
func (b *bench) syncs(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.plane.MetricsURL(), nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("cannot read metrics: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, fmt.Errorf("cannot read metrics: %w", err)
	}
	total := 0.0
	for _, m := range requests.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read metrics: %w", err)
		}
		total += n
	}
	return int(total), nil
}

// quiet waits until the service has not been called for 11 s: an answer that
// writes asks for another look after 10.
func (b *bench) quiet(ctx context.Context) error {
	last, err := b.syncs(ctx)
	if err != nil {
		return err
	}
	for since := time.Now(); time.Since(since) < 11*time.Second; time.Sleep(200 * time.Millisecond) {
		n, err := b.syncs(ctx)
		if err != nil {
			return err
		}
		if n != last {
			last, since = n, time.Now()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// writes are those of a user in a namespace, events left out.
func (b *bench) writes(user, namespace string) ([]cluster.Write, error) {
	all, err := b.plane.Writes(user, namespace)
	if err != nil {
		return nil, err
	}
	var list []cluster.Write
	for _, w := range all {
		if w.Resource != "events" {
			list = append(list, w)
		}
	}
	return list, nil
}
