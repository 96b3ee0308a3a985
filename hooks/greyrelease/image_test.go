package greyrelease

import "testing"

const someDigest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// TestImages (IV-01): a colon may begin a port, a tag or the text of a digest.
func TestImages(t *testing.T) {
	for _, tt := range []struct {
		ref  string
		want image
		// with 1.28.0 and with a digest; "" if the reference has a version
		tagged, pinned string
	}{
		{ref: "app", want: image{Name: "app"}, tagged: "app:1.28.0", pinned: "app@" + someDigest},
		{ref: "app:1", want: image{Name: "app", Tag: "1"}},
		{ref: "repo:5000/app", want: image{Name: "repo:5000/app"}, tagged: "repo:5000/app:1.28.0", pinned: "repo:5000/app@" + someDigest},
		{ref: "repo:5000/app:1", want: image{Name: "repo:5000/app", Tag: "1"}},
		{ref: "app@" + someDigest, want: image{Name: "app", Digest: someDigest}},
		{ref: "repo:5000/app:1@" + someDigest, want: image{Name: "repo:5000/app", Tag: "1", Digest: someDigest}},
		{ref: "repo:5000/app@" + someDigest, want: image{Name: "repo:5000/app", Digest: someDigest}},
		{ref: "localhost:5000/a/b", want: image{Name: "localhost:5000/a/b"}, tagged: "localhost:5000/a/b:1.28.0", pinned: "localhost:5000/a/b@" + someDigest},
		{ref: "[fd00::1]:5000/app", want: image{Name: "[fd00::1]:5000/app"}, tagged: "[fd00::1]:5000/app:1.28.0", pinned: "[fd00::1]:5000/app@" + someDigest},
		{ref: "app:latest", want: image{Name: "app", Tag: "latest"}},
		{ref: "repo:5000", want: image{Name: "repo", Tag: "5000"}}, // without a slash it is a tag, as for every client
		{ref: "", want: image{}},
		{ref: "app:", want: image{Name: "app"}},
		{ref: "app@", want: image{Name: "app"}},
	} {
		t.Run(tt.ref, func(t *testing.T) {
			if got := parseImage(tt.ref); got != tt.want {
				t.Errorf("want %+v, got %+v", tt.want, got)
			}
			if want, got := tt.tagged != "", takesVersion(tt.ref); got != want {
				t.Fatalf("takes a version: want %v, got %v", want, got)
			}
			if tt.tagged == "" {
				return
			}
			if got := withVersion(tt.ref, "1.28.0"); got != tt.tagged {
				t.Errorf("want %s, got %s", tt.tagged, got)
			}
			if got := withVersion(tt.ref, someDigest); got != tt.pinned {
				t.Errorf("want %s, got %s", tt.pinned, got)
			}
		})
	}
}
