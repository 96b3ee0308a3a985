package jsontree

import (
	"encoding/json"
	"reflect"
	"testing"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

type everything struct {
	Text     string          `json:"text"`
	Yes      bool            `json:"yes"`
	Number   int64           `json:"number,omitempty"`
	Small    int32           `json:"small"`
	Raw      json.RawMessage `json:"raw"`
	Own      doubled         `json:"own"`
	Pointers struct {
		Text   *string          `json:"text"`
		Own    *doubled         `json:"own"`
		Raw    *json.RawMessage `json:"raw"`
		Itself *everything      `json:"itself"`
	} `json:"pointers"`
	Texts    []string                     `json:"texts"`
	List     []struct{ A, B string }      `json:"list"`
	Labels   map[string]string            `json:"labels"`
	Tables   map[string]map[string]*inner `json:"tables"`
	Never    string                       `json:"-"`
	Fraction float64                      `json:"fraction"`
	Single   float32                      `json:"single"`
	Bytes    []byte                       `json:"bytes"`
}

type inner struct {
	counts
	Name string
}

type counts struct {
	Ready int64 `json:"ready"`
}

// doubled is a number that decodes itself.
type doubled int

func (d *doubled) UnmarshalJSON(text []byte) error {
	var n int
	err := json.Unmarshal(text, &n)
	*d = doubled(2 * n)
	return err
}

var decoder, folding = NewDecoder[everything](), NewFoldingDecoder[everything]()

// seeds are texts that are decoded, or given up on.
var seeds = []struct {
	text string
	ok   bool
}{
	{`{}`, true},
	{" {\r\n\t} ", true},
	{`null`, true},
	{`{"text":"a","yes":true,"number":-5,"small":7,"raw":{"a" : [1]},"own":4,"unknown":[{"a":"\u0041"},-1.5e3,true,false,null,{},[]]}`, true},
	{`{"text":null,"yes":null,"number":null,"raw":null,"own":null,"labels":null,"tables":null,"list":null,"texts":null,"pointers":null}`, true},
	{`{"pointers":{"text":"a","own":2,"raw":[],"itself":{"pointers":{"text":null,"own":null,"raw":null,"itself":null}}}}`, true},
	{`{"texts":["a","",null],"list":[{"A":"1","B":"2"},{"b":"3"},{}],"labels":{"a":"b","":"c"},"tables":{"x":{"y":{"Name":"n","ready":3},"z":null},"w":{}}}`, true},
	{`{"texts":[],"list":[],"labels":{},"tables":{}}`, true},
	{`{"text":"\ud83d\ude00\ud83d \"\\\/\b\f\n\r\t<&>","labels":{"\u0061":"b"}}`, true},
	{`{"Text":"other","TEXT":7,"Number":"x","never":1,"Never":1,"-":2}`, true},
	{`{"fraction":-1.50e-3}`, true}, {`{"fraction":9007199254740993}`, true},
	{`{"number":9223372036854775807,"small":-2147483648,"unknown":{"a":1,"a":2}}`, true},

	{``, false},
	{`{"te\u0078t":"a"}`, false},
	{`{"text":"a","text":"b"}`, false},
	{`{"pointers":{"text":"a"},"pointers":{"own":1}}`, false},
	{`{"labels":{"a":"b","\u0061":"c"}}`, false},
	{`{"tables":{"a":{},"a":{}}}`, false},
	{`{"list":[{"A":"1"}],"list":[{"B":"2"}]}`, false},
	{`{"text":1}`, false}, {`{"yes":"true"}`, false}, {`{"yes":tru}`, false}, {`{"number":"1"}`, false}, {`{"number":1.5}`, false},
	{`{"number":9223372036854775808}`, false}, {`{"small":2147483648}`, false}, {`{"own":"x"}`, false}, {`{"texts":{}}`, false},
	{`{"texts":[1]}`, false}, {`{"labels":[]}`, false}, {`{"labels":{"a":null}}`, false}, {`{"pointers":[]}`, false}, {`[]`, false}, {`"x"`, false},
	{`{"fraction":"1.5"}`, false}, {`{"fraction":1e400}`, false}, {`{"single":1.5}`, false}, {`{"bytes":"AAAA"}`, false},
	{`{"unknown":01}`, false}, {`{"unknown":[1,]}`, false}, {`{"unknown":{"a"}}`, false}, {`{"unknown":"\x"}`, false}, {`{"unknown":"` + "\n" + `"}`, false},
	{`{"unknown":}`, false}, {`{"unknown":nul}`, false}, {`{"a":1,}`, false}, {`{"a":1 "b":2}`, false}, {`{"a":1}}`, false}, {`{"a":1`, false}, {`{"a`, false},
	{`{"texts":["a",]}`, false}, {`{"texts":["a" "b"]}`, false}, {`{"texts":["a"`, false}, {`{a:1}`, false}, {`{"a" 1}`, false},
}

func TestDecoder(t *testing.T) {
	for _, seed := range seeds {
		if _, ok := decoder.Decode([]byte(seed.text)); ok != seed.ok {
			t.Errorf("%s: want %v, got %v", seed.text, seed.ok, ok)
		}
	}
}

func TestFoldingDecoderLeavesOtherSpellings(t *testing.T) {
	for text, want := range map[string]bool{
		`{"text":"a","other":1}`: true, `{"Text":"a"}`: false, `{"TEXT":"a"}`: false, `{"other":{"Text":"a"}}`: true,
		`{"tables":{"a":{"b":{"name":"c"}}}}`: false, `{"tables":{"a":{"b":{"READY":1}}}}`: false, `{"tables":{"a":{"b":{"Name":"c","x":1}}}}`: true,
		// The long s and the Kelvin sign.
		"{\"te\u017ft\":1}": true, "{\"text\u017f\":1}": false, "{\"ye\u017f\":1}": false,
	} {
		if _, ok := folding.Decode([]byte(text)); ok != want {
			t.Errorf("%s: want %v, got %v", text, want, ok)
		}
	}
}

// FuzzDecoder: what is decoded is what the decoder of Kubernetes decodes, and what the
// folding one decodes is what encoding/json decodes.
func FuzzDecoder(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := string(data)
		got, ok := decoder.Decode(data)
		if string(data) != before {
			t.Fatalf("%s was changed to %s", before, data)
		}
		if folded, ok := folding.Decode(data); ok {
			var want everything
			if err := json.Unmarshal(data, &want); err != nil || !reflect.DeepEqual(&want, folded) {
				t.Fatalf("%s: want %+v, %v, got %+v", data, want, err, folded)
			}
		}
		if !ok {
			return
		}
		var want everything
		if err := kjson.Unmarshal(data, &want); err != nil {
			t.Fatalf("%s: want an error, %v, got %+v", data, err, got)
		}
		if !reflect.DeepEqual(&want, got) {
			t.Fatalf("%s: want %+v, got %+v", data, want, got)
		}
	})
}
