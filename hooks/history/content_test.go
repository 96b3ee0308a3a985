package history

import (
	"encoding/json"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/jsontree"
)

// TestGoldenHashes pins the identity of contents. If a value here changes,
// every release in every cluster takes its running version for a new one when
// the service is upgraded: a release of each begins, all pods are replaced, and
// no snapshot is found again by its content. The hash names Deployments, so
// that it can't be migrated either. Change the code, never the values.
func TestGoldenHashes(t *testing.T) {
	for _, tt := range []struct{ why, template, version, hash string }{
		{
			why:      "the least there is",
			template: `{"spec":{"containers":[{"name":"web","image":"nginx"}]}}`, version: "1.28.0", hash: "31089c7f9a",
		},
		{
			why:      "the version counts",
			template: `{"spec":{"containers":[{"name":"web","image":"nginx"}]}}`, version: "1.29.0", hash: "b6b3013036",
		},
		{
			why: "everything that has a canonical form",
			template: ` { "spec": {"terminationGracePeriodSeconds": 3e1, "affinity": null, "volumes":[{"name":"tmp","emptyDir":{}}],"nodeSelector":{},
				"containers":[{"image":"r:5000/shop/web","name":"web","args":["","\u0022q\"\\\u000a\t"],"resources":{"limits":{"memory":"1024Mi","cpu":"0.5"}},
				"env":[{"name":"A","value":""}]}],"tolerations":[{"operator":"Exists","tolerationSeconds":9007199254740993}]},
				"metadata":{"creationTimestamp":null,"annotations":{"note":"\u003ca\u0026b> 灰度 \u2028"},"labels":{"tier":"front"}}}`,
			version: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", hash: "b1c905ec64",
		},
		{why: "nothing", template: `{}`, version: "", hash: "a07301a6f0"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			content, err := Identify(parse(t, tt.template), tt.version)
			if err != nil {
				t.Fatal(err)
			}
			if content.Hash != tt.hash || content.Version != tt.version {
				t.Errorf("want %s of %q, got %s of %q with template %s", tt.hash, tt.version, content.Hash, content.Version, content.Template)
			}
		})
	}
}

func TestIdentify(t *testing.T) {
	const base = `{"spec":{"containers":[{"name":"a","image":"i"}]}}`
	for _, tt := range []struct {
		why, template, version string
		same                   bool
	}{
		{why: "the same in another spelling", template: `{ "spec" : {"containers":[{"image":"\u0069","name":"a"}],"affinity":null}}`, version: "1", same: true},
		{why: "another version", template: base, version: "1.0"},
		{why: "an empty map is something", template: `{"metadata":{},"spec":{"containers":[{"name":"a","image":"i"}]}}`, version: "1"},
		{why: "the order of a list counts", template: `{"spec":{"containers":[{"name":"b"},{"name":"a","image":"i"}]}}`, version: "1"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			want, err := Identify(parse(t, base), "1")
			if err != nil {
				t.Fatal(err)
			}
			got, err := Identify(parse(t, tt.template), tt.version)
			if err != nil {
				t.Fatal(err)
			}
			if same := want.Equal(got); same != tt.same || (want.Hash == got.Hash) != tt.same {
				t.Errorf("want equal %v, got %v with hashes %s and %s", tt.same, same, want.Hash, got.Hash)
			}
		})
	}
}

func TestIdentifyRefuses(t *testing.T) {
	for _, tt := range []struct{ why, spec, want string }{
		{why: "no JSON", spec: `{`, want: "cannot identify spec: cannot read JSON at offset 1: unexpected end"},
		{why: "no version", spec: `{"template":{}}`, want: "cannot identify spec: targetVersion is no string"},
		{why: "a number for a version (IV-02)", spec: `{"template":{},"targetVersion":1.10}`, want: "cannot identify spec: targetVersion is no string"},
		{why: "no template", spec: `{"targetVersion":"1"}`, want: "cannot identify template: it is no object"},
		{why: "a list for a template", spec: `{"targetVersion":"1","template":[]}`, want: "cannot identify template: it is no object"},
		{why: "a name twice", spec: `{"targetVersion":"1","template":{"a":1,"a":2}}`, want: `cannot identify spec: cannot read JSON at offset 45: name "a" stands twice in one object`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if got, err := IdentifySpec(json.RawMessage(tt.spec)); err == nil || err.Error() != tt.want {
				t.Errorf("want error %q, got %v and %+v", tt.want, err, got)
			}
		})
	}
}

// TestVersionsAreStrings (IV-02): what looks like a number stays as written.
func TestVersionsAreStrings(t *testing.T) {
	for _, version := range []string{"1.10", "1.1", "0e1234", "0", "007", "7", "72044000000000", "20161216", "2.0161216e+07"} {
		content, err := IdentifySpec(json.RawMessage(`{"targetVersion":"` + version + `","template":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if content.Version != version {
			t.Errorf("want %q, got %q", version, content.Version)
		}
		if other, err := Identify(parse(t, `{}`), version+"0"); err != nil || other.Hash == content.Hash {
			t.Errorf("want another hash for %s0, got %s (%v)", version, other.Hash, err)
		}
	}
}

func TestCanonicalIsIdempotent(t *testing.T) {
	text := `{"b":[1.0,{"d":null,"c":"\u003c"}],"a":` + strings.Repeat(`{"x":`, 20) + `{}` + strings.Repeat(`}`, 20) + `}`
	once, err := Canonical(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Canonical(once)
	if err != nil {
		t.Fatal(err)
	}
	if string(once) != string(twice) {
		t.Errorf("want %s, got %s", once, twice)
	}
}

func parse(t testing.TB, text string) jsontree.Value {
	t.Helper()
	v, err := jsontree.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
