package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// detached is a program of a cluster that was left running.
type detached struct {
	Pid     int
	Program string // its path
}

// RunningFile is where a detached cluster notes what runs, in its folder.
func RunningFile(dir string) string { return filepath.Join(dir, "running.json") }

// note writes down what runs, after each program: whatever happens to this process,
// EndAll finds them all.
func (c *Cluster) note() error {
	list := map[string]detached{}
	for name, p := range c.running {
		list[name] = detached{p.cmd.Process.Pid, p.cmd.Path}
	}
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(RunningFile(c.Dir), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot note what runs: %w", err)
	}
	return nil
}

// EndAll ends the programs of a cluster that another process started in a folder.
// The error is os.ErrNotExist if there is none.
func EndAll(dir string) error {
	text, err := os.ReadFile(RunningFile(dir))
	if err != nil {
		return fmt.Errorf("cannot read what runs: %w", err)
	}
	var list map[string]detached
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("cannot read what runs: %w", err)
	}
	for _, name := range order {
		d, ok := list[name]
		if !ok || !d.runs() {
			continue
		}
		endGroup(d.Pid, syscall.SIGTERM, func() bool {
			for range 100 {
				if syscall.Kill(-d.Pid, 0) != nil {
					return true
				}
				time.Sleep(100 * time.Millisecond)
			}
			return false
		})
	}
	return nil
}

// runs tells whether the process is still that program: after a reboot its number
// may be another one's. Where there is no /proc to look at, it is taken to be.
func (d detached) runs() bool {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return true
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.Pid))
	return err == nil && strings.HasPrefix(string(command), d.Program+"\x00")
}
