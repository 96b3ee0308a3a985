package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// usage is what a process has: memory that is resident, in KiB, and open files.
type usage struct{ memory, files int }

func usageOf(pid int) (usage, error) {
	var u usage
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("cannot read memory: %w", err)
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) > 1 && string(fields[0]) == "VmRSS:" {
			if u.memory, err = strconv.Atoi(string(fields[1])); err != nil {
				return u, fmt.Errorf("cannot read memory: %w", err)
			}
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return u, fmt.Errorf("cannot read open files: %w", err)
	}
	u.files = len(files)
	return u, nil
}

// series is the usage of one program over time.
type series struct {
	first, last, peak usage
	rests             []usage // at each rest, when nothing goes on
}

func (s *series) add(u usage) {
	if s.first == (usage{}) {
		s.first = u
	}
	s.last = u
	s.peak.memory, s.peak.files = max(s.peak.memory, u.memory), max(s.peak.files, u.files)
}

// grows says that what is used at rest goes up and up, or "": the least of the last third
// of the rests is above all of the first third by a half and more than 16 MiB, or by a
// half and more than 32 files.
func (s *series) grows() string {
	third := len(s.rests) / 3
	if third == 0 {
		return ""
	}
	most, least := usage{}, usage{1 << 40, 1 << 40}
	for _, u := range s.rests[:third] {
		most.memory, most.files = max(most.memory, u.memory), max(most.files, u.files)
	}
	for _, u := range s.rests[len(s.rests)-third:] {
		least.memory, least.files = min(least.memory, u.memory), min(least.files, u.files)
	}
	if least.memory > most.memory*3/2 && least.memory > most.memory+16<<10 || least.files > most.files*3/2 && least.files > most.files+32 {
		return fmt.Sprintf("want no more at rest than in the beginning, %+v, got %+v: %+v", most, least, s.rests)
	}
	return ""
}

// service is what a replica of the service counts.
type service struct{ calls, breaches, panics, errors float64 }

// serviceOf reads a replica's metrics.
func serviceOf(ctx context.Context, url string) (service, error) {
	var s service
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, text, found := cutLast(lines.Text())
		if !found || strings.HasPrefix(name, "#") {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return s, fmt.Errorf("cannot read %q: %w", lines.Text(), err)
		}
		switch {
		case strings.HasPrefix(name, "greyrelease_requests_total{"):
			s.calls += value
			if strings.Contains(name, `code="5`) {
				s.errors += value
			}
		case name == "greyrelease_invariant_breaches_total":
			s.breaches += value
		case name == "greyrelease_panics_total":
			s.panics += value
		}
	}
	return s, lines.Err()
}

func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}
