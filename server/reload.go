package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// lookEvery is how long what was read from files is taken to be still in them.
// Kubernetes itself takes up to a minute to bring a changed Secret to a pod.
const lookEvery = time.Second

// reloaded is a value made of files, which is made anew when they change.
//
// Kubernetes changes the files of a mounted Secret all at once, by a symbolic link
// to another folder, so their content is compared, when the value is needed, and
// nothing is watched. Files of which no value can be made leave it as it was.
type reloaded[T any] struct {
	what  string
	paths []string
	parse func(contents [][]byte) (T, error)
	clock func() time.Time
	log   *slog.Logger

	mu     sync.Mutex
	looked time.Time
	// seen is what the files held when a value was last made of them, or tried.
	seen [][]byte
	// told is the error that the log has, "" after a success.
	told  string
	value T
}

// newReloaded reads the files for the first time. Then an error is the caller's.
func newReloaded[T any](what string, paths []string, parse func([][]byte) (T, error), clock func() time.Time, log *slog.Logger) (*reloaded[T], error) {
	r := &reloaded[T]{what: what, paths: paths, parse: parse, clock: clock, log: log, looked: clock()}
	contents, err := r.read()
	if err == nil {
		r.value, err = parse(contents)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load %s: %w", what, err)
	}
	r.seen = contents
	return r, nil
}

// get returns the value.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock(); now.Sub(r.looked) >= lookEvery {
		r.looked = now
		r.look()
	}
	return r.value
}

func (r *reloaded[T]) look() {
	contents, err := r.read()
	if err == nil && slices.EqualFunc(contents, r.seen, bytes.Equal) {
		return
	}
	var value T
	// A certificate read before a change and its key read after it do not belong
	// together: a second look sees both from after it.
	for second := range 2 {
		if err == nil {
			value, err = r.parse(contents)
		}
		if err == nil || second == 1 {
			break
		}
		contents, err = r.read()
	}
	r.seen = contents
	if err != nil {
		if text := err.Error(); text != r.told {
			r.told = text
			r.log.Error("cannot load changed files, the previous content stays in use", "what", r.what, "error", text)
		}
		return
	}
	r.told, r.value = "", value
	r.log.Info("loaded changed files", "what", r.what)
}

func (r *reloaded[T]) read() ([][]byte, error) {
	var contents [][]byte
	for _, path := range r.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		contents = append(contents, content)
	}
	return contents, nil
}
