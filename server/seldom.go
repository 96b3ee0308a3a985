package main

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// seldom lets one line into the log in a minute: what anybody can bring about must
// not become a flood of lines, and not go unnoticed either.
type seldom struct {
	mu     sync.Mutex
	next   time.Time
	others int
}

// now tells whether a line may be written, and how many were not since the last.
func (s *seldom) now(at time.Time) (others int, may bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Before(s.next) {
		s.others++
		return 0, false
	}
	others, s.others, s.next = s.others, 0, at.Add(time.Minute)
	return others, true
}

// connectionLog takes what net/http has to say about connections.
type connectionLog struct {
	log        *slog.Logger
	clock      func() time.Time
	handshakes seldom
}

// Write takes one line.
func (c *connectionLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if !bytes.Contains(line, []byte("TLS handshake error")) {
		c.log.Warn(text)
		return len(line), nil
	}
	if others, may := c.handshakes.now(c.clock()); may {
		c.log.Warn("connection refused", "error", text, "others", others)
	}
	return len(line), nil
}
