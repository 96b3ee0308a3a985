package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a program that was started here. It leads a process group of its own.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; valid once ended is closed
}

// start starts a program whose output goes to a log file, which is appended to.
// Unless it is detached, the kernel kills it when this process dies in whatever
// way: no exit path can leave it behind.
func start(name, path, log string, detached bool, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot log %s: %w", name, err)
	}
	defer out.Close()
	p := &process{name: name, cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = attributes(detached)
	started := make(chan error)
	spawner() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// spawner runs functions on one thread that lives as long as the process: a child
// is told of the death of the thread that started it, not of the process.
var spawner = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// alive tells whether the process still runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop asks the process group to end, and kills it after 10 seconds.
func (p *process) stop() { p.end(syscall.SIGTERM) }

// kill ends the process group at once, as a crash or a lost node would.
func (p *process) kill() { p.end(syscall.SIGKILL) }

func (p *process) end(signal syscall.Signal) {
	endGroup(p.cmd.Process.Pid, signal, func() bool {
		select {
		case <-p.ended:
			return true
		case <-time.After(10 * time.Second):
			return false
		}
	})
	<-p.ended
}

// endGroup signals a process group, and kills what is left of it if gone does not
// report its end.
func endGroup(leader int, signal syscall.Signal, gone func() bool) {
	// An error means that there is no such group any more.
	_ = syscall.Kill(-leader, signal)
	if !gone() {
		_ = syscall.Kill(-leader, syscall.SIGKILL)
	}
}
