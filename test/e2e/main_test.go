// Package e2e tells the stories of GreyRelease on a real control plane.
//
// One control plane serves all tests. Stories in namespaces of their own run in
// parallel; those that disturb everybody (a restart, the service away) run before
// them, one at a time. A story asserts what the API server has: objects, pods and
// EndpointSlices. The status of the release is only waited for.
//
//	go test . -apply server-side-apply        the other apply strategy
//	METACONTROLLER=/path/to/binary go test .  the real Metacontroller
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"greyrelease.example.com/test/e2e/cluster"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

var applyStrategy = flag.String("apply", cluster.DynamicApply, "apply strategy of Metacontroller: dynamic-apply or server-side-apply")

// everyRouter is the overlay with all that spec.traffic can ask for.
const everyRouter = "all"

// What every story uses.
var (
	plane  *cluster.Cluster
	client kubernetes.Interface
	dyn    dynamic.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	root, err := cluster.Root()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "greyrelease-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	promAddress, err = freeAddress()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	plane, err = cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Overlay: everyRouter, Apply: *applyStrategy,
		ServiceFlags:   []string{"--prometheus-url=http://" + promAddress},
		Metacontroller: os.Getenv("METACONTROLLER"), Progress: os.Stderr,
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\nlogs are in %s\n", err, dir)
		return 1
	}
	defer plane.Stop()
	defer stopMetrics()
	// go test waits for children that hold its output, and a test that hangs on the
	// cluster does not see the signal: so the end comes from here.
	stop := context.AfterFunc(ctx, func() {
		plane.Stop()
		os.Exit(1)
	})
	// Before cancel, which would call it in the end of every run.
	defer stop()
	client = kubernetes.NewForConfigOrDie(plane.Config(cluster.Tester))
	dyn = dynamic.NewForConfigOrDie(plane.Config(cluster.Tester))
	code := m.Run()
	stopMetrics()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "logs are in %s\n", dir)
		return code
	}
	plane.Stop()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
