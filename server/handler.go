package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"greyrelease.example.com/hooks/greyrelease"
)

// service answers HTTP requests with a hook.
type service struct {
	hook    hook
	clock   func() time.Time
	callers *callers
	// recorder is nil unless calls are recorded.
	recorder *recorder
	limits   *limits
	metrics  *metrics
	log      *slog.Logger
	// draining is set from the order to stop until the process ends.
	draining atomic.Bool
	// refused are calls of those who may not.
	refused seldom
}

func newService(c *config, h hook, clock func() time.Time, m *metrics, log *slog.Logger) *service {
	return &service{hook: h, clock: clock, callers: &callers{}, limits: newLimits(c), metrics: m, log: log}
}

// secure reads the certificates and tokens that callers are to show, and are shown.
func (s *service) secure(c *config) error {
	t, err := newTransport(c, s.clock, s.log)
	if err != nil {
		return err
	}
	s.callers, err = newCallers(c, t, s.clock, s.log)
	return err
}

// routes is the handler of --listen.
func (s *service) routes() http.Handler {
	r := chi.NewRouter()
	r.Handle("/sync", s.handle("sync", s.hook.sync))
	r.Handle("/customize", s.handle("customize", s.hook.customize))
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { writeLine(w, http.StatusOK, "ok") })
	r.Get("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.draining.Load() {
			writeLine(w, http.StatusServiceUnavailable, "shutting down")
			return
		}
		writeLine(w, http.StatusOK, "ok")
	})
	return r
}

// handle limits, decodes, calls, encodes, and counts.
func (s *service) handle(name string, decide call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		if s.draining.Load() {
			// The caller's next request goes to another replica, without running
			// into a connection that is being closed.
			w.Header().Set("Connection", "close")
		}
		if err := s.callers.check(r); err != nil {
			// Nobody who may not call learns more, and a caller whose certificate is not
			// trusted any more gets a new handshake.
			w.Header().Set("Connection", "close")
			w.Header().Set("WWW-Authenticate", "Bearer")
			s.report(name, "", err).write(w)
			s.metrics.requests.add(1, name, strconv.Itoa(http.StatusUnauthorized))
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			writeLine(w, http.StatusMethodNotAllowed, fmt.Sprintf("method %.20q is not allowed, use POST", r.Method))
			s.metrics.requests.add(1, name, strconv.Itoa(http.StatusMethodNotAllowed))
			return
		}
		body, err := s.limits.read(w, r)
		defer body.release()
		received := len(body.bytes)
		var got answer
		if err == nil {
			err = s.call(r, name, decide, body.bytes, &got)
		}
		code, sent := http.StatusOK, len(got.body)
		var failed *failure
		if err != nil {
			f := s.report(name, got.subject, err)
			code, sent, failed = f.code, f.write(w), &f
		} else {
			s.logTransitions(got.transitions)
			writeJSON(w, got.body)
		}
		if s.recorder != nil && !got.now.IsZero() {
			// Not what a limit has refused: nothing was decided. Nobody waits for the file.
			_ = http.NewResponseController(w).Flush()
			s.recorder.record(name, body.bytes, &got, failed)
		}
		s.metrics.requests.add(1, name, strconv.Itoa(code))
		s.metrics.duration.observe(time.Since(started).Seconds(), name)
		s.metrics.requestSize.observe(float64(received), name)
		s.metrics.responseSize.observe(float64(sent), name)
	}
}

// call calls the hook when there is room. A panic of the hook ends in an error
// of this one request.
func (s *service) call(r *http.Request, name string, decide call, body []byte, out *answer) (err error) {
	leave, err := s.limits.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{hook: name, value: value, stack: debug.Stack()}
		}
	}()
	out.now = s.clock().UTC().Truncate(time.Second)
	return decide(body, out.now, out)
}

// reverted is the cause of a rollback without a failure: the spec was set back
// to the stable revision in the middle of a release.
const reverted = "Reverted"

// logTransitions writes a line for each. A hook holds no state: where an
// answer is lost, the same transition is decided, logged and counted again.
func (s *service) logTransitions(transitions []greyrelease.Transition) {
	for _, t := range transitions {
		from, to := string(t.From), string(t.To)
		what := "batch"
		if from != to {
			what = "transition"
			s.metrics.transitions.add(1, from, to)
			if t.To == greyrelease.PhaseRollingBack {
				s.metrics.rollbacks.add(1, cmp.Or(t.Reason, reverted))
			}
		}
		s.log.Info(what, "namespace", t.Namespace, "name", t.Name, "revision", t.Revision,
			"version", t.Version, "stable", t.Stable, "from", from, "to", to, "batch", t.Batch,
			"pods", fmt.Sprintf("%d/%d", t.Updated, t.Replicas), "reason", t.Reason)
	}
}

// writeJSON sends the answer of a hook. Whoever does not wait for it any more
// is no concern of the service: nothing of it was kept.
func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
}

// writeLine sends one line of text and returns how many bytes that is.
func writeLine(w http.ResponseWriter, code int, line string) int {
	line += "\n"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	n, _ := w.Write([]byte(line))
	return n
}
