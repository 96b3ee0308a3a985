package cluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Detached is a program of a cluster that was left running.
type Detached struct {
	Pid     int
	Program string // its path
}

// Running lists all programs, for EndAll.
func (c *Cluster) Running() map[string]Detached {
	list := map[string]Detached{}
	for name, p := range c.running {
		list[name] = Detached{p.cmd.Process.Pid, p.cmd.Path}
	}
	return list
}

// EndAll ends the programs of a cluster that another process started.
func EndAll(list map[string]Detached) {
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
}

// runs tells whether the process is still that program: after a reboot its number
// may be another one's. Where there is no /proc to look at, it is taken to be.
func (d Detached) runs() bool {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return true
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.Pid))
	return err == nil && strings.HasPrefix(string(command), d.Program+"\x00")
}
