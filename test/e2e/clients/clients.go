// Package clients sends requests at a constant rate, and says what came of each.
package clients

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"greyrelease.example.com/test/e2e/podserver"
)

// Kind is how a request was sent.
type Kind string

const (
	// Fresh: on a new connection.
	Fresh Kind = "new connection"
	// Kept: on a connection that is kept open.
	Kept Kind = "keep-alive"
	// Slow: as Fresh, and it takes long to answer.
	Slow Kind = "slow"
	// Marked: as Kept, with the headers that choose the new version.
	Marked Kind = "with the header"
)

// Load says what to send.
type Load struct {
	URL  string
	Host string
	// Rate is how many requests of kinds Fresh and Kept are sent each second in all,
	// half of each kind. If answers are late fewer are sent, never more.
	Rate int
	// Headers of the kind Marked. A tenth of the rate is sent of it, none without.
	Headers map[string]string
	// Most is after how long it ends by itself.
	Most time.Duration
}

// Result is what came of a request.
type Result struct {
	Kind    Kind
	At      time.Time // when it was sent
	Took    time.Duration
	Version string // of the pod that answered
	Pod     string
	Set     string // the cookies that the answer set
	Failure string // "" for an answer of 200
}

// Clients are sending.
type Clients struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	results []Result
}

// perClient is how many requests a second a client sends. Answers slower than its
// period of 100 ms make it late.
const perClient = 10

// Start begins to send. It goes on until Stop.
func Start(ctx context.Context, load Load) *Clients {
	ctx, cancel := context.WithTimeout(ctx, load.Most)
	c := &Clients{cancel: cancel}
	n := max(1, load.Rate/perClient/2)
	for i := range n {
		c.run(ctx, load, Fresh, i)
		c.run(ctx, load, Kept, i)
	}
	c.run(ctx, load, Slow, 0)
	if len(load.Headers) > 0 {
		for i := range max(1, n/5) {
			c.run(ctx, load, Marked, i)
		}
	}
	return c
}

// run sends requests of a kind, one after the other. Clients of one kind begin one
// after the other within a period.
func (c *Clients) run(ctx context.Context, load Load, kind Kind, i int) {
	period := time.Second / perClient
	url := load.URL + "/"
	if kind == Slow {
		url += "slow?ms=700"
		period = time.Second
	}
	c.done.Go(func() {
		transport := &http.Transport{DisableKeepAlives: kind == Fresh || kind == Slow, MaxConnsPerHost: 1}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
		select {
		case <-time.After(time.Duration(i*37) * time.Millisecond % period):
		case <-ctx.Done():
		}
		ticks := time.NewTicker(period)
		defer ticks.Stop()
		for ctx.Err() == nil {
			r := send(client, url, "", kind, load)
			c.mu.Lock()
			c.results = append(c.results, r)
			c.mu.Unlock()
			select {
			case <-ticks.C:
			case <-ctx.Done():
			}
		}
	})
}

// send sends a POST, because net/http tries a GET again on its own when a kept
// connection ends in the place of an answer.
func send(client *http.Client, url, cookie string, kind Kind, load Load) Result {
	r := Result{Kind: kind, At: time.Now()}
	request, err := http.NewRequest(http.MethodPost, url, http.NoBody)
	if err != nil {
		r.Failure = err.Error()
		return r
	}
	request.Host = load.Host
	if cookie != "" {
		request.Header.Set("Cookie", cookie)
	}
	if kind == Marked {
		for name, value := range load.Headers {
			request.Header.Set(name, value)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		r.Failure = err.Error()
		return r
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	r.Took = time.Since(r.At)
	r.Version, r.Pod = response.Header.Get(podserver.VersionHeader), response.Header.Get(podserver.PodHeader)
	r.Set = response.Header.Get("Set-Cookie")
	switch {
	case err != nil:
		r.Failure = err.Error()
	case response.StatusCode != http.StatusOK:
		r.Failure = fmt.Sprintf("%s: %.100s", response.Status, body)
	}
	return r
}

// Stop ends the load, and returns the results in the order in which the requests
// were sent.
func (c *Clients) Stop() []Result {
	c.cancel()
	c.done.Wait()
	return c.Results()
}

// Results are those so far.
func (c *Clients) Results() []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := slices.Clone(c.results)
	slices.SortStableFunc(results, func(a, b Result) int { return a.At.Compare(b.At) })
	return results
}

// Ask sends one request on a new connection, with a cookie or "".
func Ask(url, cookie string) Result {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	return send(client, url, cookie, Fresh, Load{})
}
