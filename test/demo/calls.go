package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
)

// calls are the calls of the service. It reads the real clock, and the cluster
// has a virtual one, so every instant in a request is moved to where it lies as
// seen from the service, and every one in the answer back: what was written 30
// virtual seconds ago comes to the service as written 30 seconds ago.
type calls struct {
	send    sim.Hook
	count   int
	slowest time.Duration
	// failure is the first call that was not answered as it should be.
	failure error
}

func newCalls(url string) *calls {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	return &calls{send: sim.HTTP(client, url+"/sync")}
}

// hook is what the cluster calls.
func (c *calls) hook(body []byte, virtual time.Time) (sim.Reply, error) {
	// The service cuts its clock to seconds, and both must mean the same one.
	const margin = 50 * time.Millisecond
	real := time.Now()
	if left := real.Truncate(time.Second).Add(time.Second).Sub(real); left < margin {
		time.Sleep(left)
		real = time.Now()
	}
	ahead := real.Truncate(time.Second).Sub(virtual.Truncate(time.Second))

	reply, err := c.send(move(body, ahead), virtual)
	c.count++
	c.slowest = max(c.slowest, time.Since(real))
	switch {
	case err != nil:
		c.fail(fmt.Errorf("cannot call the service: %w", err))
	case reply.Status != http.StatusOK && reply.Status != http.StatusTooManyRequests:
		c.fail(fmt.Errorf("the service answered %d: %s", reply.Status, strings.TrimSpace(string(reply.Body))))
	}
	reply.Body = move(reply.Body, -ahead)
	return reply, err
}

func (c *calls) fail(err error) {
	if c.failure == nil {
		c.failure = err
	}
}

var instant = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z`)

// move moves every instant in a text.
func move(text []byte, by time.Duration) []byte {
	return instant.ReplaceAllFunc(text, func(old []byte) []byte {
		at, err := time.Parse(time.RFC3339, string(old))
		if err != nil {
			return old
		}
		return at.Add(by).AppendFormat(nil, time.RFC3339)
	})
}
