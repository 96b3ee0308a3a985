package jsontree

import "testing"

func TestParseMember(t *testing.T) {
	for _, tt := range []struct {
		why, text, want string // want is canonical, "" for none
	}{
		{"the first", `{"a":1,"b":2}`, `1`},
		{"behind a text full of signs", `{"b":"{\"a\":0},]\\","a":[1,{"a":2}]}`, `[1,{"a":2}]`},
		{"behind objects and lists with members of its name", `{"b":{"a":[{"a":"]}"}]},"c":[["a"],{}],"a":"\u0041"}`, `"A"`},
		{"behind numbers and words, with blanks", " { \"b\" : -1.5e3 , \"c\" : true , \"d\" : null , \"a\" : { } } ", `{}`},
		{"none", `{"b":1,"c":{"a":1}}`, ""},
		{"no member at all", `{}`, ""},
		{"no object", `["a",1]`, ""},
		{"null", `null`, ""},
	} {
		got, found, err := ParseMember([]byte(tt.text), "a")
		if err != nil || found != (tt.want != "") || found && string(Canonical(got)) != tt.want {
			t.Errorf("%s: want %q, got %q, %v, %v", tt.why, tt.want, Canonical(got), found, err)
		}
	}
	for _, text := range []string{``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":x}`, `{"a":1,"a":2}`, `{"b":1 "a":2}`, `{a:1}`, `x`} {
		if got, found, err := ParseMember([]byte(text), "a"); err == nil {
			t.Errorf("%s: want an error, got %q, %v", text, Canonical(got), found)
		}
	}
}

// FuzzParseMember: of what is JSON it finds what Parse finds, and it ends for
// anything else too.
func FuzzParseMember(f *testing.F) {
	for _, text := range []string{`{"b":"\"a\":{","a":[1,{"a":2}],"c":{"d":[]}}`, `{"a":1,"a":2}`, `[{"a":1}]`, `{"b":[}`, `{"b":"\`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, found, err := ParseMember(text, "a")
		whole, wholeErr := Parse(text)
		if wholeErr != nil {
			return // another member may stand twice, or nothing fits
		}
		if want, ok := whole.Get("a"); err != nil || found != ok || !Equal(got, want) {
			t.Errorf("%s: want %s, got %s, %v, %v", text, Canonical(want), Canonical(got), found, err)
		}
	})
}
