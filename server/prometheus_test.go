package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// asking is a client of a Prometheus at an address.
func asking(t *testing.T, url string, args ...string) *prometheus {
	t.Helper()
	c, err := parseConfig(append([]string{"--prometheus-url=" + url, "--prometheus-timeout=20s"}, args...), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPrometheus(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// saying is a Prometheus that answers everything with one text.
func saying(t *testing.T, code int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

const vectorOf = `{"status":"success","data":{"resultType":"vector","result":[%s]}}`

func TestAnswersOfPrometheus(t *testing.T) {
	sample := `{"metric":{},"value":[1796040000,"0.25"]}`
	for _, row := range []struct {
		why                  string
		code                 int
		body                 string
		value, outcome, text string
	}{
		{"a vector of one", 200, fmt.Sprintf(vectorOf, sample), "0.25", outcomeValue, ""},
		{"a scalar", 200, `{"status":"success","data":{"resultType":"scalar","result":[1796040000.5,"1e-05"]}}`, "1e-05", outcomeValue, ""},
		{"infinity is a number", 200, fmt.Sprintf(vectorOf, `{"value":[1,"+Inf"]}`), "+Inf", outcomeValue, ""},
		{"the core judges NaN", 200, fmt.Sprintf(vectorOf, `{"value":[1,"NaN"]}`), "NaN", outcomeValue, ""},
		{"no data", 200, fmt.Sprintf(vectorOf, ""), "", outcomeNoData, "the query returned no data"},
		{"two samples", 200, fmt.Sprintf(vectorOf, sample+","+sample), "", outcomeNotOne, "the query returned more than one sample: aggregate them, as by sum(...)"},
		{"a matrix", 200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "", outcomeNotOne, "the result is a range of samples: apply a function to it, as rate(...)"},
		{"a string", 200, `{"status":"success","data":{"resultType":"string","result":[1,"x"]}}`, "", outcomeNotOne, `the result is a "string" and no number`},
		{"a histogram", 200, fmt.Sprintf(vectorOf, `{"metric":{},"histogram":[1,{"count":"1"}]}`), "", outcomeNotOne, "the result is a histogram: ask for a number, as by histogram_quantile(...)"},
		{"wrong PromQL", 400, `{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\": 1:5: parse error: unexpected end\nof input"}`,
			"", outcomeRefused, `Prometheus refuses the query: invalid parameter "query": 1:5: parse error: unexpected end of input`},
		{"too much to compute", 422, `{"status":"error","errorType":"execution","error":"` + strings.Repeat("many ", 100) + `"}`,
			"", outcomeRefused, "Prometheus refuses the query: " + strings.Repeat("many ", 32) + "..."},
		{"its own timeout", 503, `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`,
			"", outcomeTimeout, "Prometheus gave the query up: query timed out in expression evaluation"},
		{"its own failure", 500, `{"status":"error","errorType":"internal","error":"disk"}`, "", outcomeError, "Prometheus failed (500): disk"},
		{"a proxy without it", 502, `<html>`, "", outcomeError, "Prometheus answered with 502"},
		{"not allowed", 401, ``, "", outcomeUnauthorized, "Prometheus refuses the service (401): its operator checks --prometheus-token-file"},
		{"forbidden", 403, `Forbidden`, "", outcomeUnauthorized, "Prometheus refuses the service (403): its operator checks --prometheus-token-file"},
		{"elsewhere", 302, ``, "", outcomeError, "Prometheus redirects to elsewhere (302), which is not followed: its operator checks --prometheus-url"},
		{"something else", 200, `hello`, "", outcomeError, noPrometheus},
		{"JSON of something else", 200, `{"items":[]}`, "", outcomeError, noPrometheus},
		{"a value that is none", 200, fmt.Sprintf(vectorOf, `{"value":[1,"zwei"]}`), "", outcomeError, noPrometheus},
		{"a value without an instant", 200, fmt.Sprintf(vectorOf, `{"value":["1"]}`), "", outcomeError, noPrometheus},
		{"a part of the data", 200, `{"status":"success","warnings":["remote read failed"],"data":{"resultType":"scalar","result":[1,"1"]}}`,
			"", outcomeWarning, "Prometheus warns: remote read failed"},
		{"a huge result", 200, fmt.Sprintf(vectorOf, strings.Repeat(sample+",", 100_000)+sample), "", outcomeTooLarge, "the result is larger than 1 MiB: aggregate it to one sample, as by sum(...)"},
	} {
		value, r := asking(t, saying(t, row.code, row.body)).ask(t.Context(), greyrelease.Query{Text: "up", Time: noon})
		outcome, text := outcomeValue, ""
		if r != nil {
			outcome, text = r.outcome, r.text
		}
		if row.value != value || row.outcome != outcome || row.text != text {
			t.Errorf("%s:\nwant %q %s %s\n got %q %s %s", row.why, row.value, row.outcome, row.text, value, outcome, text)
		}
	}
}

func TestWhatIsAsked(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, fmt.Sprintf("%s %s %s", r.Method, r.URL, r.Header.Get("Authorization")))
	}))
	t.Cleanup(server.Close)
	p := asking(t, server.URL+"/prom/", "--prometheus-token-file="+token)
	_, _ = p.ask(t.Context(), greyrelease.Query{Text: `up{a="&b"}`, Time: noon})
	if err := os.WriteFile(token, []byte("replaced"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = p.ask(t.Context(), greyrelease.Query{Text: "x", Time: noon})
	want := []string{
		"GET /prom/api/v1/query?limit=2&query=up%7Ba%3D%22%26b%22%7D&time=1796040000&timeout=20s Bearer secret",
		"GET /prom/api/v1/query?limit=2&query=x&time=1796040000&timeout=20s Bearer replaced",
	}
	if strings.Join(want, "\n") != strings.Join(got, "\n") {
		t.Errorf("want %q, got %q", want, got)
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	_, r := p.ask(t.Context(), greyrelease.Query{Text: "x", Time: noon})
	if want := "the service has no token for Prometheus: its operator checks --prometheus-token-file"; r == nil || want != r.text || len(got) != 2 {
		t.Errorf("want %s, got %+v", want, r)
	}
}

// A token goes to the address that the operator named and to no other.
func TestNoRedirectIsFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("want no request elsewhere") }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	_, r := asking(t, server.URL).ask(t.Context(), greyrelease.Query{Text: "up", Time: noon})
	if want := "Prometheus redirects to elsewhere (307), which is not followed: its operator checks --prometheus-url"; r == nil || want != r.text {
		t.Errorf("want %s, got %+v", want, r)
	}
}

func TestPrometheusThatDoesNotAnswer(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	// One that sends its answer byte by byte, for ever.
	dripping := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	}))
	t.Cleanup(dripping.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, row := range []struct{ why, url, outcome, text string }{
		{"silent", slow.URL, outcomeTimeout, "Prometheus gave no answer within 300ms"},
		{"dripping", dripping.URL, outcomeTimeout, "Prometheus gave no answer within 300ms"},
		{"down", "http://" + closed.Addr().String(), outcomeUnreachable, "Prometheus cannot be reached: connection refused"},
	} {
		began := time.Now()
		_, r := asking(t, row.url, "--prometheus-timeout=300ms").ask(t.Context(), greyrelease.Query{Text: "up", Time: noon})
		if r == nil || row.outcome != r.outcome || row.text != r.text {
			t.Errorf("%s: want %s %s, got %+v", row.why, row.outcome, row.text, r)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: want an end within the timeout, it took %s", row.why, took)
		}
	}
}

func TestPrometheusBehindTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, vectorOf, `{"value":[1,"1"]}`)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, r := asking(t, server.URL).ask(t.Context(), greyrelease.Query{Text: "up", Time: noon})
	if want := "Prometheus cannot be reached: its certificate is not trusted (see --prometheus-ca-file)"; r == nil || want != r.text {
		t.Errorf("want %s, got %+v", want, r)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if value, r := asking(t, server.URL, "--prometheus-ca-file="+ca).ask(t.Context(), greyrelease.Query{Text: "up", Time: noon}); value != "1" {
		t.Errorf("want 1, got %+v", r)
	}
}

func TestSettingsOfPrometheus(t *testing.T) {
	for _, row := range []struct{ arg, want string }{
		{"--prometheus-url=prometheus:9090", "prometheus-url must be an address as http://prometheus.monitoring:9090"},
		{"--prometheus-url=ftp://prometheus", "prometheus-url must be an address as http://prometheus.monitoring:9090"},
		{"--prometheus-url=http://me:secret@prometheus", "prometheus-url must not hold a password: use prometheus-token-file"},
		{"--prometheus-url=http://prometheus?a=b", "prometheus-url must end with its path"},
		{"--prometheus-timeout=31s", "prometheus-timeout must be at most 30s"},
		{"--prometheus-timeout=0s", "prometheus-timeout must be more than 0"},
		{"--prometheus-concurrency=0", "prometheus-concurrency must be at least 1"},
	} {
		_, err := parseConfig([]string{row.arg}, func(string) (string, bool) { return "", false })
		if err == nil || row.want != err.Error() {
			t.Errorf("%s: want %s, got %v", row.arg, row.want, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	code := run([]string{"--prometheus-url=http://prometheus:9090", "--prometheus-ca-file=" + empty}, func(string) (string, bool) { return "", false }, &bytes.Buffer{}, &stderr)
	if want := "cannot read --prometheus-ca-file: " + empty + " holds no certificate in PEM"; code != 1 || !strings.Contains(stderr.String(), want) {
		t.Errorf("want 1 and %s, got %d %s", want, code, stderr.String())
	}
}

// measuringOf is a measuring against a Prometheus with a clock of the test's own.
func measuringOf(t *testing.T, url string, concurrency int, clock func() time.Time) (*measuring, *lockedBuffer) {
	t.Helper()
	logs := &lockedBuffer{}
	return newMeasuring(asking(t, url), concurrency, clock, newMetrics(build{}, noon), slog.New(slog.NewJSONHandler(logs, nil))), logs
}

// results waits until the results of a release are there.
func results(t *testing.T, m *measuring, release string, n int) []greyrelease.Measurement {
	t.Helper()
	for range 500 {
		if have := m.have(release); len(have.Finished) == n {
			return have.Finished
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("want %d results, got %+v", n, m.have(release))
	return nil
}

func TestQueriesAreMadeOnceAndBesideTheSync(t *testing.T) {
	var asked atomic.Int64
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-release
		fmt.Fprintf(w, vectorOf, `{"value":[1,"1"]}`)
	}))
	t.Cleanup(server.Close)
	m, _ := measuringOf(t, server.URL, 10, time.Now)
	m.prometheus.timeout = 20 * time.Second
	q := greyrelease.Query{Text: "up", Time: noon}
	began := time.Now()
	for range 5 {
		m.start("shop/web", []greyrelease.Query{q})
		if have := m.have("shop/web"); !have.Available || len(have.Finished) > 0 {
			t.Errorf("want a Prometheus and no result yet, got %+v", have)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("want no wait for an answer, it took %s", took)
	}
	close(release)
	if got := results(t, m, "shop/web", 1)[0]; got.Value != "1" || got.Query != q {
		t.Errorf("want 1 for %+v, got %+v", q, got)
	}
	if asked.Load() != 1 {
		t.Errorf("want one query, got %d", asked.Load())
	}
	if have := m.have("shop/other"); len(have.Finished) > 0 {
		t.Errorf("want nothing for another release, got %+v", have)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	release := make(chan struct{})
	var at, most atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := at.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		<-release
		at.Add(-1)
		fmt.Fprintf(w, vectorOf, `{"value":[1,"1"]}`)
	}))
	t.Cleanup(server.Close)
	m, _ := measuringOf(t, server.URL, 3, time.Now)
	m.prometheus.timeout = 20 * time.Second
	var queries []greyrelease.Query
	for i := range 10 {
		queries = append(queries, greyrelease.Query{Text: fmt.Sprint(i), Time: noon})
	}
	m.start("shop/web", queries)
	close(release)
	results(t, m, "shop/web", 3)
	if most.Load() > 3 {
		t.Errorf("want at most 3 at a time, got %d", most.Load())
	}
	if text := scrape(m.metrics); !strings.Contains(text, "greyrelease_analysis_queries_total{outcome=\"busy\"} 7\n") {
		t.Errorf("want 7 busy ones counted, got\n%s", text)
	}
	m.count = maxResults
	m.start("shop/web", queries)
	if m.count != maxResults || len(m.slots) != 0 {
		t.Errorf("want no more than %d results, got %d", maxResults, m.count)
	}
}

func TestResultsAreForgotten(t *testing.T) {
	now := atomic.Pointer[time.Time]{}
	now.Store(&noon)
	m, _ := measuringOf(t, saying(t, 200, fmt.Sprintf(vectorOf, `{"value":[1,"1"]}`)), 3, func() time.Time { return *now.Load() })
	m.start("shop/web", []greyrelease.Query{{Text: "up", Time: noon}})
	results(t, m, "shop/web", 1)
	later := noon.Add(keptFor + 2*time.Second)
	now.Store(&later)
	m.start("shop/other", []greyrelease.Query{{Text: "up", Time: later}})
	results(t, m, "shop/other", 1)
	if len(m.have("shop/web").Finished) > 0 || m.count != 1 {
		t.Errorf("want the old result forgotten, got %+v, %d", m.have("shop/web"), m.count)
	}
}

// What is wrong with Prometheus is told to its operator, once a minute. What is wrong
// with queries is told to users.
func TestLogOfQueries(t *testing.T) {
	m, logs := measuringOf(t, saying(t, 401, ""), 3, func() time.Time { return noon })
	for i := range 3 {
		m.start("shop/web", []greyrelease.Query{{Text: "up{secret}", Time: noon.Add(time.Duration(i) * time.Second)}})
	}
	results(t, m, "shop/web", 3)
	if text := logs.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"outcome":"unauthorized"`) || strings.Contains(text, "secret") {
		t.Errorf("want one line without the query, got %s", text)
	}
	m, logs = measuringOf(t, saying(t, 400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), 3, time.Now)
	m.start("shop/web", []greyrelease.Query{{Text: "up", Time: noon}})
	results(t, m, "shop/web", 1)
	if logs.String() != "" {
		t.Errorf("want no line, got %s", logs.String())
	}
}

// A service without a Prometheus says so, and starts nothing.
func TestWithoutPrometheus(t *testing.T) {
	p, err := newPrometheus(&config{})
	if p != nil || err != nil {
		t.Errorf("want none, got %v %v", p, err)
	}
	m := newMeasuring(nil, 1, time.Now, nil, nil)
	m.start("shop/web", []greyrelease.Query{{Text: "up", Time: noon}})
	if have := m.have("shop/web"); have.Available || len(have.Finished) > 0 {
		t.Errorf("want nothing, got %+v", have)
	}
}

// A query ends with what it is for.
func TestAnEndedContextEndsAQuery(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, r := asking(t, saying(t, 200, "")).ask(ctx, greyrelease.Query{Text: "up", Time: noon}); r == nil {
		t.Error("want no answer")
	}
}
