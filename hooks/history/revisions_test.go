package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	one, two := newObject(t, 1, "1"), newObject(t, 2, "2")
	same := newObject(t, 5, "2")
	broken := newObject(t, 6, "2")
	broken.Data = json.RawMessage(`{"spec.json":"{}","template.json":"{}"}`)
	// A content with the hash of another one can't be made, but a label can.
	forged := draft(t, 3, "3").Content
	forged.Hash = draft(t, 2, "2").Content.Hash

	for _, tt := range []struct {
		why     string
		objects []Object
		wanted  Content
		number  int64
		err     string
	}{
		{why: "known", objects: []Object{one, two}, wanted: draft(t, 9, "2").Content, number: 2},
		{why: "unknown", objects: []Object{one, two}, wanted: draft(t, 9, "3").Content},
		{why: "known twice: the later", objects: []Object{same, one, two}, wanted: draft(t, 9, "2").Content, number: 5},
		{why: "the later is broken: the other", objects: []Object{broken, one, two}, wanted: draft(t, 9, "2").Content, number: 2},
		{
			why: "broken", objects: []Object{broken, one}, wanted: draft(t, 9, "2").Content,
			err: "snapshot web-rev-6 is broken: spec.json: cannot identify spec: targetVersion is no string",
		},
		{
			why: "other content with the same hash (SN-05)", objects: []Object{one, two}, wanted: forged,
			err: `version "3" with this template has the same hash ` + forged.Hash + ` as revision 2 (version "2") but other content; ` +
				"change the template in any way, for example by an annotation",
		},
		{why: "none", wanted: draft(t, 9, "2").Content},
	} {
		t.Run(tt.why, func(t *testing.T) {
			s, ok, err := Find(Read(tt.objects), tt.wanted)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if s.Number != tt.number || ok != (tt.number > 0) || got != tt.err {
				t.Errorf("want %d and %q, got %d %v and %q", tt.number, tt.err, s.Number, ok, got)
			}
		})
	}
}

func TestByNumber(t *testing.T) {
	nameless := newObject(t, 1, "1")
	delete(nameless.Labels, NumberLabel)
	snapshots := Read([]Object{nameless, newObject(t, 2, "2")})
	if s, ok := ByNumber(snapshots, 2); !ok || s.Name != "web-rev-2" {
		t.Errorf("want web-rev-2, got %v", s.Name)
	}
	for _, number := range []int64{0, 1, -1} {
		if s, ok := ByNumber(snapshots, number); ok {
			t.Errorf("%d: want none, got %v", number, s.Name)
		}
	}
}

func TestNext(t *testing.T) {
	snapshots := Read([]Object{newObject(t, 4, "4")})
	for _, tt := range []struct {
		why       string
		highWater int64
		snapshots []Snapshot
		elsewhere []int64
		want      int64
		err       error
	}{
		{why: "the first", want: 1},
		{why: "the record knows more than there is", highWater: 9, snapshots: snapshots, want: 10},
		{why: "the record is gone", snapshots: snapshots, elsewhere: []int64{2, 3}, want: 5},
		{why: "only a Deployment is left", elsewhere: []int64{7, 3}, want: 8},
		{why: "a label nobody could have given", highWater: 2, elsewhere: []int64{1 << 60, -5}, want: 3},
		{why: "used up", highWater: MaxNumber, err: ErrNumbers},
	} {
		t.Run(tt.why, func(t *testing.T) {
			got, err := Next(tt.highWater, tt.snapshots, tt.elsewhere...)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("want %d and %v, got %d and %v", tt.want, tt.err, got, err)
			}
		})
	}
}

func TestPrune(t *testing.T) {
	nameless := newObject(t, 9, "9")
	delete(nameless.Labels, NumberLabel)
	var objects []Object
	for n := range int64(6) {
		objects = append(objects, newObject(t, n+1, fmt.Sprint(n+1)))
	}
	snapshots := Read(append(objects, nameless))
	order := map[int64]int64{3: 1, 1: 2, 5: 3, 6: 4} // 2 and 4 were never the target
	for _, tt := range []struct {
		why   string
		limit int
		keep  []int64
		want  []int64
	}{
		{why: "all in use", limit: 0, keep: []int64{1, 2, 3, 4, 5, 6}, want: []int64{0, 1, 2, 3, 4, 5, 6}},
		{why: "the limit is 0", limit: 0, keep: []int64{6}, want: []int64{0, 6}},
		{why: "those that were the target last", limit: 2, keep: []int64{6}, want: []int64{0, 1, 5, 6}},
		{why: "an old one in use does not count", limit: 2, keep: []int64{6, 2}, want: []int64{0, 1, 2, 5, 6}},
		{why: "never the target: by number", limit: 5, want: []int64{0, 1, 3, 4, 5, 6}},
		{why: "more than there are", limit: 10, want: []int64{0, 1, 2, 3, 4, 5, 6}},
		{why: "negative is none", limit: -1, want: []int64{0}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			keep := map[int64]bool{}
			for _, n := range tt.keep {
				keep[n] = true
			}
			var got []int64
			for _, s := range Prune(snapshots, tt.limit, keep, func(n int64) int64 { return order[n] }) {
				got = append(got, s.Number)
			}
			if !slices.Equal(tt.want, got) {
				t.Errorf("want %v, got %v", tt.want, got)
			}
		})
	}
}
