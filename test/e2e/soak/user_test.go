package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestMovesBySeed: which moves a user makes depends on the seed and its name alone, not on
// what the moves before have found.
func TestMovesBySeed(t *testing.T) {
	told := func(seed uint64, name string, used int) []string {
		u := &user{name: name, seed: seed}
		var list []string
		for range 50 {
			r := u.draws()
			list = append(list, draw(r, moves).name)
			for range used {
				r.Uint64() // what a move draws for itself
			}
		}
		return list
	}
	first := told(7, "web-0", 0)
	if got := told(7, "web-0", 3); !slices.Equal(got, first) {
		t.Errorf("want the same moves, %v, got %v", first, got)
	}
	if slices.Equal(told(8, "web-0", 0), first) || slices.Equal(told(7, "web-1", 0), first) {
		t.Error("want other moves by another seed and of another user, got the same")
	}
}

// TestAllThatCanHappen: no move and no fault is left out.
func TestAllThatCanHappen(t *testing.T) {
	u, seen := &user{name: "web", seed: 1}, map[string]bool{}
	for range 5000 {
		seen[draw(u.draws(), moves).name] = true
		seen[draw(u.draws(), faults).name] = true
	}
	for _, m := range moves {
		if !seen[m.name] {
			t.Errorf("want move %q at times, got none", m.name)
		}
	}
	for _, f := range faults {
		if !seen[f.name] {
			t.Errorf("want fault %q at times, got none", f.name)
		}
	}
}

func TestOutcome(t *testing.T) {
	good, failing := content{"1.0", ""}, content{"2.0-crash", "crash"}
	for _, c := range []struct {
		why                 string
		current             content
		pin                 string
		left                map[string]bool
		version             string
		healthy, rolledBack bool
	}{
		{"a good version goes out", good, "", nil, "1.0", true, false},
		{"a failing one goes back", failing, "", nil, "2.0-crash", false, true},
		{"a pinned one goes out", failing, "1.0", nil, "1.0", true, false},
		{"one that may have been given up does either", good, "", map[string]bool{"1.0": true}, "1.0", true, true},
		{"that another was given up is nothing to it", good, "", map[string]bool{"0.9": true}, "1.0", true, false},
	} {
		u := newUser(&world{book: newBook(false, nil)}, shape{}, "web", 1)
		u.current, u.pin, u.replicas, u.left = c.current, c.pin, 3, c.left
		o := u.outcome()
		if o.version != c.version || o.healthy != c.healthy || o.rolledBack != c.rolledBack || o.replicas != 3 {
			t.Errorf("%s: want %s, healthy %t, rolled back %t of 3, got %+v", c.why, c.version, c.healthy, c.rolledBack, o)
		}
	}
}

func TestServiceCounts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `# HELP greyrelease_requests_total Calls of a hook.
greyrelease_requests_total{hook="sync",code="200"} 40
greyrelease_requests_total{hook="customize",code="200"} 2
greyrelease_requests_total{hook="sync",code="500"} 1
greyrelease_invariant_breaches_total 3
greyrelease_panics_total 4
`)
	}))
	defer server.Close()
	got, err := serviceOf(t.Context(), server.URL)
	if want := (service{calls: 43, breaches: 3, panics: 4, errors: 1}); err != nil || got != want {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
}

// TestWeightsOfRoute: a rule for a header has one Service, and no share to sum up.
func TestWeightsOfRoute(t *testing.T) {
	ref := func(name string, weight int64) any { return object{"name": name, "weight": weight} }
	got := asRoute(&unstructured.Unstructured{Object: object{"spec": object{"rules": []any{
		object{"backendRefs": []any{ref("new", 100)}},
		object{"backendRefs": []any{ref("old", 80), ref("new", 20)}},
	}}}})
	if want := "[map[new:20 old:80]]"; fmt.Sprint(got.rules) != want {
		t.Errorf("want %s, got %v", want, got.rules)
	}
}
