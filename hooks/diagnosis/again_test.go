package diagnosis

import (
	"strings"
	"testing"

	"greyrelease.example.com/hooks/composite"
)

// Last words that differ in numbers and times alone are the same text, however often
// the container crashes; all else is another.
func TestWordsThatDifferInNumbers(t *testing.T) {
	crash := func(restarts, exit int64, words string) *Finding {
		return &Finding{
			Kind: Crash, Pod: "a", Container: "app", Reason: crashLoop, Restarts: restarts,
			Exit: &Terminated{ExitCode: composite.Int(exit)}, Message: words,
		}
	}
	long := strings.Repeat("at frame 10 ", 30) // cut at its beginning
	longer := strings.Repeat("at frame 1000 ", 30)
	other := strings.Repeat("at line 10 ", 30)
	for _, tt := range []struct {
		why        string
		last, next *Finding
		same       bool
	}{
		{"nothing changed", crash(4, 1, "no database"), crash(4, 1, "no database"), true},
		{"another time", crash(6, 1, "2026-11-30T12:00:05Z no database"), crash(9, 1, "2026-11-30T12:05:09.5Z no database"), true},
		{"another address", crash(6, 1, "read tcp 10.0.0.1:5432: refused"), crash(6, 1, "read tcp 10.0.0.77:5432: refused"), true},
		{"cut elsewhere", crash(6, 2, from(long)), crash(6, 2, from(longer)), true},
		{"other words", crash(6, 1, "12:00 no database"), crash(6, 1, "12:05 no queue"), false},
		{"other words that are cut", crash(6, 2, from(long)), crash(6, 2, from(other)), false},
		{"more restarts", crash(4, 1, "12:00 no database"), crash(5, 1, "12:05 no database"), false},
		{"another exit code", crash(6, 1, "12:00 no database"), crash(6, 2, "12:05 no database"), false},
		{"no words any more", crash(6, 1, "12:00 no database"), crash(6, 1, ""), false},
		{"words for the first time", crash(6, 1, ""), crash(6, 1, "12:00 no database"), false},
		{"another kind, with numbers", &Finding{Kind: Placement, Pod: "a", Reason: "Unschedulable", Message: "0/3 nodes"},
			&Finding{Kind: Placement, Pod: "a", Reason: "Unschedulable", Message: "0/4 nodes"}, false},
	} {
		want := tt.next.String()
		if tt.same {
			want = tt.last.String()
		}
		if got := tt.next.Again(tt.last.String()); want != got {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, want, got)
		}
	}
	if f := crash(4, 1, "no database"); f.Again("") != f.String() {
		t.Errorf("want %s after nothing, got %s", f, f.Again(""))
	}
}
