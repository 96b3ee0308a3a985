package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hookAt is a hook of a version with an address.
func hookAt(version, url string) *hook {
	h := &hook{Version: version}
	h.Webhook.URL = url
	return h
}

func TestCall(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		status  int
		header  string
		body    string
		want    string // the error; "" for none
		after   time.Duration
	}{
		"fine":                    {v2, 200, "", `{"status":{"phase":"Healthy"},"children":[]}`, "", 0},
		"unknown field, strict":   {v2, 200, "", `{"children":[],"extra":1}`, `strict validation failed for v2 webhookResponse (type: sync, mode: strict): unknown field "extra"`, 0},
		"unknown field, loose":    {v1, 200, "", `{"children":[],"extra":1}`, "", 0},
		"no version is the first": {"", 200, "", `{"children":[],"extra":1}`, "", 0},
		"twice the same, strict":  {v2, 200, "", `{"children":[],"children":[]}`, `strict validation failed for v2 webhookResponse (type: sync, mode: strict): duplicate field "children"`, 0},
		"no JSON":                 {v2, 200, "", `oops`, "can't unmarshal webhookResponse (version: v2, type: sync): invalid character 'o' looking for beginning of value", 0},
		"nothing":                 {"", 200, "", ``, "can't unmarshal webhookResponse (version: v1, type: sync): unexpected end of JSON input", 0},
		"an error tells its body": {v2, 500, "", "invariant I4 is broken", "unsupported status code: 500 body: invariant I4 is broken", 0},
		"created is no success":   {v2, 201, "", `{}`, "unsupported status code: 201 body: {}", 0},
		"busy for some seconds":   {v2, 429, "7", "", "too many requests, retry after 7s", 7 * time.Second},
		"busy without a time":     {v2, 429, "", "", "too many requests, retry after 0s", 0},
		"busy until a date":       {v2, 429, "Mon, 02 Jan 2106 15:04:05 GMT", "", "", 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer server.Close()
			var a answer
			err := hookAt(c.version, server.URL).call(t.Context(), "sync", map[string]any{}, &a)
			var busy *tooManyRequests
			if errors.As(err, &busy) != (c.status == 429) {
				t.Fatalf("want too many requests at 429 only, got %v", err)
			}
			if busy != nil && c.want == "" { // a date far away
				if busy.after < c.after {
					t.Errorf("want to come back after %v at least, got %v", c.after, busy.after)
				}
				return
			}
			if got := text(err); got != c.want {
				t.Errorf("want error %q, got %q", c.want, got)
			}
			if busy != nil && busy.after != c.after {
				t.Errorf("want to come back after %v, got %v", c.after, busy.after)
			}
		})
	}
}

// text is the text of an error, "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestUnmarshalMode(t *testing.T) {
	for _, c := range []struct{ version, mode, want string }{
		{v1, "", "loose"}, {v2, "", "strict"}, {"", "", "loose"}, {v1, "strict", "strict"}, {v2, "loose", "loose"},
	} {
		h := &hook{Version: c.version}
		h.Webhook.ResponseUnMarshallMode = c.mode
		if got, strict := h.strict(); got != c.want || strict != (c.want == "strict") {
			t.Errorf("version %q, mode %q: want %s, got %s, %v", c.version, c.mode, c.want, got, strict)
		}
	}
}

// TestTimeout: a hook that took too long is told in words of the original.
func TestTimeout(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	defer server.Close()
	defer close(ended)
	h := hookAt(v2, server.URL)
	if got := h.timeout(); got != 10*time.Second {
		t.Errorf("want 10s by default, got %v", got)
	}
	h.Webhook.Timeout = &metav1.Duration{Duration: 20 * time.Millisecond}
	err := h.call(t.Context(), "sync", map[string]any{}, &answer{})
	// Its end is reached in two ways at the same time.
	ways := []string{
		"context deadline exceeded", "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
		"net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
	}
	if way, ok := strings.CutPrefix(text(err), fmt.Sprintf("http error: Post %q: ", server.URL)); !ok || !slices.Contains(ways, way) {
		t.Errorf("want the end of the time in one of %q, got %q", ways, text(err))
	}
	h.Webhook.Timeout.Duration = -time.Second
	if got := h.timeout(); got != 10*time.Second {
		t.Errorf("want 10s in the place of what is none, got %v", got)
	}
}

func TestAddress(t *testing.T) {
	h := &hook{}
	h.Webhook.Path = "/sync"
	if _, err := h.address(); err == nil {
		t.Error("want an error without a service")
	}
	h.Webhook.Service = &struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Port      *int32 `json:"port"`
		Protocol  string `json:"protocol"`
	}{Name: "hook", Namespace: "system"}
	if got, err := h.address(); got != "http://hook.system:80/sync" || err != nil {
		t.Errorf("want http://hook.system:80/sync, got %s, %v", got, err)
	}
	h.Webhook.URL = "http://127.0.0.1:1/x"
	if got, err := h.address(); got != "http://127.0.0.1:1/x" || err != nil {
		t.Errorf("want the URL to win, got %s, %v", got, err)
	}
}
