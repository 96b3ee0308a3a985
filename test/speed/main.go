// Command speed measures what one call of the sync hook costs, beside a hook that
// does nothing but parse the request and answer the same bytes, in node and in Python,
// the way Metacontroller's examples are served:
//
//	go run ./test/speed
//
// All of them get the same requests on loopback. The cost is the CPU time that the
// process has used, divided by the calls, so that a busy machine says the same as an
// idle one; times that a caller sees do not. Programs that are not there are left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	calls := flag.Int("calls", 1000, "calls of each hook with each request")
	parents := flag.Int("parents", 10_000, "releases to call the service for at its limit, to see its memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *calls, *parents); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, calls, parents int) error {
	dir, err := os.MkdirTemp("", "speed-")
	if err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "greyrelease")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./server")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("cannot build the service: %w", err)
	}
	ours, err := startService(ctx, binary)
	if err != nil {
		return err
	}
	defer ours.end()
	requests, err := requests(ours)
	if err != nil {
		return err
	}
	began := load()
	fmt.Println("| request | hook | CPU of a call | calls a second of one core | ratio | p50, p99 of 200 callers at once |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, r := range requests {
		answer, err := ours.post(r.body)
		if err != nil {
			return err
		}
		var base time.Duration
		for _, h := range []func() (*hook, error){
			func() (*hook, error) { return startService(ctx, binary) },
			func() (*hook, error) { return startScript(ctx, dir, "node", "hook.js", nodeHook, answer) },
			func() (*hook, error) { return startScript(ctx, dir, "python3", "hook.py", pythonHook, answer) },
		} {
			h, err := h()
			if errors.Is(err, exec.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			row, err := h.measure(r.body, calls)
			h.end()
			if err != nil {
				return fmt.Errorf("cannot call %s: %w", h.name, err)
			}
			if base == 0 {
				base = row.cpu
			}
			fmt.Printf("| %d KB, %d children | %s | %.2f ms | %.0f | %.1f | %.0f ms, %.0f ms |\n", len(r.body)/1000, r.children, h.name,
				ms(row.cpu), float64(time.Second)/float64(row.cpu), float64(row.cpu)/float64(base), ms(row.p50), ms(row.p99))
		}
	}
	if err := memory(ctx, binary, requests[1].body, parents); err != nil {
		return err
	}
	fmt.Printf("load average before and after: %s, %s\n", began, load())
	return nil
}

// load is the load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// memory calls a new process for that many releases, as many at once as it takes.
func memory(ctx context.Context, binary string, body []byte, parents int) error {
	h, err := startService(ctx, binary)
	if err != nil {
		return err
	}
	defer h.end()
	refused, err := h.fleet(body, parents)
	if err != nil {
		return err
	}
	peak, err := h.peak()
	if err != nil {
		return err
	}
	fmt.Printf("\n%d releases, %d callers at once, %d KB each: peak memory %d MiB, %d calls put off by 429\n", parents, callers, len(body)/1000, peak>>20, refused)
	return nil
}
