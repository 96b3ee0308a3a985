// Package cluster runs a Kubernetes control plane with GreyRelease on it, on
// loopback and without containers: etcd, kube-apiserver, kube-controller-manager
// and kube-scheduler as processes, kwok in the place of the kubelets, the
// GreyRelease service and a Metacontroller.
//
// What pods do is decided by the annotation test/behave of their template; see
// stages.yaml.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/binaries"

	"k8s.io/client-go/rest"
)

// The apply strategies of Metacontroller, as its flag names them.
const (
	DynamicApply    = "dynamic-apply"
	ServerSideApply = "server-side-apply"
)

// Users of the API server, as the audit log names them.
const (
	Tester         = "tester"
	Metacontroller = "metacontroller"
	controllers    = "kube"
)

// Options say what to run.
type Options struct {
	// Root is the folder of the repository.
	Root string
	// Dir is where everything is written: logs, data, kubeconfigs.
	Dir string
	// Overlay is the folder below manifests/overlays to install; "" for none. Install
	// applies the one that is set when it is called.
	Overlay string
	// Components are folders below manifests/components that Install applies on top, in
	// this order.
	Components []string
	// ServiceFlags are further flags of the service. Where one is given twice, the last
	// counts.
	ServiceFlags []string
	// Service is the path of a service; "" for that of Root.
	Service string
	// Apply is the apply strategy that Metacontroller starts with.
	Apply string
	// Metacontroller is the path of a Metacontroller; "" for the double.
	Metacontroller string
	// MetacontrollerFlags are further flags of Metacontroller. Where one is given
	// twice, the last counts.
	MetacontrollerFlags []string
	// Unrestricted lets Metacontroller do everything, for hooks that ask for other kinds
	// than GreyRelease. Otherwise it has the rights of manifests/metacontroller-restricted
	// with those of the overlay.
	Unrestricted bool
	// Detached leaves everything running when this process ends.
	Detached bool
	// Progress is told what takes long.
	Progress io.Writer
}

// Cluster is a running control plane. Its programs can be ended and started by several
// goroutines, each program by one at a time.
type Cluster struct {
	Options
	Programs binaries.Set

	ports  ports
	tokens map[string]string

	mu      sync.Mutex
	running map[string]*process
}

// Start builds what is missing, boots the control plane and installs GreyRelease.
// After an error nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{Options: o, running: map[string]*process{}}
	if err := c.boot(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) boot(ctx context.Context) error {
	started := time.Now()
	if err := c.build(ctx); err != nil {
		return err
	}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"write credentials", c.writeCredentials},
		{"start etcd", c.StartEtcd},
		{"start kube-apiserver", c.StartAPIServer},
		{"start controllers", c.startControllers},
		{"create nodes", c.createNodes},
		{"install GreyRelease", c.install},
		{"start the service", c.StartService},
		{"start Metacontroller", c.StartMetacontroller},
	}
	for _, step := range steps {
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("cannot %s: %w", step.name, err)
		}
	}
	fmt.Fprintf(c.Progress, "control plane up in %v, in %s\n", time.Since(started).Round(100*time.Millisecond), FromHome(c.Dir))
	return nil
}

// build makes the programs of the control plane, the service and the double.
func (c *Cluster) build(ctx context.Context) error {
	cache, err := debian.Cache()
	if err != nil {
		return err
	}
	e2e := filepath.Join(c.Root, "test", "e2e")
	c.Programs, err = binaries.Ensure(ctx, filepath.Join(e2e, "binaries"), cache, c.Progress)
	if err != nil {
		return err
	}
	if c.Programs["greyrelease"] = c.Service; c.Service == "" {
		c.Programs["greyrelease"] = filepath.Join(c.Dir, "greyrelease")
		if err := binaries.Build(ctx, c.Root, "./server", c.Programs["greyrelease"]); err != nil {
			return err
		}
	}
	if c.Metacontroller != "" {
		c.Programs["metacontroller"] = c.Metacontroller
		return nil
	}
	c.Programs["metacontroller"] = filepath.Join(c.Dir, "metacontroller")
	return binaries.Build(ctx, filepath.Join(c.Root, "test", "metacontroller"), ".", c.Programs["metacontroller"])
}

// Config is the client configuration of a user. There is no limit on its rate.
func (c *Cluster) Config(user string) *rest.Config {
	return &rest.Config{
		Host:            c.server(),
		BearerToken:     c.tokens[user],
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		UserAgent:       user,
		QPS:             -1,
	}
}

// Kubeconfig is the path of the kubeconfig of a user.
func (c *Cluster) Kubeconfig(user string) string { return c.file(user + ".kubeconfig") }

// ServiceURL is the address of the service's hooks.
func (c *Cluster) ServiceURL() string {
	scheme := "http"
	if slices.Contains(c.Components, "tls") {
		scheme = "https"
	}
	return scheme + "://" + c.ServiceAddress()
}

// ServiceAddress is where the service listens.
func (c *Cluster) ServiceAddress() string { return fmt.Sprintf("127.0.0.1:%d", c.ports.service) }

// MetricsURL is the address of the service's metrics.
func (c *Cluster) MetricsURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d/metrics", c.ports.metrics)
}

// APIServerAddress is where the API server listens.
func (c *Cluster) APIServerAddress() string { return fmt.Sprintf("127.0.0.1:%d", c.ports.apiserver) }

func (c *Cluster) server() string          { return fmt.Sprintf("https://127.0.0.1:%d", c.ports.apiserver) }
func (c *Cluster) file(name string) string { return filepath.Join(c.Dir, name) }

// run starts a program under the name by which it is stopped.
func (c *Cluster) run(name string, args ...string) error {
	return c.runAs(name, c.Programs[name], args...)
}

// runAs is run with another program under that name.
func (c *Cluster) runAs(name, program string, args ...string) error {
	p, err := start(name, program, c.file(name+".log"), c.Detached, args...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[name] = p
	if c.Detached {
		return c.note()
	}
	return nil
}

// End ends a program, at once or after asking it to.
func (c *Cluster) End(name string, atOnce bool) {
	c.mu.Lock()
	p := c.running[name]
	delete(c.running, name)
	c.mu.Unlock()
	if p == nil {
		return
	}
	if atOnce {
		p.kill()
		return
	}
	p.stop()
}

// Pid is the process id of a program, 0 if it does not run.
func (c *Cluster) Pid(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running[name]; p != nil && p.alive() {
		return p.cmd.Process.Pid
	}
	return 0
}

// Signal sends a signal to a program that runs: one that is stopped by SIGSTOP keeps its
// connections, as one does that the network has left.
func (c *Cluster) Signal(name string, signal syscall.Signal) error {
	pid := c.Pid(name)
	if pid == 0 {
		return fmt.Errorf("cannot signal %s: it does not run", name)
	}
	if err := syscall.Kill(-pid, signal); err != nil {
		return fmt.Errorf("cannot signal %s: %w", name, err)
	}
	return nil
}

// order is that in which programs are stopped: writers first.
var order = []string{"metacontroller", "greyrelease", "kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"}

// Stop kills everything: nothing here is worth an orderly end.
func (c *Cluster) Stop() {
	for _, name := range order {
		c.End(name, true)
	}
}

// Ended tells whether a program has ended by itself.
func (c *Cluster) Ended(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running[name]
	return p != nil && !p.alive()
}

// Dead lists the programs that ended by themselves.
func (c *Cluster) Dead() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name, p := range c.running {
		if !p.alive() {
			names = append(names, fmt.Sprintf("%s (%v)", name, p.err))
		}
	}
	slices.Sort(names)
	return names
}

// eventually calls try until it returns nil, for at most a minute, as long as all
// programs run.
func (c *Cluster) eventually(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if dead := c.Dead(); len(dead) > 0 {
			return fmt.Errorf("%v ended: see the logs in %s: %w", dead, c.Dir, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Root finds the repository above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find repository: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "manifests", "kustomization.yaml")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("cannot find repository above %s", dir)
		}
	}
}

// FromHome is a path as people write it. A shell reads ~ in what is assigned.
func FromHome(path string) string {
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	if below, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok {
		return "~/" + filepath.ToSlash(below)
	}
	return path
}
