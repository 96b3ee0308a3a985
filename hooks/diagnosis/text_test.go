package diagnosis

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// Of 4 KiB of last words, escapes in all of their lines, only both ends are decoded.
// Each of many pods may bring as much with each request.
func TestLongTextIsDecodedInPart(t *testing.T) {
	encoded, err := json.Marshal(strings.Repeat("no database\n", 341))
	if err != nil {
		t.Fatal(err)
	}
	const runs = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		var text Text
		if err := text.UnmarshalJSON(encoded); err != nil || !strings.HasSuffix(text.Tail, "database no database") {
			t.Fatal(text, err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / runs; each > uint64(len(encoded)) {
		t.Errorf("want less to be allocated than the %d bytes of the text, got %d", len(encoded), each)
	}
}

// What is no string, and strings that no encoder writes, are errors or nothing, never
// a panic: a text may come from any kubelet.
func TestTextOfAnyJSON(t *testing.T) {
	pair := strings.Repeat(`\ud83d\ude00`, 300) // cut in the middle of pairs
	for _, tt := range []struct {
		why, data, head, tail string
		fails                 bool
	}{
		{"null", `null`, "", "", false},
		{"a number", `5`, "", "", true},
		{"an object", `{"a":"b"}`, "", "", true},
		{"pairs of escapes", `"` + pair + `"`, strings.Repeat("\U0001F600", 50) + "...", "..." + strings.Repeat("\U0001F600", 50), false},
		{"half a pair", `"a\ud83d"`, "a", "a", false},
		{"half a pair before another letter", `"a\ud83d\u0062\/\b\"\u00E9"`, `a b/ "é`, `a b/ "é`, false},
	} {
		var got struct{ Text Text }
		err := json.Unmarshal([]byte(`{"Text":`+tt.data+`}`), &got)
		if (err != nil) != tt.fails || got.Text.Head != tt.head || got.Text.Tail != tt.tail {
			t.Errorf("%s: want %q, %q, got %q, %q, %v", tt.why, tt.head, tt.tail, got.Text.Head, got.Text.Tail, err)
		}
	}
}
