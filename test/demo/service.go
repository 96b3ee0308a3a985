package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// moduleRoot is the folder of the module that the demo is part of.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("cannot ask go for the module: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("cannot find the module: run the demo in its folder")
	}
	return filepath.Dir(file), nil
}

// service is the service as a process of its own.
type service struct {
	url    string
	folder string // of the binary
	cmd    *exec.Cmd
	last   string        // the last line of its log; read it after ended
	ended  chan struct{} // closed once the process is gone
}

// startService builds the service and starts it on a free port.
func startService(ctx context.Context) (*service, error) {
	folder, err := os.MkdirTemp("", "greyrelease-demo-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder to build in: %w", err)
	}
	s := &service{folder: folder, ended: make(chan struct{})}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *service) start(ctx context.Context) error {
	binary := filepath.Join(s.folder, "greyrelease")
	// A folder that is no checkout will do as well: -buildvcs=false.
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "greyrelease.example.com/server")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the service: %w: %s", err, bytes.TrimSpace(text))
	}
	// Not bound to ctx, which would kill it: stop ends it in any case.
	cmd := exec.Command(binary, "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--drain-delay=0s")
	logs, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("cannot read the service's log: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the service: %w", err)
	}
	s.cmd = cmd
	address := make(chan string, 1)
	go s.follow(logs, address)
	select {
	case at := <-address:
		s.url = "http://" + at
		return nil
	case <-s.ended:
		return fmt.Errorf("cannot start the service: %s", s.last)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Second):
		return errors.New("cannot start the service: it does not listen after 20 s")
	}
}

// follow reads the log until the process ends. One line of it says which port
// the system gave.
func (s *service) follow(logs io.Reader, address chan<- string) {
	for lines := bufio.NewScanner(logs); lines.Scan(); s.last = lines.Text() {
		var line struct{ Msg, Listen string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			address <- line.Listen
		}
	}
	_ = s.cmd.Wait()
	close(s.ended)
}

// stop ends the process, if need be the hard way, and removes what was built.
func (s *service) stop() error {
	if s.cmd != nil {
		// On Ctrl-C the terminal has told it already.
		if s.cmd.Process.Signal(syscall.SIGTERM) != nil {
			_ = s.cmd.Process.Kill()
		}
		select {
		case <-s.ended:
		case <-time.After(5 * time.Second):
			_ = s.cmd.Process.Kill()
			<-s.ended
		}
	}
	if err := os.RemoveAll(s.folder); err != nil {
		return fmt.Errorf("cannot remove what was built: %w", err)
	}
	return nil
}
