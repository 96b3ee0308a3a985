package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestCall(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		status  int
		header  string
		body    string
		want    string // part of the error; "" for none
		after   time.Duration
	}{
		"fine":                     {"v2", 200, "", `{"status":{"phase":"Healthy"},"children":[]}`, "", 0},
		"unknown field, strict":    {"v2", 200, "", `{"children":[],"extra":1}`, `unknown field "extra"`, 0},
		"unknown field, loose":     {"v1", 200, "", `{"children":[],"extra":1}`, "", 0},
		"twice the same, strict":   {"v2", 200, "", `{"children":[],"children":[]}`, `duplicate field "children"`, 0},
		"no JSON":                  {"v2", 200, "", `oops`, "can't unmarshal webhookResponse", 0},
		"an error tells its body":  {"v2", 500, "", "invariant I4 is broken", "unsupported status code: 500 body: invariant I4 is broken", 0},
		"created is no success":    {"v2", 201, "", `{}`, "unsupported status code: 201", 0},
		"busy for some seconds":    {"v2", 429, "7", "", "too many requests", 7 * time.Second},
		"busy without a time":      {"v2", 429, "", "", "too many requests", 0},
		"busy until a date passed": {"v2", 429, "Mon, 02 Jan 2006 15:04:05 GMT", "", "too many requests", -1},
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
			h := &hook{Version: c.version}
			h.Webhook.URL = server.URL
			var a answer
			err := h.call(t.Context(), map[string]any{}, &a)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
				t.Errorf("want error with %q, got %q", c.want, got)
			}
			var busy *tooManyRequests
			if errors.As(err, &busy) != (c.status == 429) {
				t.Fatalf("want too many requests at 429 only, got %v", err)
			}
			if busy != nil && (c.after >= 0 && busy.after != c.after || c.after < 0 && busy.after >= 0) {
				t.Errorf("want to come back after %v, got %v", c.after, busy.after)
			}
		})
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
		Port      int32  `json:"port"`
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
