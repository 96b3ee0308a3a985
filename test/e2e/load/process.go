package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ticks is how many clock ticks /proc counts a second, on every Linux that Go runs on.
const ticks = 100

// cpuTime is the CPU time of a process so far, from /proc/PID/stat: fields 14 and 15.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses, in which anything may stand.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	sum := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// peakMemory is the most memory that a process has had resident since resetPeak.
func peakMemory(pid int) (mib int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); string(fields[0]) == "VmHWM:" {
			kib, err := strconv.Atoi(string(fields[1]))
			return (kib + 512) / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmHWM of process %d", pid)
}

// resetPeak lets the peak begin at what is resident now.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// loadAverage is the first number of /proc/loadavg: what else this machine does
// shows in it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	return string(first)
}
