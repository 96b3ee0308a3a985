package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// callers is how many call at once. The service takes as many as its default limit.
const callers = 200

const nodeHook = `const http = require('http'), fs = require('fs');
const answer = fs.readFileSync(process.argv[2]);
http.createServer((request, response) => {
  let body = '';
  request.on('data', chunk => body += chunk);
  request.on('end', () => {
    JSON.parse(body);
    response.writeHead(200, {'Content-Type': 'application/json', 'Content-Length': answer.length});
    response.end(answer);
  });
}).listen(process.argv[3], '127.0.0.1');
`

const pythonHook = `import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
answer = open(sys.argv[1], 'rb').read()
class Hook(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_POST(self):
        json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    def log_message(self, *args): pass
class Server(ThreadingHTTPServer):
    request_queue_size = 512
Server(('127.0.0.1', int(sys.argv[2])), Hook).serve_forever()
`

// hook is a process that answers calls.
type hook struct {
	name    string
	url     string
	process *exec.Cmd
	client  *http.Client
}

func startService(ctx context.Context, binary string) (*hook, error) {
	return start(ctx, "GreyRelease", binary, func(port string) []string {
		return []string{"--listen=127.0.0.1:" + port, "--metrics-listen=", "--log-level=error"}
	})
}

// startScript starts a hook in another language. It is exec.ErrNotFound if the
// language is not there.
func startScript(ctx context.Context, dir, program, file, text string, answer []byte) (*hook, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	script, body := filepath.Join(dir, file), filepath.Join(dir, file+".answer")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("cannot write script: %w", err)
	}
	if err := os.WriteFile(body, answer, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write answer: %w", err)
	}
	return start(ctx, "parse and answer, "+program, path, func(port string) []string { return []string{script, body, port} })
}

func start(ctx context.Context, name, program string, arguments func(port string) []string) (*hook, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot find a port: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("cannot find a port: %w", err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("cannot find a port: %w", err)
	}
	h := &hook{name: name, url: "http://" + address + "/sync", process: exec.CommandContext(ctx, program, arguments(port)...)}
	h.process.Env = append(os.Environ(), "GOMAXPROCS=1")
	h.process.Stderr = os.Stderr
	h.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}, Timeout: time.Minute}
	if err := h.process.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	for range 100 {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return h, c.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	h.end()
	return nil, fmt.Errorf("cannot start %s: it does not listen on %s within 10 s", name, address)
}

func (h *hook) end() {
	h.client.CloseIdleConnections()
	_ = h.process.Process.Kill()
	_ = h.process.Wait()
}

// errBusy is the answer of a service that has enough to do.
var errBusy = errors.New("429")

func (h *hook) post(body []byte) ([]byte, error) {
	response, err := h.client.Post(h.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusTooManyRequests:
		return nil, errBusy
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("want 200, got %s: %s", response.Status, answer)
	}
	return answer, nil
}

// row is what a hook costs.
type row struct{ cpu, p50, p99 time.Duration }

// measure calls one after the other for the cost of a call, and then with 200 callers
// for what they have to wait.
func (h *hook) measure(body []byte, calls int) (row, error) {
	for range calls / 10 {
		if _, err := h.post(body); err != nil {
			return row{}, err
		}
	}
	before, err := h.cpu()
	if err != nil {
		return row{}, err
	}
	for range calls {
		if _, err := h.post(body); err != nil {
			return row{}, err
		}
	}
	after, err := h.cpu()
	if err != nil {
		return row{}, err
	}
	times, _, err := h.together(calls, func(int) []byte { return body })
	if err != nil {
		return row{}, err
	}
	slices.Sort(times)
	return row{(after - before) / time.Duration(calls), times[len(times)/2], times[len(times)*99/100]}, nil
}

// fleet calls for that many releases, each with a name of its own. It returns how
// often it was put off.
func (h *hook) fleet(body []byte, parents int) (int, error) {
	_, refused, err := h.together(parents, func(i int) []byte {
		return bytes.ReplaceAll(body, []byte("web"), fmt.Appendf(nil, "w%05d", i))
	})
	return refused, err
}

// together makes calls with 200 callers. One that is put off comes again.
func (h *hook) together(calls int, body func(i int) []byte) (times []time.Duration, refused int, err error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	next := make(chan int)
	for range callers {
		wait.Go(func() {
			for i := range next {
				text, began, put := body(i), time.Now(), 0
				_, failed := h.post(text)
				for ; errors.Is(failed, errBusy); put++ {
					time.Sleep(50 * time.Millisecond)
					_, failed = h.post(text)
				}
				mu.Lock()
				times, refused = append(times, time.Since(began)), refused+put
				if failed != nil {
					err = failed
				}
				mu.Unlock()
			}
		})
	}
	for i := range calls {
		next <- i
	}
	close(next)
	wait.Wait()
	return times, refused, err
}

// cpu is the processor time that the process has used: utime and stime of proc(5), in
// hundredths of a second.
func (h *hook) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("cannot read processor time: %w", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cannot read processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// peak is the most memory that the process has had, in bytes.
func (h *hook) peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("cannot read memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("cannot read memory: no VmHWM")
}
