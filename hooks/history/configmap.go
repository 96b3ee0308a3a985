package history

import "encoding/json"

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
