package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Profiles are on a listener of their own, off by default, and on no other.
func TestDebugIsOnItsOwnListener(t *testing.T) {
	get := func(url string) (int, string) {
		t.Helper()
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	r := runServe(t, echo(), "--debug-listen=127.0.0.1:0", "--drain-delay=0s")
	for _, url := range []string{r.url, strings.TrimSuffix(r.metricsURL, "/metrics")} {
		if code, _ := get(url + "/debug/pprof/"); code != 404 {
			t.Errorf("%s: want no profiles, got %d", url, code)
		}
	}
	lines := r.lines(t)
	if len(lines) != 1 || lines[0]["msg"] != "debugging" {
		t.Fatalf("want a line that says where, got %v", lines)
	}
	url := "http://" + sprint(lines[0]["listen"])
	for path, want := range map[string]string{"": "heap", "goroutine?debug=1": "goroutine profile", "cmdline": "test"} {
		if code, text := get(url + "/debug/pprof/" + path); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: want 200 with %q, got %d %.100s", path, want, code, text)
		}
	}
	if code, _ := get(url + "/sync"); code != 404 {
		t.Errorf("want no hooks where profiles are, got %d", code)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	off := runServe(t, echo(), "--drain-delay=0s")
	if lines := off.lines(t); len(lines) != 0 {
		t.Errorf("want no debugging by default, got %v", lines)
	}
	off.stop()
	if err := <-off.ended; err != nil {
		t.Error(err)
	}
}
