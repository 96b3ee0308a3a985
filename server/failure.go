package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/greyrelease"
)

// failure is an answer that is no success. Metacontroller shows the line to
// users in an event, except of a 429.
type failure struct {
	code int
	// retryAfter is for a 429.
	retryAfter time.Duration
	line       string
}

func (f failure) write(w http.ResponseWriter) int {
	if f.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.FormatInt(wholeSeconds(f.retryAfter), 10))
	}
	return writeLine(w, f.code, oneLine(f.line))
}

// wholeSeconds rounds up, to at least 1: with a Retry-After of 0 Metacontroller
// would ask again at once.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// oneLine makes a text fit an event: no line breaks and no other control
// characters, and at most 1000 bytes, where the API server takes 1024.
func oneLine(text string) string {
	const most = 1000
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("...")], "") + "..."
	}
	return text
}

// panicError says that a hook panicked.
type panicError struct {
	hook  string
	value any
	stack []byte
}

// Error is for users; what happened exactly is for the log.
func (e *panicError) Error() string {
	return fmt.Sprintf("the %s hook panicked, its log has the details; this is a bug of the hook", e.hook)
}

// report counts an error, logs it and says how to answer.
//
// What callers bring upon themselves by the limits is counted and logged for
// debugging only: a flood of requests must not become a flood of log lines. Of calls
// by those who may not the log has one line in a minute: it may be Metacontroller.
func (s *service) report(hook, subject string, err error) failure {
	var (
		caller *callerError
		limit  *limitError
		broken *readError
		bad    *composite.BadRequestError
		retry  *composite.RetryError
		breach *greyrelease.InvariantError
		panics *panicError
	)
	log := s.log.With("hook", hook, "error", oneLine(err.Error()))
	if subject != "" {
		log = log.With("release", subject)
	}
	f := failure{code: http.StatusInternalServerError, line: err.Error()}
	switch {
	case errors.As(err, &caller):
		f.code = http.StatusUnauthorized
		if others, may := s.refused.now(s.clock()); may {
			log.Warn("call refused", "code", f.code, "others", others)
		}
		return f
	case errors.As(err, &limit):
		s.metrics.rejected.add(1, limit.limit)
		f.code = limit.code
		log.Debug("request refused", "code", f.code)
		return f
	case errors.As(err, &broken):
		f.code = http.StatusBadRequest
		log.Debug("request refused", "code", f.code)
		return f
	case errors.As(err, &retry):
		f.code, f.retryAfter = http.StatusTooManyRequests, retry.After
		log.Info("request to be sent again", "code", f.code, "after", wholeSeconds(f.retryAfter))
		return f
	case errors.As(err, &bad):
		f.code = http.StatusBadRequest
	case errors.As(err, &breach):
		s.metrics.breaches.add(1)
	case errors.As(err, &panics):
		s.metrics.panics.add(1)
		log = log.With("panic", fmt.Sprint(panics.value), "stack", string(panics.stack))
	}
	if f.code < http.StatusInternalServerError {
		log.Warn("request failed", "code", f.code)
		return f
	}
	log.Error("request failed", "code", f.code)
	return f
}
