// Command greyrelease serves the hooks that decide how GreyReleases go out.
// Metacontroller posts what it observed to /sync and applies the answer. The
// service holds no state and no credentials, and decides nothing itself: it
// limits, decodes, calls the pure packages under hooks, and encodes.
//
// # Answers
//
//	200  decided; the body is the answer
//	400  not a request of the protocol
//	401  the caller has no client certificate or bearer token that is accepted
//	405  not a POST
//	408  the request did not arrive in time
//	413  the request is larger than --max-body
//	415  the request is compressed
//	429  stale caches, or a limit is reached: Retry-After says when to come again
//	431  the headers are larger than --max-header
//	500  a bug: an invariant broken, a panic
//
// All but 200 have one line of text as their body, which Metacontroller shows
// in an event on the parent. The Content-Type of a request is not looked at;
// what is not JSON is refused.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// run is main with its surroundings as arguments. It returns the exit code: 0
// after an orderly end, 1 after a failure, 2 for a wrong command line.
func run(args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "replay" {
		return replay(args[1:], stdout, stderr)
	}
	c, err := parseConfig(args, lookup)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printHelp(stdout)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "greyrelease: %s\nSee greyrelease --help.\n", err)
		return 2
	case c.showVersion:
		fmt.Fprintln(stdout, currentBuild())
		return 0
	}
	tuneCollector(c, lookup)
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: c.logLevel}))

	// A second signal ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	defer stop()

	b := currentBuild()
	m := newMetrics(b, time.Now())
	p, err := newPrometheus(c)
	if err != nil {
		log.Error("stopped", "error", err.Error())
		return 1
	}
	measured := newMeasuring(p, c.prometheusConcurrency, time.Now, m, log)
	s := newService(c, newHook(measured), time.Now, m, log)
	if err := s.secure(c); err != nil {
		log.Error("stopped", "error", err.Error())
		return 1
	}
	if s.recorder, err = newRecorder(c, b, log); err != nil {
		log.Error("stopped", "error", err.Error())
		return 1
	}
	err = serve(ctx, c, s, func(hooks, metrics net.Addr) {
		attributes := []any{"version", b.version, "revision", b.revision, "listen", hooks.String(),
			"tls", c.tlsCertFile != "", "clientCertificates", c.tlsClientCAFile != "", "bearerTokens", c.authTokenFile != ""}
		if metrics != nil {
			attributes = append(attributes, "metricsListen", metrics.String())
		}
		log.Info("serving", attributes...)
	})
	if err != nil {
		log.Error("stopped", "error", err.Error())
		return 1
	}
	log.Info("stopped")
	return 0
}
