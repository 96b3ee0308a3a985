package main

import (
	"slices"
	"testing"
	"time"
)

// TestOrder: changes of several kinds are judged in the order in which they were stored,
// once the last of them has had the time to come.
func TestOrder(t *testing.T) {
	start := time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)
	var got []uint64
	f := &feed{see: func(c change) { got = append(got, c.version) }}
	for _, c := range []struct {
		version uint64
		ms      int
	}{{12, 0}, {15, 100}, {11, 200}, {14, 300}, {17, 2000}, {16, 2100}} {
		f.waiting = append(f.waiting, change{version: c.version, at: start.Add(time.Duration(c.ms) * time.Millisecond)})
	}
	f.flush(start.Add(250 * time.Millisecond))
	// 14 has come later, and was stored before 15, which is due.
	if want := []uint64{11, 12, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
	f.waiting = append(f.waiting, change{version: 13, at: start})
	f.flush(time.Time{})
	if want := []uint64{11, 12, 14, 15, 13, 16, 17}; !slices.Equal(got, want) || f.late != 1 {
		t.Errorf("want %v and one of them late, got %v and %d", want, got, f.late)
	}
}
