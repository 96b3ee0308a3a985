package history

import (
	"encoding/json"
	"maps"

	"greyrelease.example.com/hooks/jsontree"
)

// RecordKey is where the record stands in the data of its ConfigMap.
const RecordKey = "record.json"

// RecordText returns the text of the record; found is false when there is none.
func RecordText(o Object) (text json.RawMessage, found bool, err error) {
	s, found, err := member(o.Data, RecordKey)
	if err != nil || !found {
		return nil, false, err
	}
	return json.RawMessage(s), true, nil
}

// RecordMap is the ConfigMap that holds the record, with the given labels and
// annotations.
// What was observed of it, if anything, keeps what is not ours to drop: other
// keys of its data, which a newer version of the service may have put there.
// Without a text the data is what was observed, byte for byte.
func RecordMap(name string, labels, annotations map[string]string, observed *Object, text json.RawMessage) Holder {
	c := newHolder(ConfigMap, name)
	c.Metadata.Labels, c.Metadata.Annotations = maps.Clone(labels), maps.Clone(annotations)
	data := jsontree.Value{Kind: jsontree.Object}
	if observed != nil {
		if text == nil {
			c.Data = observed.Data
			return c
		}
		if v, err := jsontree.Parse(observed.Data); err == nil && v.Kind == jsontree.Object {
			data = v
		}
	}
	c.Data = jsontree.Canonical(data.With(RecordKey, jsontree.Text(string(text))))
	return c
}
