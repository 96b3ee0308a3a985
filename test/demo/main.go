// Demo shows two releases on a simulated cluster: a good version that goes out
// batch by batch, and a broken one that rolls itself back. Make demo runs it.
//
//	demo [--fast]
//
// It builds the service, starts it on a free port of the loopback interface and
// calls it over HTTP as Metacontroller would. The service is the one for
// production and knows nothing of this; the cluster around it (API server,
// controllers, pods, Metacontroller) is that of package sim, whose time can pass
// faster than ours.
//
// On a terminal it draws a picture that moves; elsewhere it writes a line for
// whatever happens, as fast as it can. It exits with 0 only if both stories
// ended as they should.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	fast := flag.Bool("fast", false, "let the cluster's time pass as fast as it can")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	screen := openScreen(os.Stdout, os.LookupEnv)
	err := show(ctx, screen, *fast || !screen.live)
	screen.close()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted")
		return 1
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	return 0
}

// show builds the service, starts it, tells the stories and ends it again.
func show(ctx context.Context, screen *screen, fast bool) (err error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	screen.note("Building the service.")
	s, err := startService(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	screen.note("It serves on %s, process %d. The cluster around it is simulated.", s.url, s.cmd.Process.Pid)

	began := time.Now()
	calls := newCalls(s.url)
	tell := newTeller(ctx, root, screen, calls, fast)
	if err := tell.stories(); err != nil {
		return err
	}
	screen.note("Both stories ended right. At no time were fewer than %d pods available, or more than %d there.", tell.fewest, tell.most)
	screen.note("%s of the cluster's time passed in %.0f s. The service answered %d calls, the slowest in %s.",
		tell.cluster.Elapsed().Round(time.Second), time.Since(began).Seconds(), calls.count, calls.slowest.Round(100*time.Microsecond))
	return nil
}
