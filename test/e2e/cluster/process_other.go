//go:build !linux

package cluster

import "syscall"

// Only Linux can tie the life of a child to that of its parent. Elsewhere a parent
// that is killed with SIGKILL leaves its children behind.
func attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}
