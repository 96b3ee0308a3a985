package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
)

// limits bounds what all requests together may take. There is no queue without
// an end: who finds no room is told to come again.
//
// A request is charged for memory as its bytes arrive, not for what it
// announces, and takes its turn only when all of it is there. Who sends slowly
// or announces much holds nothing that others need but a connection, and that
// until the read timeout.
type limits struct {
	maxBody     int64
	maxBuffered int64
	buffered    atomic.Int64

	// turns is a place for each request that is decided or waits for that.
	turns chan struct{}
	// running is a place for each request that is decided. Deciding is nothing
	// but computing: more at a time than there are processors would only need
	// more memory and make all of them late together.
	running chan struct{}
}

func newLimits(c *config) *limits {
	return &limits{
		maxBody:     c.maxBody,
		maxBuffered: c.maxBuffered,
		turns:       make(chan struct{}, c.maxConcurrent),
		running:     make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
}

// What a request can run into, as values of a metric's label.
const (
	limitBody        = "body"
	limitBuffered    = "buffered"
	limitConcurrent  = "concurrent"
	limitEncoding    = "encoding"
	limitReadTimeout = "read_timeout"
)

// limitError says that a request was refused unread or undecided.
type limitError struct {
	code   int
	limit  string
	reason string
}

func (e *limitError) Error() string { return e.reason }

// buffer holds the body of one request and the memory charged for it.
type buffer struct {
	limits  *limits
	bytes   []byte
	charged int64
}

// release gives the memory back. It may be called more than once.
func (b *buffer) release() {
	b.bytes = nil
	b.limits.buffered.Add(-b.charged)
	b.charged = 0
}

// grow makes room for more bytes: a piece of the usual size first, then twice as
// many as before, at most most.
func (b *buffer) grow(most int64) error {
	// A request is 30 KB most times.
	const usual = 64 << 10
	size := min(max(usual, 2*b.charged), most)
	more := size - b.charged
	if b.limits.buffered.Add(more) > b.limits.maxBuffered {
		b.limits.buffered.Add(-more)
		return &limitError{http.StatusTooManyRequests, limitBuffered,
			fmt.Sprintf("requests of %d bytes are being handled (--max-buffered), try again later", b.limits.maxBuffered)}
	}
	b.charged = size
	grown := make([]byte, len(b.bytes), size)
	copy(grown, b.bytes)
	b.bytes = grown
	return nil
}

// read takes the body of a request into memory. The buffer is to be released
// also on an error.
func (l *limits) read(w http.ResponseWriter, r *http.Request) (*buffer, error) {
	b := &buffer{limits: l}
	if r.ContentLength > l.maxBody {
		return b, l.tooLarge()
	}
	// Nothing is unpacked here, so that no small body becomes a large one.
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return b, &limitError{http.StatusUnsupportedMediaType, limitEncoding,
			fmt.Sprintf("content encoding %.40q is not supported, send plain JSON", encoding)}
	}
	// One byte more than will come is what it takes to see the end.
	most := l.maxBody + 1
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1
	}
	body := http.MaxBytesReader(w, r.Body, l.maxBody)
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(most); err != nil {
				return b, err
			}
		}
		n, err := body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, l.readError(err)
		}
	}
}

func (l *limits) readError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return l.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &limitError{http.StatusRequestTimeout, limitReadTimeout,
			"the request did not arrive in time (--read-timeout)"}
	}
	return &readError{err}
}

func (l *limits) tooLarge() error {
	return &limitError{http.StatusRequestEntityTooLarge, limitBody,
		fmt.Sprintf("the request is larger than %d bytes (--max-body)", l.maxBody)}
}

// readError says that the connection broke while a body was read.
type readError struct {
	err error
}

func (e *readError) Error() string { return fmt.Sprintf("cannot read the request: %s", e.err) }

// enter waits for a processor and returns how to give it back. Waiting ends
// when the caller has gone.
func (l *limits) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.turns <- struct{}{}:
	default:
		return nil, &limitError{http.StatusTooManyRequests, limitConcurrent,
			fmt.Sprintf("%d requests are being handled (--max-concurrent), try again later", cap(l.turns))}
	}
	select {
	case l.running <- struct{}{}:
		return func() { <-l.running; <-l.turns }, nil
	case <-ctx.Done():
		<-l.turns
		return nil, &readError{ctx.Err()}
	}
}
