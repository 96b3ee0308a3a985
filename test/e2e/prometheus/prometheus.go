// Package prometheus runs a real Prometheus for stories: it scrapes what they export,
// each second, and answers behind a door that can be slow for some queries.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/cluster"
)

// SlowMark in a query makes its answer late by Late.
const (
	SlowMark = "slow_"
	Late     = 8 * time.Second
)

// Server is a Prometheus with its exporter and its door.
type Server struct {
	*Exporter
	door     string
	own      string // where Prometheus itself listens
	dir      string
	found    debian.Package
	program  *cluster.Program
	servers  []*http.Server
	entrance *http.Server
}

// Prepare finds Prometheus, of the machine or of Debian, and keeps its files in dir. It
// will be found at the address door.
func Prepare(ctx context.Context, dir, door string, progress io.Writer) (*Server, error) {
	cache, err := debian.Cache()
	if err != nil {
		return nil, err
	}
	s := &Server{Exporter: newExporter(), door: door, dir: filepath.Join(dir, "prometheus")}
	if s.found, err = debian.Find(ctx, cache, "prometheus", progress, "prometheus", "promtool"); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot keep Prometheus: %w", err)
	}
	target, err := s.serve("127.0.0.1:0", s.Exporter)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: stories, honor_labels: true, static_configs: [{targets: [%q]}]}]\n", target)
	if err := os.WriteFile(filepath.Join(s.dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		return nil, fmt.Errorf("cannot configure Prometheus: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot find a port: %w", err)
	}
	s.own = l.Addr().String()
	return s, l.Close()
}

func (s *Server) serve(address string, h http.Handler) (string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("cannot listen: %w", err)
	}
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	s.servers = append(s.servers, server)
	s.entrance = server
	go func() { _ = server.Serve(l) }()
	return l.Addr().String(), nil
}

// Start starts Prometheus and waits until it is ready. What it has scraped before is
// still there.
func (s *Server) Start(ctx context.Context) error {
	path, args := s.found.Paths["prometheus"], []string{
		"--config.file=" + filepath.Join(s.dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(s.dir, "data"),
		"--web.listen-address=" + s.own, "--log.level=warn",
	}
	if s.found.Libraries != "" {
		path, args = "/usr/bin/env", append([]string{"LD_LIBRARY_PATH=" + s.found.Libraries, path}, args...)
	}
	program, err := cluster.StartProgram("prometheus", path, filepath.Join(s.dir, "prometheus.log"), args...)
	if err != nil {
		return err
	}
	s.program = program
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := s.ready(ctx)
		switch {
		case err == nil:
			return nil
		case !program.Alive():
			return fmt.Errorf("prometheus ended, see the log in %s: %w", s.dir, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *Server) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.own+"/-/ready", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("prometheus is not ready: %s", response.Status)
	}
	return nil
}

// Kill ends Prometheus as a crash would. What is behind the door is gone, the door is not.
func (s *Server) Kill() {
	if s.program != nil {
		s.program.Kill()
		s.program = nil
	}
}

// Open opens the door.
func (s *Server) Open() error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.own})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	_, err := s.serve(s.door, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Query().Get("query"), SlowMark) {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(Late):
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	return err
}

// Shut shuts the door: connections are refused.
func (s *Server) Shut() error { return s.entrance.Close() }

// Stop ends everything.
func (s *Server) Stop() {
	s.Kill()
	for _, server := range s.servers {
		_ = server.Close()
	}
}
