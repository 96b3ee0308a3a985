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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
)

// hook is where a webhook is.
type hook struct {
	Version string `json:"version"`
	Webhook struct {
		URL     string           `json:"url"`
		Path    string           `json:"path"`
		Timeout *metav1.Duration `json:"timeout"`
		Service *struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
			Port      int32  `json:"port"`
			Protocol  string `json:"protocol"`
		} `json:"service"`
	} `json:"webhook"`
}

// answer is what the sync hook says.
type answer struct {
	Status             map[string]any               `json:"status"`
	Children           []*unstructured.Unstructured `json:"children"`
	ResyncAfterSeconds float64                      `json:"resyncAfterSeconds"`
	Finalized          bool                         `json:"finalized"`
}

// tooManyRequests is an answer with status 429.
type tooManyRequests struct{ after time.Duration }

func (e *tooManyRequests) Error() string {
	return fmt.Sprintf("too many requests, retry after %v", e.after)
}

// ask sends a sync request.
func (c *controller) ask(ctx context.Context, parent *unstructured.Unstructured, observed, related objects) (*answer, error) {
	request := map[string]any{
		"controller": c.raw.Object,
		"parent":     parent.Object,
		"children":   c.groups(observed),
		"related":    c.groups(related),
		"finalizing": false,
	}
	var a answer
	if err := c.composite.Spec.Hooks.Sync.call(ctx, request, &a); err != nil {
		return nil, err
	}
	return &a, nil
}

// groups names groups and objects as a hook of this version expects it.
func (c *controller) groups(list objects) map[string]any {
	groups := map[string]any{}
	for gvk, members := range list {
		group := map[string]any{}
		for key, obj := range members {
			if c.composite.Spec.Hooks.Sync.Version != "v2" {
				key = obj.GetName()
			}
			group[key] = obj.Object
		}
		groups[kind{GroupVersionKind: gvk}.groupKey()] = group
	}
	return groups
}

func (h *hook) address() (string, error) {
	w := h.Webhook
	if w.URL != "" {
		return w.URL, nil
	}
	if w.Service == nil || w.Path == "" || w.Service.Name == "" || w.Service.Namespace == "" {
		return "", errors.New("invalid webhook config: must specify either a full 'url', or both 'service' and 'path'")
	}
	protocol, port := w.Service.Protocol, w.Service.Port
	if protocol == "" {
		protocol = "http"
	}
	if port == 0 {
		port = 80
	}
	return fmt.Sprintf("%s://%s.%s:%d%s", protocol, w.Service.Name, w.Service.Namespace, port, w.Path), nil
}

// call posts a request and decodes the answer, strictly under version v2.
func (h *hook) call(ctx context.Context, request, into any) error {
	url, err := h.address()
	if err != nil {
		return err
	}
	timeout := 10 * time.Second
	if h.Webhook.Timeout != nil && h.Webhook.Timeout.Duration > 0 {
		timeout = h.Webhook.Timeout.Duration
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := utiljson.Marshal(request)
	if err != nil {
		return fmt.Errorf("can't marshal request: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(post)
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
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return fmt.Errorf("can't unmarshal webhookResponse: %w", err)
	}
	if h.Version == "v2" && len(strict) > 0 {
		return fmt.Errorf("strict validation failed for webhookResponse: %w", utilerrors.NewAggregate(strict))
	}
	return nil
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
