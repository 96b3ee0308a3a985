package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
)

// hook is a webhook of a CompositeController.
type hook struct {
	Version string `json:"version"`
	Webhook struct {
		URL     string           `json:"url"`
		Path    string           `json:"path"`
		Timeout *metav1.Duration `json:"timeout"`
		Service *struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
			Port      *int32 `json:"port"`
			Protocol  string `json:"protocol"`
		} `json:"service"`
		ResponseUnMarshallMode string `json:"responseUnMarshallMode"`
		Etag                   struct {
			Enabled bool `json:"enabled"`
		} `json:"etag"`
		BasicAuth any `json:"basicAuth"`
		endpoint  `json:",inline"`
	} `json:"webhook"`

	// What connect has read: nil for the default transport, and the header that goes
	// with each call, "" for none. The converter writes to all fields, so they are
	// exported.
	Through http.RoundTripper `json:"-"`
	Header  string            `json:"-"`
}

// The versions of hooks. Under the first, objects are named relative to the parent
// and what an answer has too much is passed over.
const (
	v1 = "v1"
	v2 = "v2"
)

// tooManyRequests is an answer with status 429.
type tooManyRequests struct{ after time.Duration }

func (e *tooManyRequests) Error() string {
	return fmt.Sprintf("too many requests, retry after %v", e.after)
}

func (h *hook) version() string {
	if h.Version == "" {
		return v1
	}
	return h.Version
}

// strict tells whether unknown and duplicate fields in an answer are errors, and
// how that mode is called.
func (h *hook) strict() (string, bool) {
	mode := h.Webhook.ResponseUnMarshallMode
	if mode == "" {
		mode = "loose"
		if h.version() == v2 {
			mode = "strict"
		}
	}
	return mode, mode == "strict"
}

// check refuses what cannot be called, and what the double does not do.
func (h *hook) check() error {
	w := h.Webhook
	switch {
	case w.Etag.Enabled:
		return errors.New("the double has no etags")
	case w.BasicAuth != nil:
		return errors.New("the double has no basicAuth")
	}
	_, err := h.address()
	return err
}

func (h *hook) address() (string, error) {
	w := h.Webhook
	switch {
	case w.URL != "":
		return w.URL, nil
	case w.Service == nil || w.Path == "":
		return "", errors.New("invalid webhook config: must specify either a full 'url', or both 'service' and 'path'")
	case w.Service.Name == "" || w.Service.Namespace == "":
		return "", errors.New("invalid webhook config: 'service' must specify both 'name' and 'namespace'")
	}
	protocol, port := w.Service.Protocol, int32(80)
	if protocol == "" {
		protocol = "http"
	}
	if w.Service.Port != nil {
		port = *w.Service.Port
	}
	return fmt.Sprintf("%s://%s.%s:%d%s", protocol, w.Service.Name, w.Service.Namespace, port, w.Path), nil
}

// timeout is the limit of a whole call.
func (h *hook) timeout() time.Duration {
	if t := h.Webhook.Timeout; t != nil && t.Duration > 0 {
		return t.Duration
	}
	return 10 * time.Second
}

// call posts a request and decodes the answer. what names the hook in errors.
func (h *hook) call(ctx context.Context, what string, request, into any) error {
	url, err := h.address()
	if err != nil {
		return err
	}
	body, err := utiljson.Marshal(request)
	if err != nil {
		return fmt.Errorf("can't marshal request: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/json")
	if h.Header != "" {
		post.Header.Set("Authorization", h.Header)
	}
	through := h.Through
	if through == nil {
		through = http.DefaultTransport
	}
	client := http.Client{Timeout: h.timeout(), Transport: transport{through}}
	response, err := client.Do(post)
	if err != nil {
		return fmt.Errorf("http error: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusTooManyRequests {
		return &tooManyRequests{retryAfter(response.Header.Get("Retry-After"), time.Now())}
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("can't read response body: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("unsupported status code: %d body: %s", response.StatusCode, text)
	}
	strictErrors, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return fmt.Errorf("can't unmarshal webhookResponse (version: %s, type: %s): %w", h.version(), what, err)
	}
	if mode, strict := h.strict(); strict && len(strictErrors) > 0 {
		return fmt.Errorf("strict validation failed for %s webhookResponse (type: %s, mode: %s): %w", h.version(), what, mode, utilerrors.NewAggregate(strictErrors))
	}
	return nil
}

// transport is net/http's own without net/http knowing: as in the original, which
// measures calls, a call that takes too long is then ended in two ways at once, and
// chance decides in which words it is told.
type transport struct{ through http.RoundTripper }

// RoundTrip carries out a request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.through.RoundTrip(r)
}

// retryAfter reads the header: seconds, or a date. What is neither counts as 0.
func retryAfter(header string, now time.Time) time.Duration {
	if at, err := time.Parse(time.RFC1123, header); err == nil {
		return time.Duration(math.Ceil(at.Sub(now).Seconds())) * time.Second
	}
	seconds, err := strconv.Atoi(header)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
