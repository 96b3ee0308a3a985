// Package haproxy runs a haproxy that sends requests to Services by weight, and
// that takes a new configuration without losing one.
package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"greyrelease.example.com/test/e2e/cluster"
)

// Proxy is a running haproxy: a master, and a worker for each configuration that
// still has requests.
type Proxy struct {
	dir    string
	master *cluster.Program

	mu      sync.Mutex
	text    string
	reloads []time.Time
	slowest time.Duration
}

// Start starts haproxy with a configuration. Its files are in dir, whose path must
// be short: those of sockets are limited to about 100 characters.
func Start(ctx context.Context, program Program, dir string, config Config) (*Proxy, error) {
	p := &Proxy{dir: dir}
	text, err := config.render(p.file("admin.sock"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.file("haproxy.cfg"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("cannot write configuration of haproxy: %w", err)
	}
	p.text = text
	path, args := program.Path, []string{"-W", "-S", p.file("master.sock"), "-f", p.file("haproxy.cfg")}
	if program.Libraries != "" {
		path, args = "/usr/bin/env", append([]string{"LD_LIBRARY_PATH=" + program.Libraries, path}, args...)
	}
	p.master, err = cluster.StartProgram("haproxy", path, p.file("haproxy.log"), args...)
	if err != nil {
		return nil, err
	}
	if err := p.works(ctx, 0); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

func (p *Proxy) file(name string) string { return filepath.Join(p.dir, name) }

// Apply takes a new configuration, and returns when it is in force for every new
// connection. A configuration that says the same costs nothing.
func (p *Proxy) Apply(ctx context.Context, config Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := config.render(p.file("admin.sock"))
	if err != nil || text == p.text {
		return err
	}
	if err := os.WriteFile(p.file("haproxy.cfg"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot write configuration of haproxy: %w", err)
	}
	status, err := p.status(ctx)
	if err != nil {
		return fmt.Errorf("cannot reload haproxy: %w", err)
	}
	started := time.Now()
	// The master starts anew on this signal, and is deaf until it has: so each reload
	// is waited for.
	if err := syscall.Kill(p.master.Pid(), syscall.SIGUSR2); err != nil {
		return fmt.Errorf("cannot reload haproxy: %w", err)
	}
	if err := p.works(ctx, status.reloads+1); err != nil {
		return err
	}
	p.text = text
	p.reloads = append(p.reloads, time.Now())
	p.slowest = max(p.slowest, time.Since(started))
	return nil
}

// Slowest is how long the slowest reload took: until then connections were handed
// out by the configuration before.
func (p *Proxy) Slowest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slowest
}

// Reloads are the instants since when each new configuration was in force.
func (p *Proxy) Reloads() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reloads)
}

// works waits until the worker of the n-th reload works.
func (p *Proxy) works(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		status, err := p.status(ctx)
		switch {
		case err != nil || status.reloads != n:
		case status.failed:
			return fmt.Errorf("cannot load haproxy: the configuration was refused, see %s", p.file("haproxy.log"))
		case status.working:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot load haproxy: %w, see %s", errors.Join(ctx.Err(), err), p.file("haproxy.log"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// status is what the master says of itself.
type status struct {
	reloads int
	failed  bool // the last of them
	working bool // the worker of the last configuration
}

// status asks the master, which answers as in
//
//	#<PID>          <type>          <reloads>       <uptime>        <version>
//	1162            master          5 [failed: 0]   0d00h02m07s     2.6.12
//	# workers
//	1271            worker          0               0d00h00m00s     2.6.12
//	# old workers
//	1233            worker          3               0d00h00m43s     2.6.12
//
// The reloads of a worker are those that it has lived through.
func (p *Proxy) status(ctx context.Context) (status, error) {
	var s status
	text, err := p.ask(ctx, "show proc")
	if err != nil {
		return s, err
	}
	known := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(line, "#") {
			continue
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil {
			return s, fmt.Errorf("cannot read %q of the master", line)
		}
		switch fields[1] {
		case "master":
			known = true
			s.reloads = n
			s.failed = strings.Contains(line, "[failed: ") && !strings.Contains(line, "[failed: 0]")
		case "worker":
			s.working = s.working || n == 0
		}
	}
	if !known {
		return s, fmt.Errorf("cannot read %q of the master", text)
	}
	return s, nil
}

// ask sends a command to the master and returns its answer.
func (p *Proxy) ask(ctx context.Context, command string) (string, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", p.file("master.sock"))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(connection, command+"\n"); err != nil {
		return "", err
	}
	// The master answers for as long as somebody may ask more.
	if err := connection.(*net.UnixConn).CloseWrite(); err != nil {
		return "", err
	}
	text, err := io.ReadAll(connection)
	return string(text), err
}

// Stop ends it at once.
func (p *Proxy) Stop() { p.master.Kill() }

// FreePort is a port that nobody listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("cannot find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
