package composite

import "time"

// BadRequestError says that the bytes are not a request of this protocol. The
// server answers 400. Sending the same bytes again cannot help.
type BadRequestError struct {
	// Reason is one line for users: Metacontroller shows it in an event.
	Reason string
}

func (e *BadRequestError) Error() string { return e.Reason }

// RetryError says that this request must not be answered, but a later one can
// be: the caches it was made from are stale. The server answers 429 with a
// Retry-After header, upon which Metacontroller writes nothing, reports no
// event and asks again.
type RetryError struct {
	// After is when to ask again. The header has whole seconds: it is rounded
	// up, and at least 1.
	After time.Duration
	// Reason is one line for users.
	Reason string
}

func (e *RetryError) Error() string { return e.Reason }
