package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// link is the network between Metacontroller and the API server: it can be slow, stop to
// carry anything, or be cut.
type link struct {
	listener net.Listener
	to       string
	done     sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	delay   time.Duration
	stalled bool
	cut     bool
	closed  bool
	open    map[net.Conn]bool
}

// newLink listens on loopback, and carries connections to an address.
func newLink(to string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	l := &link{listener: listener, to: to, open: map[net.Conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	l.done.Go(l.accept)
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		connection, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.done.Go(func() { l.carry(connection) })
	}
}

// carry carries one connection until one of its ends closes it.
func (l *link) carry(from net.Conn) {
	defer from.Close()
	to, err := net.DialTimeout("tcp", l.to, 10*time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.keep(from, to) {
		return
	}
	defer l.forget(from, to)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			l.copy(way[1], way[0])
			// Neither program here uses half of a connection.
			from.Close()
			to.Close()
		})
	}
	both.Wait()
}

func (l *link) keep(connections ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.closed {
		return false
	}
	for _, c := range connections {
		l.open[c] = true
	}
	return true
}

func (l *link) forget(connections ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range connections {
		delete(l.open, c)
	}
}

// piece is some bytes and when they arrive.
type piece struct {
	bytes []byte
	due   time.Time
}

// copy carries one way. What is delayed does not delay what comes after it.
func (l *link) copy(to io.Writer, from io.Reader) {
	pieces := make(chan piece, 64)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				l.mu.Lock()
				due := time.Now().Add(l.delay)
				l.mu.Unlock()
				pieces <- piece{buffer[:n], due}
			}
			if err != nil {
				return
			}
		}
	}()
	broken := false
	for p := range pieces {
		if broken {
			continue // until the reader has seen that it is over
		}
		time.Sleep(time.Until(p.due))
		l.mu.Lock()
		for l.stalled && !l.closed && !l.cut {
			l.changed.Wait()
		}
		l.mu.Unlock()
		if _, err := to.Write(p.bytes); err != nil {
			broken = true
			if c, ok := from.(net.Conn); ok {
				c.Close()
			}
		}
	}
}

// slow delays everything by as much each way.
func (l *link) slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// stall keeps everything back, or lets it go on.
func (l *link) stall(stalled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = stalled
	l.changed.Broadcast()
}

// sever ends all connections and takes no new one, or takes them again.
func (l *link) sever(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		l.closeAll()
	}
}

func (l *link) closeAll() {
	for c := range l.open {
		c.Close()
	}
	l.changed.Broadcast()
}

// close ends it.
func (l *link) close() error {
	l.mu.Lock()
	l.closed = true
	l.closeAll()
	l.mu.Unlock()
	err := l.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	l.done.Wait()
	return err
}
