package main

import (
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// hook is what the service serves.
type hook struct {
	sync, customize call
}

// call is a pure function from bytes to bytes: it decodes the request, decides
// and encodes the answer. now is UTC in whole seconds. The answer is filled as
// far as the call came, so that after an error or a panic its subject is known.
type call func(body []byte, now time.Time, out *answer) error

// answer is what a call of a hook gave.
type answer struct {
	// subject is the object that the request was about, as namespace/name, for
	// the log; empty where the request could not be read.
	subject string
	// now and have are what the hook was given beside the request.
	now  time.Time
	have greyrelease.Measurements
	body []byte
	// transitions are for the log and the counters.
	transitions []greyrelease.Transition
}
