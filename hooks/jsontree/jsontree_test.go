package jsontree

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ why, text, want string }{
		{why: "names are sorted at every level", text: `{"b":{"d":1,"c":2},"a":[{"f":1,"e":2}]}`, want: `{"a":[{"e":2,"f":1}],"b":{"c":2,"d":1}}`},
		{why: "names are sorted by bytes", text: `{"é":1,"z":2,"Z":3,"":4}`, want: `{"":4,"Z":3,"z":2,"é":1}`},
		{why: "no space", text: " { \"a\" :\t[ 1 ,\r\n 2 ] } \n", want: `{"a":[1,2]}`},
		{why: "null members are absent", text: `{"a":null,"b":{"c":null}}`, want: `{"b":{}}`},
		{why: "nulls in arrays have a place", text: `[null,{"a":[null]}]`, want: `[null,{"a":[null]}]`},
		{why: "empty values stay", text: `{"a":{},"b":[],"c":""}`, want: `{"a":{},"b":[],"c":""}`},
		{why: "no HTML escapes", text: `"\u003ca\u0026b\u003e \u2028"`, want: "\"<a&b> \u2028\""},
		{why: "short escapes", text: `"\u0022\u005c\u002f\u0008\u000c\u000a\u000d\u0009\u0001\u001F\u007f"`, want: `"\"\\/\b\f\n\r\t\u0001\u001f` + "\x7f\""},
		{why: "a pair of surrogates", text: `"\ud83d\ude00"`, want: `"😀"`},
		{why: "surrogates without a partner", text: `"\ud83d \ude00\ud83d\u0041"`, want: `"� ��A"`},
		{why: "invalid UTF-8, one mark a byte", text: "{\"\xff\":\"a\xe2\x82b\xc0\"}", want: `{"�":"a��b�"}`},
		{why: "words", text: `[true,false,null]`, want: `[true,false,null]`},
		{why: "integers", text: `[5,5.0,5e0,50e-1,0.5e1,5.000E+0,-5.0]`, want: `[5,5,5,5,5,5,-5]`},
		{why: "zeros", text: `[0,-0,0.0,-0.00e5,0e999999]`, want: `[0,0,0,0,0]`},
		{why: "beyond float64", text: `[9007199254740993,9223372036854775807,18446744073709551616]`, want: `[9007199254740993,9223372036854775807,18446744073709551616]`},
		{why: "longer than a plain number, and nothing lost", text: `[1234567890123456789012345,1000000000000000000000,10000000000000000000000]`, want: `[1234567890123456789012345,1e21,1e22]`},
		{why: "up to 21 digits are written out", text: `[1e20,1e21,12e19]`, want: `[100000000000000000000,1e21,120000000000000000000]`},
		{why: "fractions", text: `[1.50,0.5,0.00025,2.5e-9,15e-1,123.456e1,0.000001,0.0000001]`, want: `[1.5,0.5,0.00025,25e-10,1.5,1234.56,0.000001,1e-7]`},
		{why: "large exponents", text: `[1e400,-1E-400,10e999999]`, want: `[1e400,-1e-400,1e1000000]`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			v, err := Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(Canonical(v)); got != tt.want {
				t.Errorf("want %s, got %s", tt.want, got)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ why, text, want string }{
		{why: "nothing", text: "", want: "cannot read JSON at offset 0: unexpected end"},
		{why: "more than one value", text: "1 2", want: `cannot read JSON at offset 2: unexpected "2"`},
		{why: "a name twice", text: `{"a":1,"b":2,"a":1}`, want: `cannot read JSON at offset 19: name "a" stands twice in one object`},
		{why: "a name twice, spelled differently", text: `{"a":1,"\u0061":1}`, want: `cannot read JSON at offset 18: name "a" stands twice in one object`},
		{why: "a comma too many", text: `[1,]`, want: `cannot read JSON at offset 3: unexpected "]"`},
		{why: "no comma", text: `[1 2]`, want: `cannot read JSON at offset 3: unexpected "2"`},
		{why: "a bare name", text: `{a:1}`, want: `cannot read JSON at offset 1: unexpected "a"`},
		{why: "no colon", text: `{"a" 1}`, want: `cannot read JSON at offset 5: unexpected "1"`},
		{why: "no end of an object", text: `{"a":1`, want: "cannot read JSON at offset 6: unexpected end"},
		{why: "no end of a string", text: `"abc`, want: "cannot read JSON at offset 4: unexpected end"},
		{why: "no end of a string with an escape", text: `"ab\n`, want: "cannot read JSON at offset 5: unexpected end"},
		{why: "a line break in a string", text: "\"a\n\"", want: `cannot read JSON at offset 2: unexpected "\n"`},
		{why: "an escape that is none", text: `"\x"`, want: `cannot read JSON at offset 1: unexpected "\\"`},
		{why: "half an escape", text: `"\u00"`, want: `cannot read JSON at offset 1: unexpected "\\"`},
		{why: "a leading zero", text: `01`, want: `cannot read JSON at offset 1: unexpected "1"`},
		{why: "a leading plus", text: `+1`, want: `cannot read JSON at offset 0: unexpected "+"`},
		{why: "a bare minus", text: `-`, want: "cannot read JSON at offset 1: unexpected end"},
		{why: "a bare point", text: `1.`, want: "cannot read JSON at offset 2: unexpected end"},
		{why: "a bare exponent", text: `1e+`, want: "cannot read JSON at offset 3: unexpected end"},
		{why: "an exponent nobody can compute", text: `1e1000000`, want: "cannot read JSON at offset 9: number 1e1000000 is out of range"},
		{why: "NaN", text: `NaN`, want: `cannot read JSON at offset 0: unexpected "N"`},
		{why: "half a word", text: `tru`, want: `cannot read JSON at offset 0: unexpected "t"`},
		{why: "nesting", text: strings.Repeat("[", 300) + strings.Repeat("]", 300), want: "cannot read JSON at offset 201: nested too deeply"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if v, err := Parse([]byte(tt.text)); err == nil || err.Error() != tt.want {
				t.Errorf("want error %q, got %v and %s", tt.want, err, Canonical(v))
			}
		})
	}
}

func TestParseVerbatim(t *testing.T) {
	v, err := ParseVerbatim([]byte(`{"b": 1.0, "a": ["\u003c", null, 5e0, {"c":null}], "d": true}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":["\u003c",null,5e0,{"c":null}],"b":1.0,"d":true}`
	if got := string(Canonical(v)); got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestEditing(t *testing.T) {
	v, err := Parse([]byte(`{"b":{"x":1},"d":2}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		why  string
		got  Value
		want string
	}{
		{why: "at the front", got: v.With("a", Text("new")), want: `{"a":"new","b":{"x":1},"d":2}`},
		{why: "in the middle", got: v.With("c", List([]Value{Text("new")})), want: `{"b":{"x":1},"c":["new"],"d":2}`},
		{why: "at the end", got: v.With("e", Value{Kind: Object}), want: `{"b":{"x":1},"d":2,"e":{}}`},
		{why: "in place of another", got: v.With("b", Text("new")), want: `{"b":"new","d":2}`},
		{why: "in nothing", got: Value{}.With("a", Text("new")), want: `{"a":"new"}`},
		{why: "one removed", got: v.Without("b"), want: `{"d":2}`},
		{why: "none to remove", got: v.Without("a"), want: `{"b":{"x":1},"d":2}`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if got := string(Canonical(tt.got)); got != tt.want {
				t.Errorf("want %s, got %s", tt.want, got)
			}
			if got, want := string(Canonical(v)), `{"b":{"x":1},"d":2}`; got != want {
				t.Errorf("want the original as it was, %s, got %s", want, got)
			}
		})
	}
	if x, ok := v.At("b", "x"); !ok || x.Number() != "1" {
		t.Errorf("want 1, got %+v", x)
	}
	if _, ok := v.At("b", "x", "y"); ok {
		t.Error("want nothing below a number")
	}
}

func TestEqual(t *testing.T) {
	for _, tt := range []struct {
		a, b        string
		equal, zero bool // zero is what is expected of a alone
	}{
		{a: `{"a":1,"b":[2]}`, b: `{"b":[2.0],"a":10e-1}`, equal: true},
		{a: `{"a":null}`, b: `{}`},
		{a: `{}`, b: `{"a":1}`, zero: true},
		{a: `[1,2]`, b: `[2,1]`},
		{a: `"1"`, b: `1`},
		{a: `0.0`, b: `-0`, equal: true, zero: true},
		{a: `"<"`, b: `"\u003c"`, equal: true},
		{a: `""`, b: `null`, zero: true},
		{a: `[]`, b: `[]`, equal: true, zero: true},
		{a: `false`, b: `true`, zero: true},
		{a: `null`, b: `null`, equal: true, zero: true},
		{a: `1`, b: `1.5`},
	} {
		a, err := Parse([]byte(tt.a))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse([]byte(tt.b))
		if err != nil {
			t.Fatal(err)
		}
		if got := Equal(a, b); got != tt.equal {
			t.Errorf("%s and %s: want %v, got %v", tt.a, tt.b, tt.equal, got)
		}
		if got := a.IsZero(); got != tt.zero {
			t.Errorf("%s is zero: want %v, got %v", tt.a, tt.zero, got)
		}
	}
}

// FuzzParse compares with encoding/json: the same texts are JSON, but for a
// name that stands twice and for bounds; the same values come out; white space is
// the same; and the canonical form is its own canonical form.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"spec":{"containers":[{"name":"a","args":["<&>","\u2028\ud800"],"x":[1.5e3,-0,null,true]}]}}`,
		`{"a":1,"a":2}`, `[[[]]]`, "\"\xff\"", `1e5`, `[1,]`, `"\u12"`, ` 0.10 `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		if err != nil {
			bounded := strings.Contains(err.Error(), "stands twice") || strings.Contains(err.Error(), "out of range") ||
				strings.Contains(err.Error(), "nested too deeply")
			if json.Valid(data) && !bounded {
				t.Fatalf("%q is JSON: %v", data, err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is no JSON", data)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatal(err)
		}
		if got := AppendCompact(nil, data); !bytes.Equal(compact.Bytes(), got) {
			t.Fatalf("want %q, got %q", compact.Bytes(), got)
		}
		text := Canonical(v)
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("canonical form %q of %q: %v", text, data, err)
		}
		if twice := Canonical(again); !bytes.Equal(text, twice) {
			t.Fatalf("want %q again, got %q", text, twice)
		}
		if !utf8.Valid(text) {
			t.Fatalf("want UTF-8, got %q", text)
		}
		if want, got := withoutNulls(decode(t, data)), withoutNulls(decode(t, text)); !reflect.DeepEqual(want, got) {
			t.Fatalf("%q: want %v, got %v", data, want, got)
		}
	})
}

// decode reads with encoding/json and brings numbers to their canonical form,
// which TestCanonical pins.
func decode(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, w := range v {
			if w == nil {
				delete(v, name)
				continue
			}
			v[name] = withoutNulls(w)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	case json.Number:
		return Value{Kind: Number, Text: string(v)}.Number()
	}
	return v
}
