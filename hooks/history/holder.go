package history

import (
	"encoding/json"

	"greyrelease.example.com/hooks/jsontree"
)

// Kind is a kind of object that a snapshot can be kept in.
type Kind string

const (
	// ConfigMap keeps a snapshot where users can read it.
	ConfigMap Kind = "ConfigMap"
	// Secret keeps a snapshot from those who may read ConfigMaps alone.
	Secret Kind = "Secret"
)

// SecretType is the type of Secrets that are snapshots. A type never changes, so that
// a Secret of somebody else's that has our name is never taken over in server-side
// apply: the API server refuses the whole write.
const SecretType = Prefix + "snapshot"

// Object is an observed ConfigMap or Secret, as far as this package reads it.
type Object struct {
	Kind        Kind
	Name        string
	UID         string
	Created     string // metadata.creationTimestamp, RFC 3339 in UTC
	Deleting    bool
	Labels      map[string]string
	Annotations map[string]string
	Immutable   *bool
	Type        string // of a Secret
	// Data and BinaryData are the JSON objects as they came; they are decoded
	// only for the few snapshots that a sync opens. A Secret has all in Data, as
	// base64.
	Data       json.RawMessage
	BinaryData json.RawMessage
}

// Holder is a ConfigMap or a Secret to answer with: only the fields that are ours.
type Holder struct {
	APIVersion string          `json:"apiVersion"`
	Kind       Kind            `json:"kind"`
	Metadata   Metadata        `json:"metadata"`
	Immutable  *bool           `json:"immutable,omitempty"`
	Type       string          `json:"type,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	BinaryData json.RawMessage `json:"binaryData,omitempty"`
}

// Metadata is the metadata of an object to answer with. The namespace is
// left out: it is the parent's, whatever anybody writes.
type Metadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func newHolder(kind Kind, name string) Holder {
	return Holder{APIVersion: "v1", Kind: kind, Metadata: Metadata{Name: name}}
}

// Parts are data and binaryData, which were observed or made by this package: of 50
// snapshots they are all but all bytes.
func (h Holder) Parts() (object any, parts []jsontree.Field) {
	parts = []jsontree.Field{{Name: "data", Raw: h.Data}, {Name: "binaryData", Raw: h.BinaryData}}
	h.Data, h.BinaryData = nil, nil
	return h, parts
}
