package greyrelease

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"greyrelease.example.com/hooks/jsontree"
	"greyrelease.example.com/test/sim/apply"
)

// TestMergesToItself compares the shortcut with a whole implementation of
// dynamic apply's merge, on random trees that are close to each other and full
// of the names it merges by.
func TestMergesToItself(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	same, refused := 0, 0
	for range 40_000 {
		live := randomObject(r, 3)
		last, want := nearly(r, live), nearly(r, live)
		text := encode(t, want)
		merged := apply.Merge(live, last, decode(t, text))
		model := apply.Equal(merged, live)
		got := mergesToItself(parse(t, encode(t, live)), parse(t, encode(t, last)), parse(t, text))
		if got == model {
			if got {
				same++
			}
			continue
		}
		if !got && (collides(live) || collides(last) || collides(want)) {
			refused++ // on the safe side
			continue
		}
		t.Fatalf("want %v, got %v\nlive %s\nlast %s\nwant %s", model, got, encode(t, live), encode(t, last), text)
	}
	if same < 2000 || refused < 20 {
		t.Errorf("want all cases met, got %d that merge to themselves and %d refused", same, refused)
	}
}

// collides is true if any list in v has two items that are equal under any of
// the names dynamic apply merges by.
func collides(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, w := range v {
			if collides(w) {
				return true
			}
		}
	case []any:
		for _, name := range mergeNames {
			seen := map[any]bool{}
			for _, item := range v {
				key, ok := apply.Object(item)[name]
				if ok && seen[key] {
					return true
				}
				seen[key] = true
			}
		}
		for _, w := range v {
			if collides(w) {
				return true
			}
		}
	}
	return false
}

func randomValue(r *rand.Rand, depth int) any {
	if depth > 0 {
		switch r.IntN(4) {
		case 0:
			return randomObject(r, depth-1)
		case 1:
			list := make([]any, r.IntN(4))
			for i := range list {
				list[i] = map[string]any{"name": "a"}
				if r.IntN(8) > 0 {
					list[i] = randomObject(r, depth-1)
				}
			}
			return list
		}
	}
	return []any{"a", "b", "", true, int64(1), int64(80)}[r.IntN(6)]
}

func randomObject(r *rand.Rand, depth int) map[string]any {
	names := []string{"name", "name", "port", "containerPort", "path", "x", "y"}
	object := map[string]any{}
	for range r.IntN(4) {
		name := names[r.IntN(len(names))]
		object[name] = randomValue(r, depth)
		if name != "x" && name != "y" {
			object[name] = []any{"a", "b", "c", int64(80)}[r.IntN(4)]
		}
	}
	return object
}

// nearly is v, often with a part changed, dropped or added.
func nearly(r *rand.Rand, v map[string]any) map[string]any {
	c, _ := nearlyValue(r, v).(map[string]any)
	return c
}

func nearlyValue(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // in order, so that each run is the same
			if r.IntN(12) > 0 {
				c[name] = nearlyValue(r, v[name])
			}
		}
		// Of another kind than a live object or list Metacontroller makes an error.
		if _, there := v["y"]; !there && r.IntN(20) == 0 {
			c["y"] = "new"
		}
		return c
	case []any:
		c := make([]any, 0, len(v))
		for _, w := range v {
			if r.IntN(15) > 0 {
				c = append(c, nearlyValue(r, w))
			}
		}
		return c
	}
	if r.IntN(30) == 0 {
		return "b"
	}
	return v
}

func TestMergeName(t *testing.T) {
	for _, tt := range []struct{ why, list, want string }{
		{why: "nothing to tell by", list: `[]`},
		{why: "scalars", list: `["name"]`},
		{why: "one item is no object", list: `[{"name":"a"},1]`},
		{why: "common to all", list: `[{"name":"a","x":1},{"name":"b"}]`, want: "name"},
		{why: "not in all", list: `[{"name":"a"},{"key":"b"}]`},
		{why: "containerPort comes before name", list: `[{"name":"a","containerPort":1}]`, want: "containerPort"},
		{why: "port comes before name", list: `[{"name":"a","port":1}]`, want: "port"},
		{why: "mountPath comes before name", list: `[{"name":"a","mountPath":"/"}]`, want: "mountPath"},
		{why: "ip comes before path", list: `[{"ip":"a","path":"/"}]`, want: "ip"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if got := mergeName(parse(t, json.RawMessage(tt.list)), jsontree.Value{}); got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}
