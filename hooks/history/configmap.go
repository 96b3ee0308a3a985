package history

import (
	"encoding/json"

	"greyrelease.example.com/hooks/jsontree"
)

// Object is an observed ConfigMap, as far as this package reads it.
type Object struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	Immutable   *bool
	// Data and BinaryData are the JSON objects as they came; they are decoded
	// only for the few snapshots that a sync opens.
	Data       json.RawMessage
	BinaryData json.RawMessage
}

// ConfigMap is a ConfigMap to answer with: only the fields that are ours.
type ConfigMap struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   Metadata        `json:"metadata"`
	Immutable  *bool           `json:"immutable,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	BinaryData json.RawMessage `json:"binaryData,omitempty"`
}

// Metadata is the metadata of a ConfigMap to answer with. The namespace is
// left out: it is the parent's, whatever anybody writes.
type Metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func newConfigMap(name string) ConfigMap {
	return ConfigMap{APIVersion: "v1", Kind: "ConfigMap", Metadata: Metadata{Name: name}}
}

// Parts are data and binaryData, which were observed or made by this package: of 50
// snapshots they are all but all bytes.
func (c ConfigMap) Parts() (object any, parts []jsontree.Field) {
	parts = []jsontree.Field{{Name: "data", Raw: c.Data}, {Name: "binaryData", Raw: c.BinaryData}}
	c.Data, c.BinaryData = nil, nil
	return c, parts
}
