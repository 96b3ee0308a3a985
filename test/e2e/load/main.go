// Command load measures what releases cost on a control plane of this machine: the
// time until many that are updated at once are out, what the service and
// Metacontroller need for it, and what they write. It does the same with plain
// Deployments in the same run, because no other numbers can be compared with those
// of a machine that has other things to do.
//
//	go run -C test/e2e ./load -releases 200                       -replicas 4, as many of each
//	go run -C test/e2e ./load -releases 0                         the release of 10 pods alone
//	go run -C test/e2e ./load -flags "--client-go-qps=5 ..."      further flags of Metacontroller
//	METACONTROLLER=/path/to/binary go run -C test/e2e ./load      with the original
//
// The result is a table in Markdown on standard output.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"greyrelease.example.com/test/e2e/cluster"
)

type options struct {
	releases, replicas, singles int
	apply, flags                string
	idle                        time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.releases, "releases", 20, "releases to update at once, and plain Deployments before that")
	flag.IntVar(&o.replicas, "replicas", 4, "replicas of each")
	flag.IntVar(&o.singles, "singles", 5, "how often to release 10 pods over 20/40/60/80%, one release at a time")
	flag.StringVar(&o.apply, "apply", cluster.DynamicApply, "apply strategy of Metacontroller")
	flag.StringVar(&o.flags, "flags", "--client-go-qps=200 --client-go-burst=400 --workers=20", "further flags of Metacontroller")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch what idle releases cost")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "load: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "greyrelease-load-")
	if err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	plane, err := cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Apply: o.apply, Metacontroller: os.Getenv("METACONTROLLER"),
		MetacontrollerFlags: strings.Fields(o.flags), Progress: os.Stderr,
	})
	if err != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, dir)
	}
	defer plane.Stop()
	// Flags that Metacontroller does not know show only in that it is gone.
	time.Sleep(2 * time.Second)
	if dead := plane.Dead(); len(dead) > 0 {
		return fmt.Errorf("%v ended: logs are in %s", dead, dir)
	}
	b, err := newBench(plane)
	if err != nil {
		return err
	}
	if err := b.all(ctx, o); err != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, dir)
	}
	plane.Stop()
	return os.RemoveAll(dir)
}

// all measures everything, the baseline of each part right before it.
func (b *bench) all(ctx context.Context, o options) error {
	t := newTable(o)
	if o.singles > 0 {
		if err := b.singles(ctx, t, o.singles); err != nil {
			return err
		}
	}
	if o.releases > 0 {
		if err := b.fleets(ctx, t, o); err != nil {
			return err
		}
	}
	t.print(os.Stdout)
	return nil
}
