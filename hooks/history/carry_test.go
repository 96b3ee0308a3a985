package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// byRevision identifies the entries of a history.
func byRevision(path string, element Member) string {
	if path != "history" {
		return ""
	}
	return element("revision") + "." + element("attempt")
}

func TestCarry(t *testing.T) {
	for _, tt := range []struct{ why, old, again, next, want string }{
		{
			why: "nothing unknown: next as it is",
			old: `{"a":1,"b":{"c":2}}`, again: `{"a":1,"b":{"c":2}}`, next: `{ "b":{"c":3}, "a":1}`, want: `{ "b":{"c":3}, "a":1}`,
		},
		{
			why: "byte for byte",
			old: `{"a":1,"x":1.0e3,"y":"\u003c","z":[null,{"q":1.50,"p":null}]}`, again: `{"a":1}`, next: `{"a":2}`,
			want: `{"a":2,"x":1.0e3,"y":"\u003c","z":[null,{"p":null,"q":1.50}]}`,
		},
		{
			why: "nested",
			old: `{"target":{"revision":3,"x":1}}`, again: `{"target":{"revision":3}}`, next: `{"target":{"revision":4}}`,
			want: `{"target":{"revision":4,"x":1}}`,
		},
		{
			why: "what is gone takes its unknown with it",
			old: `{"failure":{"reason":"r","x":1},"y":2}`, again: `{"failure":{"reason":"r"}}`, next: `{}`, want: `{"y":2}`,
		},
		{
			why: "what this version writes wins over what it did not see",
			old: `{"a":0,"b":""}`, again: `{}`, next: `{"a":1}`, want: `{"a":1,"b":""}`,
		},
		{
			why: "another spelling of a known name is none of ours",
			old: `{"Stable":1,"TARGET":2,"x":3}`, again: `{"stable":1}`, next: `{"stable":1,"target":5}`, want: `{"stable":1,"target":5,"x":3}`,
		},
		{
			why:   "elements by equality, then by identity",
			old:   `{"history":[{"revision":1,"attempt":1,"x":1},{"revision":2,"attempt":1,"x":2},{"revision":2,"attempt":2,"x":3}]}`,
			again: `{"history":[{"revision":1,"attempt":1},{"revision":2,"attempt":1},{"revision":2,"attempt":2}]}`,
			next:  `{"history":[{"revision":2,"attempt":1},{"revision":2,"attempt":2,"result":"done"},{"revision":3,"attempt":1}]}`,
			want:  `{"history":[{"attempt":1,"revision":2,"x":2},{"attempt":2,"result":"done","revision":2,"x":3},{"attempt":1,"revision":3}]}`,
		},
		{
			why: "without identity only equal elements are the same",
			old: `{"gates":[{"n":1,"x":1},{"n":2,"x":2}]}`, again: `{"gates":[{"n":1},{"n":2}]}`, next: `{"gates":[{"n":2},{"n":3}]}`,
			want: `{"gates":[{"n":2,"x":2},{"n":3}]}`,
		},
		{
			why: "a list that this version reads otherwise is left alone",
			old: `{"l":[{"n":1,"x":1},{"y":2}]}`, again: `{"l":[{"n":1}]}`, next: `{"l":[{"n":1}]}`, want: `{"l":[{"n":1}]}`,
		},
		{
			why: "another kind of value", old: `{"a":{"x":1}}`, again: `{"a":{}}`, next: `{"a":[1]}`, want: `{"a":[1]}`,
		},
		{why: "what cannot be read has nothing to keep", old: `{`, again: `{}`, next: `{"a":1}`, want: `{"a":1}`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			got, err := Carry([]byte(tt.old), []byte(tt.again), []byte(tt.next), byRevision)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("want %s, got %s", tt.want, got)
			}
			// The next sync observes it, decides the same and must not write.
			twice, err := Carry(got, []byte(tt.next), []byte(tt.next), byRevision)
			if err != nil {
				t.Fatal(err)
			}
			if string(twice) != tt.want {
				t.Errorf("want %s again, got %s", tt.want, twice)
			}
		})
	}
}

func TestCarryOfOurMistakes(t *testing.T) {
	for _, tt := range []struct{ again, next, want string }{
		{again: `{`, next: `{}`, want: "cannot read the record as encoded again: cannot read JSON at offset 1: unexpected end"},
		{again: `{}`, next: `{`, want: "cannot read the next record: cannot read JSON at offset 1: unexpected end"},
	} {
		if got, err := Carry([]byte(`{"x":1}`), []byte(tt.again), []byte(tt.next), nil); err == nil || err.Error() != tt.want {
			t.Errorf("want %q, got %v and %s", tt.want, err, got)
		}
	}
}

// olderRecord is what this version knows of newerRecord.
type olderRecord struct {
	Counter int          `json:"counter,omitempty"`
	Stable  *olderPart   `json:"stable,omitempty"`
	Parts   []olderPart  `json:"parts,omitempty"`
	History []olderEntry `json:"history,omitempty"`
}

type olderPart struct {
	Name string `json:"name"`
}

type olderEntry struct {
	Revision int    `json:"revision"`
	Attempt  int    `json:"attempt"`
	Result   string `json:"result,omitempty"`
}

type newerRecord struct {
	Counter int             `json:"counter,omitempty"`
	Stable  *newerPart      `json:"stable,omitempty"`
	Parts   []newerPart     `json:"parts,omitempty"`
	History []newerEntry    `json:"history,omitempty"`
	Future  json.RawMessage `json:"future,omitempty"`
}

type newerPart struct {
	olderPart
	Note json.RawMessage `json:"note,omitempty"`
}

type newerEntry struct {
	olderEntry
	Note json.RawMessage `json:"note,omitempty"`
}

// TestCarryBetweenVersions: an older version of the service decodes a newer
// one's record, changes what it knows, and writes it. The newer one finds its
// own fields again wherever the thing they belong to is still there.
func TestCarryBetweenVersions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	notes := []json.RawMessage{nil, json.RawMessage(`1.0`), json.RawMessage(`"\u003c"`), json.RawMessage(`{"a":[1e2,{}]}`), json.RawMessage(`[]`)}
	note := func() json.RawMessage { return notes[r.IntN(len(notes))] }
	for range 3000 {
		newer := newerRecord{Counter: r.IntN(3), Future: note()}
		if r.IntN(2) == 0 {
			newer.Stable = &newerPart{olderPart: olderPart{Name: "s"}, Note: note()}
		}
		for i := range r.IntN(4) {
			newer.Parts = append(newer.Parts, newerPart{olderPart: olderPart{Name: fmt.Sprint(i)}, Note: note()})
		}
		for i := range r.IntN(5) {
			newer.History = append(newer.History, newerEntry{olderEntry: olderEntry{Revision: i / 2, Attempt: i % 2}, Note: note()})
		}
		old := marshal(t, newer)
		var older olderRecord
		unmarshal(t, old, &older)
		again := marshal(t, older)

		// The same changes, to what each version knows.
		want := newer
		older.Counter++
		want.Counter++
		if r.IntN(3) == 0 {
			older.Stable, want.Stable = nil, nil
		} else if older.Stable != nil && r.IntN(2) == 0 {
			older.Stable.Name, want.Stable = "t", &newerPart{olderPart: olderPart{Name: "t"}, Note: newer.Stable.Note}
		}
		if n := len(older.Parts); n > 0 && r.IntN(2) == 0 {
			i := r.IntN(n)
			older.Parts = slices.Delete(older.Parts, i, i+1)
			want.Parts = slices.Delete(slices.Clone(want.Parts), i, i+1)
		}
		if n := len(older.History); n > 0 && r.IntN(2) == 0 {
			older.History[n-1].Result = "done"
			want.History = slices.Clone(want.History)
			want.History[n-1].Result = "done"
		}
		if r.IntN(2) == 0 {
			older.History = append(older.History, olderEntry{Revision: 9})
			want.History = append(slices.Clone(want.History), newerEntry{olderEntry: olderEntry{Revision: 9}})
		}
		if len(older.History) > 4 {
			older.History, want.History = older.History[1:], want.History[1:]
		}

		next := marshal(t, older)
		got, err := Carry(old, again, next, byRevision)
		if err != nil {
			t.Fatal(err)
		}
		var read newerRecord
		unmarshal(t, got, &read)
		if string(marshal(t, want)) != string(marshal(t, read)) {
			t.Fatalf("want %s\ngot  %s\nfrom %s", marshal(t, want), marshal(t, read), old)
		}
		var back olderRecord
		unmarshal(t, got, &back)
		if string(next) != string(marshal(t, back)) {
			t.Fatalf("want %s, got %s", next, marshal(t, back))
		}
	}
}

func FuzzCarry(f *testing.F) {
	f.Add([]byte(`{"counter":1,"x":{"y":[1.0]},"history":[{"revision":1,"z":2}]}`), []byte(`{"counter":2,"history":[{"revision":1,"result":"r"}]}`))
	f.Add([]byte(`{"Counter":1,"parts":[{"name":"a","q":null}]}`), []byte(`{"parts":[{"name":"a"},{"name":"a"}]}`))
	f.Fuzz(func(t *testing.T, old, next []byte) {
		var was, is olderRecord
		if json.Unmarshal(old, &was) != nil || json.Unmarshal(next, &is) != nil {
			return
		}
		wanted := marshal(t, is)
		got, err := Carry(old, marshal(t, was), wanted, byRevision)
		if err != nil {
			t.Fatal(err)
		}
		var back olderRecord
		unmarshal(t, got, &back)
		if string(marshal(t, back)) != string(wanted) {
			t.Fatalf("want %s to be read, got %s", wanted, marshal(t, back))
		}
		twice, err := Carry(got, wanted, wanted, byRevision)
		if err != nil {
			t.Fatal(err)
		}
		if string(twice) != string(got) {
			t.Fatalf("want %s again, got %s", got, twice)
		}
	})
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func unmarshal(t testing.TB, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}
