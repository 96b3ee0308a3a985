package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestBodiesUpToTheLimitAreTaken(t *testing.T) {
	var got int
	f := start(t, hook{sync: func(body []byte, _ time.Time, out *answer) error {
		got, out.body = len(body), []byte("{}")
		return nil
	}}, "--max-body=200000")
	for _, size := range []int64{0, 1, 65535, 65536, 65537, 131072, 199999, 200000} {
		for _, chunked := range []bool{false, true} {
			body := io.Reader(&endless{left: size})
			if !chunked {
				body = bytes.NewReader(make([]byte, size))
			}
			if r := f.do(t, "POST", "/sync", nil, body); r.code != 200 || int64(got) != size {
				t.Errorf("%d bytes, chunked %v: want 200 and all of them, got %d %s and %d", size, chunked, r.code, r.body, got)
			}
		}
	}
	if n := f.limits.buffered.Load(); n != 0 {
		t.Errorf("want no memory charged at rest, got %d bytes", n)
	}
}

func TestBodiesAboveTheLimitAreRefused(t *testing.T) {
	f := start(t, hook{}, "--max-body=200000")
	const want = "the request is larger than 200000 bytes (--max-body)\n"
	for _, size := range []int64{200001, 200 << 20} {
		for _, chunked := range []bool{false, true} {
			body := &endless{left: size}
			request, err := http.NewRequest("POST", f.url+"/sync", body)
			if err != nil {
				t.Fatal(err)
			}
			if !chunked {
				request.ContentLength = size
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != 413 || want != string(text) {
				t.Errorf("%d bytes, chunked %v: want 413 %s, got %d %s", size, chunked, want, response.StatusCode, text)
			}
			// What fits into the buffers on the way, but not all of it.
			if most := int64(32 << 20); body.sent.Load() > most {
				t.Errorf("%d bytes, chunked %v: want at most %d bytes taken, got %d", size, chunked, most, body.sent.Load())
			}
		}
	}
	f.wantMetric(t, `greyrelease_rejected_requests_total{limit="body"} 4`)
	if n := f.limits.buffered.Load(); n != 0 {
		t.Errorf("want no memory charged at rest, got %d bytes", n)
	}
	if lines := f.lines(t); len(lines) != 0 {
		t.Errorf("want no line in the log, so that nobody can flood it, got %v", lines)
	}
}

// A body of 8 KB that would be 8 MB is not unpacked.
func TestAGzipBombIsRefused(t *testing.T) {
	f := start(t, hook{}, "--max-body=1Mi")
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := io.Copy(w, &endless{left: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := f.do(t, "POST", "/sync", header("Content-Encoding", "gzip"), &bomb)
	if got.code != 415 {
		t.Errorf("want 415, got %d %s", got.code, got.body)
	}
	f.wantMetric(t, `greyrelease_rejected_requests_total{limit="encoding"} 1`)
}

func TestTooManyAtATimeAreSentAway(t *testing.T) {
	h, begun, goOn := blocking()
	f := start(t, h, "--max-concurrent=2")
	var done sync.WaitGroup
	for range 2 {
		done.Go(func() { f.wantGood(t) })
		<-begun
	}
	for range 3 {
		got := f.post(t, goodRequest)
		if want := "2 requests are being handled (--max-concurrent), try again later\n"; got.code != 429 || want != got.body || got.header.Get("Retry-After") != "1" {
			t.Errorf("want 429 %s after 1, got %d %s after %s", want, got.code, got.body, got.header.Get("Retry-After"))
		}
	}
	if got := f.do(t, "GET", "/healthz", nil, nil); got.code != 200 {
		t.Errorf("want healthz answered under load, got %d", got.code)
	}
	close(goOn)
	done.Wait()
	f.wantGood(t)
	f.wantMetric(t, `greyrelease_rejected_requests_total{limit="concurrent"} 3`)
}

// Requests that wait for a processor are served one after the other, and one
// whose caller has gone makes room.
func TestWaitingForAProcessor(t *testing.T) {
	h, begun, goOn := blocking()
	f := start(t, h, "--max-concurrent=3")
	f.limits.running = make(chan struct{}, 1)
	var done sync.WaitGroup
	done.Go(func() { f.wantGood(t) })
	<-begun
	done.Go(func() { f.wantGood(t) })
	eventually(t, "two turns", func() bool { return len(f.limits.turns) == 2 })

	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, "POST", f.url+"/sync", strings.NewReader(goodRequest))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
		gone <- err
	}()
	eventually(t, "three turns", func() bool { return len(f.limits.turns) == 3 })
	if got := f.post(t, goodRequest); got.code != 429 {
		t.Errorf("want 429 for the fourth, got %d", got.code)
	}
	leave()
	if err := <-gone; err == nil {
		t.Error("want the third cancelled, got an answer")
	}
	eventually(t, "two turns", func() bool { return len(f.limits.turns) == 2 })
	if len(begun) != 0 {
		t.Errorf("want one decided at a time, got %d more", len(begun))
	}
	close(goOn)
	done.Wait()
	if len(f.limits.turns) != 0 || len(f.limits.running) != 0 {
		t.Errorf("want no places taken at rest, got %d and %d", len(f.limits.turns), len(f.limits.running))
	}
}

func TestMemoryOfAllBodiesTogetherIsBounded(t *testing.T) {
	h, begun, goOn := blocking()
	f := start(t, h, "--max-body=1Mi", "--max-buffered=1Mi")
	big := goodRequest + strings.Repeat(" ", 600<<10)
	var done sync.WaitGroup
	done.Go(func() {
		if got := f.post(t, big); got.code != 200 {
			t.Errorf("want 200, got %d %s", got.code, got.body)
		}
	})
	<-begun
	if want, charged := int64(len(big)+1), f.limits.buffered.Load(); want != charged {
		t.Errorf("want %d bytes charged for a body that announced its length, got %d", want, charged)
	}
	got := f.post(t, big)
	if want := "requests of 1048576 bytes are being handled (--max-buffered), try again later\n"; got.code != 429 || want != got.body || got.header.Get("Retry-After") != "1" {
		t.Errorf("want 429 %s, got %d %s", want, got.code, got.body)
	}
	close(goOn)
	done.Wait()
	f.wantGood(t)
	f.wantMetric(t, `greyrelease_rejected_requests_total{limit="buffered"} 1`)
	if n := f.limits.buffered.Load(); n != 0 {
		t.Errorf("want no memory charged at rest, got %d bytes", n)
	}
}

// dial sends text on a connection of its own.
func (f *fixture) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Fifty callers that send headers or bodies slowly hold nothing that a good
// call needs, not even where only one request is decided at a time, and are
// sent away when their time is up.
func TestSlowCallersDoNotKeepOthersWaiting(t *testing.T) {
	f := start(t, echo(), "--max-concurrent=1", "--max-body=1Mi", "--max-buffered=8Mi",
		"--read-header-timeout=2s", "--read-timeout=3s", "--write-timeout=5s")
	began := time.Now()
	var headers, bodies []net.Conn
	for range 25 {
		headers = append(headers, f.dial(t, "POST /sync HTTP/1.1\r\nHost: x\r\nX-Slow: "))
		bodies = append(bodies, f.dial(t, "POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{"))
	}
	for range 20 {
		f.wantGood(t)
	}
	for _, conn := range headers {
		if text, err := io.ReadAll(conn); err != nil || len(text) > 0 && !strings.HasPrefix(string(text), "HTTP/1.1 408") {
			t.Errorf("want a slow header's connection closed, got %q and %v", text, err)
		}
	}
	for _, conn := range bodies {
		text, err := io.ReadAll(conn)
		if want := "the request did not arrive in time (--read-timeout)\n"; err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 408 ") || !strings.HasSuffix(string(text), want) {
			t.Errorf("want 408 %s, got %q and %v", want, text, err)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("want all gone after about three seconds, got %s", took)
	}
	f.wantGood(t)
	f.wantMetric(t, `greyrelease_rejected_requests_total{limit="read_timeout"} 25`)
	f.wantMetric(t, `greyrelease_rejected_requests_total{limit="concurrent"} 0`)
}

// A caller that does not read its answer is dropped, and nobody waits for it.
func TestASlowReaderIsDropped(t *testing.T) {
	large := []byte(`{"status":"` + strings.Repeat("x", 32<<20) + `"}`)
	h := hook{sync: func(body []byte, now time.Time, out *answer) error {
		if string(body) == "large" {
			out.body = large
			return nil
		}
		return echoSync(body, now, out)
	}}
	f := start(t, h, "--max-concurrent=1", "--read-timeout=2s", "--write-timeout=3s")
	conn := f.dial(t, "POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nlarge")
	eventually(t, "the request to be charged", func() bool { return f.limits.buffered.Load() > 0 })
	f.wantGood(t)
	eventually(t, "the request to be dropped", func() bool { return f.limits.buffered.Load() == 0 })
	f.wantGood(t)
	text, _ := io.ReadAll(conn)
	if len(text) >= len(large) {
		t.Errorf("want the answer cut off, got %d bytes", len(text))
	}
}

func TestAConnectionThatBreaksIsNoFault(t *testing.T) {
	f := start(t, echo())
	conn := f.dial(t, "POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	eventually(t, "the request to be charged", func() bool { return f.limits.buffered.Load() > 0 })
	conn.Close()
	eventually(t, "the request to be dropped", func() bool { return f.limits.buffered.Load() == 0 })
	eventually(t, "it to be counted", func() bool {
		return strings.Contains(scrape(f.metrics), `greyrelease_requests_total{hook="sync",code="400"} 1`)
	})
	if lines := f.lines(t); len(lines) != 0 {
		t.Errorf("want no line in the log, got %v", lines)
	}
}

func TestLargeHeadersAreRefused(t *testing.T) {
	f := start(t, echo(), "--max-header=16Ki")
	got := f.do(t, "POST", "/sync", header("X-Large", strings.Repeat("x", 64<<10)), strings.NewReader(goodRequest))
	if got.code != 431 {
		t.Errorf("want 431, got %d", got.code)
	}
	f.wantGood(t)
}

// Fifty at once send 200 MB each, half of them without saying so before, and
// some nest a million levels deep. Memory stays within what is promised and
// good calls are served.
func TestMemoryIsBoundedUnderAttack(t *testing.T) {
	f := start(t, echo(), append(slowMachine, "--max-body=4Mi", "--max-buffered=32Mi")...)
	grown := watchHeap()
	deep := strings.Repeat("[", 1_000_000)
	codes := make(chan int, 50)
	var attacking sync.WaitGroup
	for i := range 50 {
		attacking.Go(func() {
			var body io.Reader = &endless{left: 200 << 20}
			if i%5 == 4 {
				body = strings.NewReader(deep)
			}
			request, err := http.NewRequest("POST", f.url+"/sync", body)
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 && i%5 != 4 {
				request.ContentLength = 200 << 20
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				// The connection was closed while the rest was on its way.
				codes <- 413
				return
			}
			response.Body.Close()
			codes <- response.StatusCode
		})
	}
	for range 20 {
		// A good call may be told to come again, and succeeds then.
		eventually(t, "a good call to be served", func() bool { return f.post(t, goodRequest).code == 200 })
	}
	attacking.Wait()
	most := grown()
	close(codes)
	counts := map[int]int{}
	for code := range codes {
		counts[code]++
	}
	if counts[413]+counts[429]+counts[400] != 50 || counts[413] == 0 {
		t.Errorf("want every one refused, got %v", counts)
	}
	t.Logf("answers %v, heap grew by %d bytes at most", counts, most)
	// 32 MiB of bodies, as much that is garbage of growing them, and as much
	// that the collector has not come to.
	if limit := int64(128 << 20); most > limit {
		t.Errorf("want the heap to grow by at most %d bytes, got %d", limit, most)
	}
}

// watchHeap watches the size of the heap until the function that it returns is
// called, which tells how far the heap grew.
func watchHeap() func() int64 {
	const heap = "/memory/classes/heap/objects:bytes"
	before := readRuntime(heap)
	peak, stop := before, make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			peak = max(peak, readRuntime(heap))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() int64 {
		close(stop)
		watching.Wait()
		return int64(peak - before)
	}
}

// Twenty requests of 8 MB at once, with the limits that the service has by
// itself: each is answered and none is turned away. The hook copies what it
// gets, as decoding would; how long that takes is for the benchmarks.
func TestTwentyLargeRequestsAtOnce(t *testing.T) {
	f := start(t, hook{sync: func(body []byte, _ time.Time, out *answer) error {
		out.body = bytes.Clone(body)[:2]
		return nil
	}}, slowMachine...)
	large := strings.Repeat("{}", 4_000_000)
	grown := watchHeap()
	began := time.Now()
	var done sync.WaitGroup
	for range 20 {
		done.Go(func() {
			if got := f.post(t, large); got.code != 200 {
				t.Errorf("want 200, got %d %s", got.code, got.body)
			}
		})
	}
	done.Wait()
	took, most := time.Since(began), grown()
	t.Logf("20 requests of %d bytes in %s, heap grew by %d bytes", len(large), took, most)
	// 160 MB of bodies, that again as garbage of growing them, and the copies.
	if limit := int64(640 << 20); most > limit {
		t.Errorf("want the heap to grow by at most %d bytes, got %d", limit, most)
	}
}

// slowMachine takes the timeouts out of tests that are about something else.
var slowMachine = []string{"--read-timeout=5m", "--write-timeout=10m"}
