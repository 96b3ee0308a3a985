package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running is serve in the background.
type running struct {
	*fixture
	metricsURL string
	stop       context.CancelFunc
	ended      chan error
}

func runServe(t *testing.T, h hook, args ...string) *running {
	t.Helper()
	args = append([]string{"--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"}, args...)
	c, err := parseConfig(args, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	logs := &lockedBuffer{}
	s := newService(c, h, testClock, newMetrics(build{}, time.Unix(1000, 0)), slog.New(slog.NewJSONHandler(logs, nil)))
	ctx, stop := context.WithCancel(t.Context())
	r := &running{fixture: &fixture{service: s, logs: logs}, stop: stop, ended: make(chan error, 1)}
	begun := make(chan struct{})
	go func() {
		r.ended <- serve(ctx, c, s, func(hooks, metrics net.Addr) {
			r.url, r.metricsURL = "http://"+hooks.String(), "http://"+metrics.String()
			close(begun)
		})
	}()
	select {
	case <-begun:
	case err := <-r.ended:
		t.Fatal(err)
	}
	return r
}

func TestShutdownFinishesWhatHasBegun(t *testing.T) {
	h, begun, goOn := blocking()
	r := runServe(t, h, "--drain-delay=2s")
	if got := r.do(t, "GET", "/readyz", nil, nil); got.code != 200 {
		t.Errorf("want ready, got %d", got.code)
	}
	first := make(chan reply, 1)
	go func() {
		got, err := r.try("POST", "/sync", nil, strings.NewReader(goodRequest))
		if err != nil {
			t.Error(err)
		}
		first <- got
	}()
	<-begun
	r.stop()
	eventually(t, "readyz to say 503", func() bool {
		got, err := r.try("GET", "/readyz", nil, nil)
		return err == nil && got.code == 503 && got.body == "shutting down\n"
	})
	if got := r.do(t, "GET", "/healthz", nil, nil); got.code != 200 {
		t.Errorf("want alive while draining, got %d", got.code)
	}
	// Endpoints are not updated everywhere yet: new calls are still served, and
	// told to use another connection the next time.
	second := make(chan reply, 1)
	go func() {
		got, err := r.try("POST", "/sync", nil, strings.NewReader(goodRequest))
		if err != nil {
			t.Error(err)
		}
		second <- got
	}()
	<-begun
	eventually(t, "the listener to be closed", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	select {
	case err := <-r.ended:
		t.Fatalf("want to wait for two requests, got %v", err)
	default:
	}
	close(goOn)
	for _, answered := range []chan reply{first, second} {
		if got := <-answered; got.code != 200 || got.body != goodAnswer {
			t.Errorf("want 200 %s, got %d %s", goodAnswer, got.code, got.body)
		}
	}
	if err := <-r.ended; err != nil {
		t.Errorf("want an orderly end, got %v", err)
	}
}

func TestWhileDrainingConnectionsAreClosedAfterTheAnswer(t *testing.T) {
	f := start(t, echo())
	f.draining.Store(true)
	conn := f.dial(t, "POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	text, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(text), "\r\nConnection: close\r\n") {
		t.Errorf("want the connection closed after the answer, got %q and %v", text, err)
	}
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	h, begun, goOn := blocking()
	defer close(goOn)
	r := runServe(t, h, "--drain-delay=0s", "--shutdown-timeout=100ms")
	go func() { _, _ = r.try("POST", "/sync", nil, strings.NewReader(goodRequest)) }()
	<-begun
	r.stop()
	err := <-r.ended
	if err == nil {
		t.Fatal("want an error, got none")
	}
	if want := "cannot finish all requests within 100ms: context deadline exceeded"; want != err.Error() {
		t.Errorf("want %s\ngot  %s", want, err)
	}
}

func TestMetricsHaveTheirOwnPort(t *testing.T) {
	r := runServe(t, echo(), "--drain-delay=0s")
	r.wantGood(t)
	for _, row := range []struct {
		method, url string
		code        int
	}{
		{"GET", r.metricsURL + "/metrics", 200},
		{"POST", r.metricsURL + "/metrics", 405},
		{"GET", r.metricsURL + "/", 404},
		{"POST", r.metricsURL + "/sync", 404},
	} {
		request, err := http.NewRequest(row.method, row.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if row.code != response.StatusCode {
			t.Errorf("%s %s: want %d, got %d", row.method, row.url, row.code, response.StatusCode)
		}
		if want := `greyrelease_requests_total{hook="sync",code="200"} 1`; row.code == 200 && !strings.Contains(string(text), want) {
			t.Errorf("want %s, got\n%s", want, text)
		}
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestAPortThatIsTakenIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, row := range []struct{ args, want string }{
		{"--listen=" + taken.Addr().String() + " --metrics-listen=", "cannot listen for hooks: "},
		{"--listen=127.0.0.1:0 --metrics-listen=" + taken.Addr().String(), "cannot listen for metrics: "},
	} {
		c, err := parseConfig(strings.Fields(row.args), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		s := newService(c, echo(), testClock, newMetrics(build{}, time.Now()), slog.New(slog.DiscardHandler))
		err = serve(t.Context(), c, s, func(_, _ net.Addr) { t.Error("want no start, got one") })
		if err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%s: want %s..., got %v", row.args, row.want, err)
		}
	}
}

// The whole process: it serves, is told to stop as Kubernetes does it, and
// ends with 0.
func TestRunEndsWithZeroOnSIGTERM(t *testing.T) {
	var stdout, stderr lockedBuffer
	code := make(chan int)
	go func() {
		code <- run([]string{"--listen=127.0.0.1:0", "--metrics-listen=", "--drain-delay=0s"}, os.LookupEnv, &stdout, &stderr)
	}()
	f := &fixture{logs: &stderr}
	eventually(t, "the process to serve", func() bool { return strings.Contains(stderr.String(), `"serving"`) })
	f.url = "http://" + sprint(f.lines(t)[0]["listen"])
	if got := f.do(t, "GET", "/readyz", nil, nil); got.code != 200 {
		t.Errorf("want ready, got %d", got.code)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != 0 {
		t.Errorf("want exit code 0, got %d: %s", got, stderr.String())
	}
	var messages []string
	for _, line := range f.lines(t) {
		messages = append(messages, sprint(line["msg"]))
	}
	if want := "serving stopping stopped"; want != strings.Join(messages, " ") {
		t.Errorf("want %s, got %s", want, messages)
	}
}
