package main

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo listens and answers what it is sent.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // until the other side closes
			}()
		}
	}()
	return l.Addr().String()
}

func linked(t *testing.T) (*link, net.Conn) {
	t.Helper()
	l, err := newLink(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return l, dial(t, l)
}

func dial(t *testing.T, l *link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends some bytes and waits so long for the answer.
func ask(c net.Conn, patience time.Duration) error {
	if _, err := io.WriteString(c, "hello"); err != nil {
		return err
	}
	return answered(c, patience)
}

func answered(c net.Conn, patience time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	got := make([]byte, 5)
	_, err := io.ReadFull(c, got)
	if err == nil && string(got) != "hello" {
		err = errors.New("got " + string(got))
	}
	return err
}

func TestLinkCarries(t *testing.T) {
	_, c := linked(t)
	if err := ask(c, time.Minute); err != nil {
		t.Errorf("want an answer, got %v", err)
	}
}

func TestLinkIsSlow(t *testing.T) {
	l, c := linked(t)
	l.slow(100 * time.Millisecond)
	started := time.Now()
	if err := ask(c, time.Minute); err != nil {
		t.Errorf("want an answer, got %v", err)
	}
	if took := time.Since(started); took < 200*time.Millisecond {
		t.Errorf("want a delay each way, got the answer after %v", took)
	}
}

func TestLinkStalls(t *testing.T) {
	l, c := linked(t)
	l.stall(true)
	if err := ask(c, 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("want no answer, got %v", err)
	}
	l.stall(false)
	if err := answered(c, time.Minute); err != nil {
		t.Errorf("want what was kept back, got %v", err)
	}
}

func TestLinkIsCut(t *testing.T) {
	l, c := linked(t)
	if err := ask(c, time.Minute); err != nil {
		t.Fatal(err)
	}
	l.sever(true)
	if err := ask(c, time.Minute); err == nil {
		t.Error("want the connection ended, got an answer")
	}
	if err := ask(dial(t, l), time.Minute); err == nil {
		t.Error("want no new connection, got an answer")
	}
	l.sever(false)
	if err := ask(dial(t, l), time.Minute); err != nil {
		t.Errorf("want an answer again, got %v", err)
	}
}
