package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
)

// serve listens until ctx is done, then says that it is not ready, waits until
// callers have noticed, and finishes what it has begun. It returns nil when
// every request got its answer.
//
// started is called with the addresses once both listen.
func serve(ctx context.Context, c *config, s *service, started func(hooks, metrics net.Addr)) error {
	hooks, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("cannot listen for hooks: %w", err)
	}
	servers := []*http.Server{newServer(c, s.routes(), s.log)}
	listeners := []net.Listener{s.callers.transport.listen(hooks)}
	var metricsAddr net.Addr
	if c.metricsListen != "" {
		l, err := net.Listen("tcp", c.metricsListen)
		if err != nil {
			return errors.Join(fmt.Errorf("cannot listen for metrics: %w", err), hooks.Close())
		}
		metricsAddr = l.Addr()
		r := chi.NewRouter()
		r.Method(http.MethodGet, "/metrics", s.metrics)
		servers, listeners = append(servers, newServer(c, r, s.log)), append(listeners, l)
	}
	if c.debug != "" {
		l, err := net.Listen("tcp", c.debug)
		if err != nil {
			for _, other := range listeners {
				err = errors.Join(err, other.Close())
			}
			return fmt.Errorf("cannot listen for debugging: %w", err)
		}
		s.log.Warn("debugging", "listen", l.Addr().String())
		server := newServer(c, debugRoutes(), s.log)
		// A profile takes as long as it is asked to.
		server.WriteTimeout = 0
		servers, listeners = append(servers, server), append(listeners, l)
	}
	ended := make(chan error, len(servers))
	for i, server := range servers {
		go func() { ended <- server.Serve(listeners[i]) }()
	}
	started(hooks.Addr(), metricsAddr)

	select {
	case err := <-ended:
		for _, server := range servers {
			err = errors.Join(err, server.Close())
		}
		return fmt.Errorf("cannot serve: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("stopping", "drainDelay", c.drainDelay.String(), "shutdownTimeout", c.shutdownTimeout.String())
	time.Sleep(c.drainDelay)
	return shutdown(c, servers)
}

// shutdown finishes the requests of all servers. Metrics come last, so that
// the last requests can still be seen in them.
func shutdown(c *config, servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.shutdownTimeout)
	defer cancel()
	for i, server := range servers {
		if err := server.Shutdown(ctx); err != nil {
			for _, rest := range servers[i:] {
				err = errors.Join(err, rest.Close())
			}
			return fmt.Errorf("cannot finish all requests within %s: %w", c.shutdownTimeout, err)
		}
	}
	return nil
}

// newServer bounds every phase of a request. It speaks HTTP/1 alone, also where
// nothing is secured and a client would begin with HTTP/2 at once.
func newServer(c *config, handler http.Handler, logger *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: c.readHeaderTimeout,
		ReadTimeout:       c.readTimeout,
		WriteTimeout:      c.writeTimeout,
		IdleTimeout:       c.idleTimeout,
		MaxHeaderBytes:    int(c.maxHeader),
		Protocols:         &protocols,
		ErrorLog:          log.New(&connectionLog{log: logger, clock: time.Now}, "", 0),
	}
}
