package history

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// moved is an object's snapshot as it comes back in the other kind.
func moved(t testing.TB, o Object, to Kind, created string) Object {
	t.Helper()
	h, err := Move(Read([]Object{o})[0], to, Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	copied := observed(t, h)
	copied.Created = created
	return copied
}

// What is kept, and what is ours of the metadata, comes through both moves as it was.
func TestMoveThereAndBack(t *testing.T) {
	for _, size := range []int{0, 90 << 10, 200 << 10} {
		c, err := NewSnapshot(padded(t, draft(t, 7, "1.28.0"), strings.Repeat("x", size)), Dynamic)
		if err != nil {
			t.Fatal(err)
		}
		secret := moved(t, observed(t, c), Secret, "2026-11-30T12:01:00Z")
		if secret.Kind != Secret || secret.Type != SecretType || secret.Immutable == nil || !*secret.Immutable || strings.Contains(string(secret.Data), "nginx") {
			t.Errorf("want an immutable Secret without plain text, got %+.300v", secret)
		}
		back, err := Move(Read([]Object{secret})[0], ConfigMap, Dynamic)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(back); err != nil || string(want) != string(got) {
			t.Errorf("want %.400s\ngot  %.400s (%v)", want, got, err)
		}
	}
}

func TestMoveRefuses(t *testing.T) {
	o := newObject(t, 3, "1")
	o.Labels[RevisionLabel] = "0123456789"
	var broken *BrokenError
	if _, err := Move(Read([]Object{o})[0], Secret, Dynamic); !errors.As(err, &broken) {
		t.Errorf("want a broken one refused, got %v", err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	long := make([]byte, 200<<10) // that hardly become shorter
	for i := range long {
		long[i] = byte('0' + r.IntN(64))
	}
	c, err := NewSnapshot(padded(t, draft(t, 1, "1"), string(long)), ServerSide)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.BinaryData) <= maxDynamic {
		t.Fatalf("want one that is too large for dynamic apply, got %d bytes", len(c.BinaryData))
	}
	var tooBig *TooBigError
	if _, err := Move(Read([]Object{observed(t, c)})[0], Secret, Dynamic); !errors.As(err, &tooBig) {
		t.Errorf("want one refused that is too large, got %v", err)
	}
}

// Of two copies the earlier one may go, in whichever order they come; what is no copy
// is another snapshot.
func TestReadPairsCopies(t *testing.T) {
	const early, late = "2026-11-30T12:00:00Z", "2026-11-30T12:00:01Z"
	kept := newObject(t, 3, "1")
	secret := func(change func(*Object)) Object {
		o := moved(t, kept, Secret, late)
		change(&o)
		return o
	}
	for _, tt := range []struct {
		why   string
		other Object
		want  string // what remains, and in brackets what may go
	}{
		{"a later copy", secret(func(*Object) {}), "Secret (ConfigMap)"},
		{"an earlier one", secret(func(o *Object) { o.Created = "2026-11-30T11:59:59Z" }), "ConfigMap (Secret)"},
		{"made in the same second, with a larger uid", secret(func(o *Object) { o.Created, o.UID = early, "z" }), "Secret (ConfigMap)"},
		{"made in the same second, with a smaller uid", secret(func(o *Object) { o.Created, o.UID = early, "a" }), "ConfigMap (Secret)"},
		{"a later copy that is being deleted", secret(func(o *Object) { o.Deleting = true }), "ConfigMap (Secret)"},
		{"a broken one", secret(func(o *Object) { o.Data = json.RawMessage(`{}`) }), "ConfigMap, Secret broken"},
		{"one that cannot be opened", secret(func(o *Object) { o.Data = json.RawMessage(`{"spec.json":"*","template.json":"*"}`) }), "ConfigMap, Secret"},
		{"other content", func() Object {
			d := draft(t, 3, "2")
			d.Kind = Secret
			c, err := NewSnapshot(d, Dynamic)
			if err != nil {
				t.Fatal(err)
			}
			return observed(t, c)
		}(), "ConfigMap, Secret"},
		{"another rendering", func() Object {
			d := draft(t, 3, "1")
			d.Kind, d.Template = Secret, json.RawMessage(strings.Replace(string(d.Template), "nginx:1", "registry/nginx:1", 1))
			c, err := NewSnapshot(d, Dynamic)
			if err != nil {
				t.Fatal(err)
			}
			return observed(t, c)
		}(), "ConfigMap, Secret"},
		{"another number", moved(t, newObject(t, 4, "1"), Secret, late), "ConfigMap, Secret"},
	} {
		for _, objects := range [][]Object{{kept, tt.other}, {tt.other, kept}} {
			var got []string
			for _, s := range Read(objects) {
				text := string(s.Kind)
				if s.Broken != "" {
					text += " broken"
				}
				if s.Former != nil {
					text += " (" + string(s.Former.Kind) + ")"
				}
				got = append(got, text)
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("%s: want %s, got %s", tt.why, tt.want, got)
			}
		}
	}
}

// TestTheLastCopyStays plays all ways to see copies that are there or were there once:
// whatever anybody sees, he never lets the one go that was made last.
func TestTheLastCopyStays(t *testing.T) {
	first := newObject(t, 3, "1")
	all := []Object{first}
	times := []string{"2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z", "2026-11-30T12:00:07Z", "2026-11-30T11:00:00Z"} // by clocks that differ
	kinds := []Kind{Secret, ConfigMap, Secret, ConfigMap}
	for i, at := range times {
		o := moved(t, all[len(all)-1], kinds[i], at)
		o.UID = string(rune('a' + (i*5+3)%7))
		all = append(all, o)
	}
	last := slices.MaxFunc(all, func(a, b Object) int {
		return strings.Compare(a.Created+a.UID, b.Created+b.UID)
	})
	for _, a := range all {
		for _, b := range all {
			if a.Kind == b.Kind {
				continue
			}
			s := Read([]Object{a, b})[0]
			if s.Former == nil || s.Former.object.UID == last.UID {
				t.Errorf("seeing %s and %s: want the last one, %s, kept, got %+v", a.UID, b.UID, last.UID, s.Former)
			}
		}
	}
}
