package main

import (
	"slices"
	"testing"
	"time"
)

func TestMove(t *testing.T) {
	text := `{"a":"2026-11-30T12:00:00Z","b":"{\"since\":\"2026-11-30T23:59:59Z\"}","c":"2026-11-30","d":"2026-13-30T12:00:00Z"}`
	want := `{"a":"2026-11-30T12:00:03Z","b":"{\"since\":\"2026-12-01T00:00:02Z\"}","c":"2026-11-30","d":"2026-13-30T12:00:00Z"}`
	got := move([]byte(text), 3*time.Second)
	if want != string(got) {
		t.Errorf("want %s, got %s", want, got)
	}
	if back := move(got, -3*time.Second); text != string(back) {
		t.Errorf("moved back: want %s, got %s", text, back)
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"kubectl  apply -f a.yaml", []string{"kubectl", "apply", "-f", "a.yaml"}},
		{`x/command='promote 4.1@5' --overwrite`, []string{"x/command=promote 4.1@5", "--overwrite"}},
		{`-p '{"a": "b c"}' ''`, []string{"-p", `{"a": "b c"}`, ""}},
	} {
		got, err := split(tt.line)
		if err != nil || !slices.Equal(tt.want, got) {
			t.Errorf("%s: want %q, got %q, error %v", tt.line, tt.want, got, err)
		}
	}
	if _, err := split("a 'b"); err == nil {
		t.Error("want an error for a quote that is not closed, got none")
	}
}
