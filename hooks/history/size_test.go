package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSnapshotSizes (SN-01): whatever is accepted can be stored, the copy in
// the annotation counted, and what can't be is refused.
func TestSnapshotSizes(t *testing.T) {
	const annotations, object = 256 << 10, 1 << 20 // the limits of Kubernetes
	r := rand.New(rand.NewPCG(1, 1))
	letters := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	noise := func(n int) string { // hardly compressible
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for _, tt := range []struct {
		why                 string
		padding             string
		zipped              bool
		dynamic, serverSide bool
	}{
		{why: "10 KiB", padding: strings.Repeat("A=1,", 10<<8), dynamic: true, serverSide: true},
		{why: "49 KiB twice", padding: strings.Repeat("A=1,", 49<<8), dynamic: true, serverSide: true},
		{why: "130 KiB", padding: strings.Repeat("A=1,", 130<<8), zipped: true, dynamic: true, serverSide: true},
		{why: "300 KiB", padding: strings.Repeat("A=1,", 300<<8), zipped: true, dynamic: true, serverSide: true},
		{why: "20 KiB of < twice, each six bytes in the copy", padding: strings.Repeat("<", 20<<10), zipped: true, dynamic: true, serverSide: true},
		{why: "100 KiB of noise twice", padding: noise(100 << 10), zipped: true, dynamic: true, serverSide: true},
		{why: "200 KiB of noise twice", padding: noise(200 << 10), zipped: true, serverSide: true},
		{why: "450 KiB of noise twice", padding: noise(450 << 10), zipped: true},
	} {
		for i := range 4 {
			kind, mode, want := ConfigMap, Dynamic, tt.dynamic
			if i%2 == 1 {
				kind = Secret
			}
			if i > 1 {
				mode, want = ServerSide, tt.serverSide
			}
			t.Run(fmt.Sprintf("%s/%s/%d", tt.why, kind, mode), func(t *testing.T) {
				d := padded(t, draft(t, 1, "1"), tt.padding)
				d.Kind = kind
				c, err := NewSnapshot(d, mode)
				var tooBig *TooBigError
				if !want {
					if !errors.As(err, &tooBig) {
						t.Errorf("want it refused, got %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if zipped := c.Data == nil; kind == ConfigMap && zipped != tt.zipped {
					t.Errorf("want gzip %v, got %v", tt.zipped, zipped)
				}
				stored, err := json.Marshal(c) // escapes HTML as Metacontroller does
				if err != nil {
					t.Fatal(err)
				}
				if mode == Dynamic && len(stored) > annotations-4<<10 {
					t.Errorf("want the copy within an annotation, got %d bytes", len(stored))
				}
				if 2*len(stored) > 3*object/2 {
					t.Errorf("want the object stored, got %d bytes", len(stored))
				}
				if content, err := Read([]Object{observed(t, c)})[0].Content(); err != nil {
					t.Errorf("want it readable, got %v and %s", err, content.Hash)
				}
			})
		}
	}
}

func TestFits(t *testing.T) {
	for _, tt := range []struct {
		why    string
		object string
		mode   Mode
		want   string
	}{
		{why: "small", object: `{}`},
		{why: "at the limit", object: strings.Repeat("x", maxDynamic)},
		{
			why: "above it", object: strings.Repeat("x", maxDynamic+1),
			want: "it takes 253953 bytes and dynamic apply has room for 253952 (an annotation holds a copy of it); " +
				"make the template smaller or run Metacontroller with --apply-strategy=server-side-apply",
		},
		{
			why: "above it once escaped", object: strings.Repeat("<>&\u2028", 20<<10),
			want: "it takes 491520 bytes and dynamic apply has room for 253952 (an annotation holds a copy of it); " +
				"make the template smaller or run Metacontroller with --apply-strategy=server-side-apply",
		},
		{why: "for the other mode", object: strings.Repeat("x", maxDynamic+1), mode: ServerSide},
		{
			why: "for no mode", object: strings.Repeat("x", 1<<20), mode: ServerSide,
			want: "it takes 1048576 bytes and there is room for 716800; make the template smaller",
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			got := ""
			if err := Fits(json.RawMessage(tt.object), tt.mode); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}

// TestEscapedSize compares with Go's encoder.
func TestEscapedSize(t *testing.T) {
	for _, text := range []string{"", "a<b>&c", "\u2028\u2029\u2027 灰度 \ufffd", "<<<"} {
		want, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := escapedSize([]byte(`"` + text + `"`)); got != len(want) {
			t.Errorf("%q: want %d, got %d", text, len(want), got)
		}
	}
}
