package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"greyrelease.example.com/hooks/composite"
)

// fixture is a running service with a hook of the test's own.
type fixture struct {
	*service
	url  string
	logs *lockedBuffer
}

// start serves h on loopback, with the limits of the command line args.
func start(t testing.TB, h hook, args ...string) *fixture {
	t.Helper()
	c, err := parseConfig(args, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	logs := &lockedBuffer{}
	log := slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: c.logLevel}))
	s := newService(c, h, testClock, newMetrics(build{"v1", "abc", "go1"}, time.Unix(1000, 0)), log)
	server := httptest.NewUnstartedServer(nil)
	server.Config = newServer(c, s.routes(), log)
	server.Start()
	t.Cleanup(server.Close)
	return &fixture{service: s, url: server.URL, logs: logs}
}

// testClock is no whole second and not UTC.
func testClock() time.Time {
	return time.Date(2026, 11, 30, 20, 0, 0, 999, time.FixedZone("", 8*60*60))
}

// echo is a hook that reads requests as a real one does and answers with the
// parent's name and the instant.
func echo() hook {
	return hook{sync: echoSync, customize: echoSync}
}

type named struct {
	Metadata composite.Metadata `json:"metadata"`
}

var decoder = composite.NewDecoder[named, named, named]()

func echoSync(body []byte, now time.Time, out *answer) error {
	request, err := decoder.Sync(body)
	if err != nil {
		return err
	}
	out.subject = request.Parent.Metadata.Namespace + "/" + request.Parent.Metadata.Name
	response := composite.SyncResponse{Status: map[string]any{"name": request.Parent.Metadata.Name, "now": now.Format(time.RFC3339Nano)}}
	out.body, err = response.Encode()
	return err
}

// failing is a hook whose sync ends in err, after it has read who it is about.
func failing(err error) hook {
	return hook{sync: func(_ []byte, _ time.Time, out *answer) error {
		out.subject = "shop/web"
		return err
	}}
}

const goodRequest = `{"parent":{"metadata":{"name":"web","namespace":"shop"}},"children":{}}`
const goodAnswer = `{"status":{"name":"web","now":"2026-11-30T12:00:00Z"},"children":[]}`

// reply is what came back.
type reply struct {
	code   int
	body   string
	header http.Header
}

func (f *fixture) do(t testing.TB, method, path string, header http.Header, body io.Reader) reply {
	t.Helper()
	got, err := f.try(method, path, header, body)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (f *fixture) try(method, path string, header http.Header, body io.Reader) (reply, error) {
	request, err := http.NewRequest(method, f.url+path, body)
	if err != nil {
		return reply{}, err
	}
	if header != nil {
		request.Header = header
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, string(text), response.Header}, err
}

func (f *fixture) post(t testing.TB, body string) reply {
	t.Helper()
	return f.do(t, http.MethodPost, "/sync", nil, strings.NewReader(body))
}

// wantGood fails unless a good call is served.
func (f *fixture) wantGood(t testing.TB) {
	t.Helper()
	if got := f.post(t, goodRequest); got.code != 200 || got.body != goodAnswer {
		t.Errorf("want a good call answered with 200 %s, got %d %s", goodAnswer, got.code, got.body)
	}
}

// wantMetric fails unless /metrics has the line.
func (f *fixture) wantMetric(t testing.TB, line string) {
	t.Helper()
	if text := scrape(f.metrics); !strings.Contains(text, "\n"+line+"\n") {
		name, _, _ := strings.Cut(line, "{")
		name, _, _ = strings.Cut(name, " ")
		var near []string
		for _, other := range strings.Split(text, "\n") {
			if strings.HasPrefix(other, name) {
				near = append(near, other)
			}
		}
		t.Errorf("want metric %s, got\n%s", line, strings.Join(near, "\n"))
	}
}

func scrape(m *metrics) string {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// lines returns the log, a map for each line.
func (f *fixture) lines(t testing.TB) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for _, text := range strings.Split(strings.TrimSpace(f.logs.String()), "\n") {
		if text == "" {
			continue
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("want JSON in each line of the log, got %s", text)
		}
		delete(line, "time")
		lines = append(lines, line)
	}
	return lines
}

// eventually waits for what another goroutine brings about.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("want %s within a minute", what)
		}
	}
}

// lockedBuffer is written by many requests.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// endless sends n bytes, of which it holds none.
type endless struct {
	left int64
	sent atomic.Int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := int(min(e.left, int64(len(p))))
	for i := range n {
		p[i] = ' '
	}
	e.left -= int64(n)
	e.sent.Add(int64(n))
	return n, nil
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// blocking is a hook that says when it has begun and waits to be let go.
func blocking() (h hook, begun chan struct{}, goOn chan struct{}) {
	begun, goOn = make(chan struct{}, 100), make(chan struct{})
	return hook{sync: func(body []byte, now time.Time, out *answer) error {
		begun <- struct{}{}
		<-goOn
		return echoSync(body, now, out)
	}}, begun, goOn
}

func sprint(v any) string { return fmt.Sprint(v) }
