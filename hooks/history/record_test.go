package history

import (
	"encoding/json"
	"testing"
)

func TestRecord(t *testing.T) {
	labels := map[string]string{Prefix + "name": "web"}
	for _, tt := range []struct {
		why      string
		observed string // data
		text     string
		want     string // data
	}{
		{why: "new", text: `{"a":1}`, want: `{"record.json":"{\"a\":1}"}`},
		{why: "changed", observed: `{"record.json":"{\"a\":1}"}`, text: `{"a":2}`, want: `{"record.json":"{\"a\":2}"}`},
		{why: "what a newer version put next to it stays", observed: `{"later.json":"<x>","record.json":"{}"}`, text: `{"a":2}`, want: `{"later.json":"<x>","record.json":"{\"a\":2}"}`},
		{why: "emptied by hand", observed: `null`, text: `{"a":2}`, want: `{"record.json":"{\"a\":2}"}`},
		{why: "garbled", observed: `{`, text: `{"a":2}`, want: `{"record.json":"{\"a\":2}"}`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			var was *Object
			if tt.observed != "" {
				was = &Object{Name: "web-rollout", Data: json.RawMessage(tt.observed)}
			}
			c := RecordMap("web-rollout", labels, nil, was, json.RawMessage(tt.text))
			if string(c.Data) != tt.want || c.Metadata.Name != "web-rollout" || c.Metadata.Labels[Prefix+"name"] != "web" || c.Immutable != nil {
				t.Errorf("want %s, got %+v with %s", tt.want, c, c.Data)
			}
			text, found, err := RecordText(Object{Data: c.Data})
			if string(text) != tt.text || !found || err != nil {
				t.Errorf("want %s, got %s %v %v", tt.text, text, found, err)
			}
		})
	}
}

func TestRecordUnchangedByteForByte(t *testing.T) {
	data := `{ "record.json" : "{\u0022a\":1}"}`
	c := RecordMap("web-rollout", nil, nil, &Object{Name: "web-rollout", Data: json.RawMessage(data)}, nil)
	if string(c.Data) != data {
		t.Errorf("want %s, got %s", data, c.Data)
	}
}

func TestRecordTextOfOthers(t *testing.T) {
	for _, tt := range []struct{ why, data, err string }{
		{why: "nothing", data: ``},
		{why: "emptied", data: `null`},
		{why: "other keys", data: `{"a":"b"}`},
		{why: "no JSON", data: `{`, err: "cannot read JSON at offset 1: unexpected end"},
		{why: "no text", data: `{"record.json":1}`, err: "record.json is no string"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			text, found, err := RecordText(Object{Data: json.RawMessage(tt.data)})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if found || text != nil || got != tt.err {
				t.Errorf("want nothing and %q, got %s %v %q", tt.err, text, found, got)
			}
		})
	}
}
