package composite

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"greyrelease.example.com/hooks/jsontree"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

// parted is a ConfigMap with one part.
type parted struct{ name, text string }

func (p parted) Parts() (object any, parts []jsontree.Field) {
	return map[string]any{"kind": "ConfigMap"}, []jsontree.Field{{Name: p.name, Raw: []byte(p.text)}}
}

func TestEncodeGolden(t *testing.T) {
	full := &SyncResponse{
		Status: map[string]any{"phase": "Progressing", "message": "2 < 5 && 5 > 2 \u2028 \"灰度\"", "zero": 0, "big": int64(9007199254740993)},
		Children: []any{
			json.RawMessage("{\"kind\": \"ConfigMap\",\n \"b\": \"<\\u003c\", \"a\": 1.0}"),
			map[string]any{"z": 1, "kind": "Deployment", "a": map[string]any{"y": nil, "x": []any{}}},
			struct {
				Kind string `json:"kind"`
				Name string `json:"name,omitempty"`
			}{Kind: "Service"},
			parted{"data", "{ \"a b\" : \"\\\" \\u003c\",\n\t\"c\": [ 1.0,\r {} ] }"},
			parted{"data", ""},
		},
		ResyncAfterSeconds: 30,
		Finalized:          true,
	}
	for _, row := range []struct {
		file   string
		answer interface{ Encode() ([]byte, error) }
	}{
		{"full.golden", full},
		{"empty.golden", &SyncResponse{}},
		{"finalized.golden", &SyncResponse{Status: map[string]any{}, Finalized: true}},
		{"resync.golden", &SyncResponse{Status: json.RawMessage(`{"a":1}`), Children: []any{}, ResyncAfterSeconds: 86400000000000000000000}},
		{"customize.golden", &CustomizeResponse{RelatedResources: []any{map[string]any{"resource": "pods", "apiVersion": "v1"}}}},
		{"customize-empty.golden", &CustomizeResponse{}},
	} {
		t.Run(row.file, func(t *testing.T) {
			got, err := row.answer.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile("testdata/"+row.file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile("testdata/" + row.file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("want %s\ngot  %s", want, got)
			}
			for range 100 {
				again, err := row.answer.Encode()
				if err != nil || !bytes.Equal(got, again) {
					t.Fatalf("want the same bytes each time, got %s (%v), then %s", got, err, again)
				}
			}
		})
	}
}

// Metacontroller decodes strictly under hook v2: no field that it does not know.
func TestEncodeHasOnlyFieldsOfTheProtocol(t *testing.T) {
	got, err := (&SyncResponse{ResyncAfterSeconds: 1.5, Finalized: true}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status             map[string]any   `json:"status"`
		Children           []map[string]any `json:"children"`
		ResyncAfterSeconds float64          `json:"resyncAfterSeconds"`
		Finalized          bool             `json:"finalized"`
	}
	decoder := json.NewDecoder(bytes.NewReader(got))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Children == nil || answer.ResyncAfterSeconds != 1.5 || !answer.Finalized {
		t.Errorf("want children [], 1.5 and true, got %s", got)
	}
}

func TestEncodeRefuses(t *testing.T) {
	var noObject *struct{}
	for _, row := range []struct {
		name, want string
		answer     interface{ Encode() ([]byte, error) }
	}{
		{"null child", "cannot encode children[1]: not an object", &SyncResponse{Children: []any{map[string]any{}, nil}}},
		{"typed null child", "cannot encode children[0]: not an object", &SyncResponse{Children: []any{noObject}}},
		{"raw null child", "cannot encode children[0]: not an object", &SyncResponse{Children: []any{json.RawMessage(`null`)}}},
		{"list as child", "cannot encode children[0]: not an object", &SyncResponse{Children: []any{[]any{}}}},
		{"broken child", "cannot encode children[0]: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input", &SyncResponse{Children: []any{json.RawMessage(`{`)}}},
		{"broken status", "cannot encode status: json: unsupported type: func()", &SyncResponse{Status: func() {}}},
		{"negative time", "cannot encode answer: resyncAfterSeconds is -1", &SyncResponse{ResyncAfterSeconds: -1}},
		{"no time", "cannot encode answer: resyncAfterSeconds is NaN", &SyncResponse{ResyncAfterSeconds: math.NaN()}},
		{"endless time", "cannot encode answer: resyncAfterSeconds is +Inf", &SyncResponse{ResyncAfterSeconds: math.Inf(1)}},
		{"null rule", "cannot encode relatedResources[0]: not an object", &CustomizeResponse{RelatedResources: []any{nil}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := row.answer.Encode()
			if err == nil {
				t.Fatalf("want %q, got %s", row.want, got)
			}
			if row.want != err.Error() {
				t.Errorf("want %s\ngot  %s", row.want, err)
			}
		})
	}
}
