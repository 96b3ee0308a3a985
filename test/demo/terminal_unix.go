//go:build unix

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalSize is the size of the terminal that a file is, and false when it is
// none.
func terminalSize(f *os.File) (columns, rows int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), int(size.rows), errno == 0
}
