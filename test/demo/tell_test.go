package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
)

// tellTo tells the stories with the hook in this process, on the real clock as in
// the service.
func tellTo(t *testing.T, out *bytes.Buffer, change func(*sim.Cluster)) error {
	t.Helper()
	hook := func(body []byte, _ time.Time) (sim.Reply, error) { return sim.Product(body, time.Now()) }
	tell := newTeller(t.Context(), "../..", &screen{out: out}, &calls{send: hook}, true)
	change(tell.cluster)
	return tell.stories()
}

func TestStoriesEndRight(t *testing.T) {
	var out bytes.Buffer
	if err := tellTo(t, &out, func(*sim.Cluster) {}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"Healthy      4/4   1.27.5 ██████████ (10 available)\n",
		"1 of 10 pods; waiting for approval: kubectl annotate gr web",
		"$ kubectl annotate gr web -n default greyrelease.example.com/command='promote ",
		"Progressing  2/3   1.27.5 █████████ (9 available)  1.28.0 █░░░ (1 available, 3 starting)\n",
		"Paused       3/3   1.27.5 ███ (3 available)  1.28.0 ███████ (7 available)\n",
		"Healthy      3/3   1.28.0 ██████████ (10 available)\n",
		"RollingBack  0/3   1.28.0 ██████████ (10 available)  0.0.0 ",
		"RolledBack   0/3   1.28.0 ██████████ (10 available)  0.0.0  (0 available)\n",
	} {
		_, rest, found := strings.Cut(text, want)
		if !found {
			t.Fatalf("want %q next, got\n%s", want, text)
		}
		text = rest
	}
}

func TestStoriesThatEndWrong(t *testing.T) {
	for _, tt := range []struct {
		why    string
		change func(*sim.Cluster)
		want   string
	}{
		{
			"the good version is broken", func(c *sim.Cluster) { c.Behave("1.28.0", sim.Behavior{Crash: true}) },
			"after 5m0s it does not hold that the first batch waits for approval: the phase is RolledBack: 1.28.0 (revision ",
		},
		{
			"the broken version is good", func(c *sim.Cluster) { c.Behave("0.0.0", sim.Behavior{}) },
			"after 10m0s it does not hold that 0.0.0 is rolled back: the phase is Paused: 0.0.0 (revision ",
		},
		{
			"pods of the old version die in the middle", func(c *sim.Cluster) { c.Behave("1.27.5", sim.Behavior{CrashAfter: 20 * time.Second}) },
			"at 12:00:20 9 pods are available and 10 there, promised are at least 10 and at most 13",
		},
		{
			"the service fails", func(c *sim.Cluster) { c.Metacontroller.Down = true },
			"after 1m0s it does not hold that 1.27.5 is out: the phase is ",
		},
	} {
		err := tellTo(t, &bytes.Buffer{}, tt.change)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: want %q, got %v", tt.why, tt.want, err)
		}
	}
}

func TestFailedCallEndsTheShow(t *testing.T) {
	hook := func([]byte, time.Time) (sim.Reply, error) {
		return sim.Reply{Status: 500, Body: []byte("bug: one\n")}, nil
	}
	tell := newTeller(t.Context(), "../..", &screen{out: &bytes.Buffer{}}, &calls{send: hook}, true)
	want := "the service answered 500: bug: one"
	if err := tell.stories(); err == nil || want != err.Error() {
		t.Errorf("want %q, got %v", want, err)
	}
}

// The whole show, with the service as a process that is called over HTTP.
func TestShow(t *testing.T) {
	var out bytes.Buffer
	if err := show(t.Context(), &screen{out: &out}, true); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	want := "\nBoth stories ended right. At no time were fewer than 10 pods available, or more than 13 there.\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("want %q, got\n%s", want, out.String())
	}
}

func TestServiceEndsWithTheShow(t *testing.T) {
	s, err := startService(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if want, got := "exit status 0", s.cmd.ProcessState.String(); want != got {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestInterruptedBuild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := show(ctx, &screen{out: &bytes.Buffer{}}, true); err == nil {
		t.Error("want an error, got none")
	}
}
