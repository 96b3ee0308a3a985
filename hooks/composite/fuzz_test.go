package composite

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzDecodeSync looks for panics, for errors that are not a BadRequestError
// of one line, and for children that get lost: what is decoded has every child
// that a plain reader of the same bytes sees. The decoder of Kubernetes decodes the
// same.
func FuzzDecodeSync(f *testing.F) {
	for _, file := range []string{"sync-v1.json", "sync-v2.json"} {
		f.Add(readRequest(f, file))
	}
	for _, seed := range []string{
		``, `null`, `{}`, `{"parent":{},"children":{}}`, `{"parent":{},"children":{"Pod.v1":{"a":null}}}`,
		`{"parent":{"spec":{"replicas":5e0}},"children":{"Pod.v1":{"a":{},"a":{}}},"Children":{}}`,
		`{"parent":{"spec":{"replicas":1e999}},"children":{}}`, "{\"parent\":{\"metadata\":{\"name\":\"\xff\"}}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decoder.Sync(data)
		var wire syncWire[parent, child, child]
		if wantErr := kjson.Unmarshal(data, &wire); err == nil && (wantErr != nil || !reflect.DeepEqual(*wire.Parent, got.Parent)) {
			t.Fatalf("want %+v, %v, got %+v", wire, wantErr, got)
		}
		if err != nil {
			var bad *BadRequestError
			if !errors.As(err, &bad) {
				t.Fatalf("want a BadRequestError, got %v", err)
			}
			if strings.ContainsAny(bad.Reason, "\r\n") || bad.Reason == "" {
				t.Fatalf("want one line, got %q", bad.Reason)
			}
			return
		}
		var plain map[string]json.RawMessage
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatalf("want JSON, got %v", err)
		}
		var children map[string]map[string]any
		if err := json.Unmarshal(plain["children"], &children); err != nil {
			t.Fatalf("want children, got %v", err)
		}
		for kind, group := range children {
			for key := range group {
				if _, there := got.Children[kind][key]; !there {
					t.Errorf("want children[%q][%q], got %+v", kind, key, got.Children)
				}
			}
		}
	})
}
