// Package replicas runs several processes of the service behind a proxy that stands for
// its Service: it sends each call to another one, and follows what is ready as endpoints
// do.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"greyrelease.example.com/test/e2e/cluster"
	"greyrelease.example.com/test/e2e/haproxy"
)

// Options say what to run.
type Options struct {
	// Proxy is the haproxy to use, and Port where it listens.
	Proxy haproxy.Program
	Port  int
	// Dir is where logs are written.
	Dir string
	// Flags are further flags of each replica.
	Flags []string
}

// Set is a number of replicas.
type Set struct {
	Options
	proxy   *haproxy.Proxy
	sockets string

	mu       sync.Mutex
	programs map[string]*replica // by address
	applied  sync.Mutex          // held while the proxy follows
}

type replica struct {
	program *cluster.Program
	metrics string
	away    bool // it gets no calls
	told    bool // it was told to end
}

// patience is how long anything may take on a busy machine.
const patience = 2 * time.Minute

// Start starts the proxy, which has nobody to send calls to yet.
func Start(ctx context.Context, o Options) (*Set, error) {
	dir, err := os.MkdirTemp("", "hooks-") // short, for the sockets of the proxy
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder: %w", err)
	}
	s := &Set{Options: o, sockets: dir, programs: map[string]*replica{}}
	if s.proxy, err = haproxy.Start(ctx, o.Proxy, dir, s.config()); err != nil {
		return nil, fmt.Errorf("%w: its log is in %s", err, dir)
	}
	return s, nil
}

// Stop ends everything at once.
func (s *Set) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.programs {
		r.program.Kill()
	}
	s.proxy.Stop()
	return os.RemoveAll(s.sockets)
}

// config has the replicas that are to get calls.
func (s *Set) config() haproxy.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	var addresses []string
	for _, address := range slices.Sorted(maps.Keys(s.programs)) {
		if !s.programs[address].away {
			addresses = append(addresses, address)
		}
	}
	return haproxy.Config{
		Frontends: []haproxy.Frontend{{Port: s.Port, Rules: []haproxy.Rule{{Weights: []haproxy.Weight{{Service: "hook", Weight: 1}}}}}},
		Services:  map[string][]string{"hook": addresses},
	}
}

// follow lets the proxy know who is to get calls.
func (s *Set) follow(ctx context.Context) error {
	s.applied.Lock()
	defer s.applied.Unlock()
	return s.proxy.Apply(ctx, s.config())
}

// Add starts a replica, and lets calls come to it once it is ready. It goes on for ten
// seconds after it was told to end: on a busy machine a proxy takes some to follow.
func (s *Set) Add(ctx context.Context, program string) (address string, err error) {
	port, err := haproxy.FreePort()
	if err != nil {
		return "", err
	}
	metrics, err := haproxy.FreePort()
	if err != nil {
		return "", err
	}
	address = fmt.Sprintf("127.0.0.1:%d", port)
	r := &replica{metrics: fmt.Sprintf("127.0.0.1:%d", metrics), away: true}
	r.program, err = cluster.StartProgram("greyrelease", program, filepath.Join(s.Dir, fmt.Sprintf("greyrelease-%d.log", port)),
		append([]string{"--listen=" + address, "--metrics-listen=" + r.metrics, "--drain-delay=10s"}, s.Flags...)...)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	s.programs[address] = r
	s.mu.Unlock()
	if err := s.until(ctx, "a replica ready", func() error { return ready(ctx, address) }); err != nil {
		return "", err
	}
	s.mu.Lock()
	r.away = false
	s.mu.Unlock()
	return address, s.follow(ctx)
}

func ready(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

func (s *Set) until(ctx context.Context, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("want %s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Remove ends a replica as Kubernetes does: it is told, endpoints follow a moment
// later, and it ends when it has finished.
func (s *Set) Remove(ctx context.Context, address string) error {
	r := s.tell(address)
	if err := syscall.Kill(r.program.Pid(), syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot end a replica: %w", err)
	}
	return s.gone(ctx, address, r)
}

// Kill ends a replica as a lost node does, and endpoints follow a moment later.
func (s *Set) Kill(ctx context.Context, address string) error {
	r := s.tell(address)
	r.program.Kill()
	return s.gone(ctx, address, r)
}

// tell notes that the end of a replica is wanted.
func (s *Set) tell(address string) *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.programs[address]
	r.told = true
	return r
}

func (s *Set) gone(ctx context.Context, address string, r *replica) error {
	time.Sleep(300 * time.Millisecond)
	s.mu.Lock()
	r.away = true
	s.mu.Unlock()
	if err := s.follow(ctx); err != nil {
		return err
	}
	err := s.until(ctx, "the end of a replica", func() error {
		if r.program.Alive() {
			return errors.New("it runs")
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.programs, address)
	return err
}

// Signal sends a signal to a replica.
func (s *Set) Signal(address string, signal syscall.Signal) error {
	if err := syscall.Kill(-s.replica(address).program.Pid(), signal); err != nil {
		return fmt.Errorf("cannot signal a replica: %w", err)
	}
	return nil
}

func (s *Set) replica(address string) *replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.programs[address]
}

// Addresses are those of all replicas.
func (s *Set) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.programs))
}

// MetricsURL is where a replica tells its metrics.
func (s *Set) MetricsURL(address string) string {
	return "http://" + s.replica(address).metrics + "/metrics"
}

// Pid is the process id of a replica.
func (s *Set) Pid(address string) int { return s.replica(address).program.Pid() }

// Dead lists the replicas that ended by themselves.
func (s *Set) Dead() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var addresses []string
	for address, r := range s.programs {
		if !r.program.Alive() && !r.told {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
