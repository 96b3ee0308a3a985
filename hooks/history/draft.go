package history

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"greyrelease.example.com/hooks/jsontree"
)

// Draft is a snapshot to be made.
type Draft struct {
	Kind    Kind              // "" is ConfigMap
	Name    string            // of the ConfigMap or Secret, <release>-rev-<number>
	Number  int64             // at least 1
	Content Content           // must be the content of Spec
	Labels  map[string]string // besides number and revision
	Spec    json.RawMessage   // the full spec as it is in the request
	// Template is the pod template as rendered for this revision.
	Template json.RawMessage
}

// NewSnapshot builds the object that keeps a revision: immutable, with the
// spec and the rendered template, gzipped where they are large. The bytes
// depend on nothing but the arguments. A *TooBigError means that it cannot be
// kept in this mode, and so must not be released.
func NewSnapshot(d Draft, mode Mode) (Holder, error) {
	if d.Number < 1 || d.Number > MaxNumber {
		return Holder{}, fmt.Errorf("cannot make snapshot %s: number %d is out of range", d.Name, d.Number)
	}
	stored, err := IdentifySpec(d.Spec)
	if err != nil {
		return Holder{}, fmt.Errorf("cannot make snapshot %s: %w", d.Name, err)
	}
	if !stored.Equal(d.Content) || stored.Hash != d.Content.Hash {
		return Holder{}, fmt.Errorf("cannot make snapshot %s: the spec has the content of %s, not of %s",
			d.Name, stored.Hash, d.Content.Hash)
	}
	spec, err := Canonical(d.Spec)
	if err != nil {
		return Holder{}, fmt.Errorf("cannot make snapshot %s: %w", d.Name, err)
	}
	labels := maps.Clone(d.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[NumberLabel] = strconv.FormatInt(d.Number, 10)
	labels[RevisionLabel] = d.Content.Hash
	h := newHolder(cmp.Or(d.Kind, ConfigMap), d.Name)
	h.Metadata.Labels = labels
	h.Metadata.Annotations = map[string]string{VersionAnnotation: d.Content.Version}
	if err := h.keep(spec, d.Template, mode); err != nil {
		return Holder{}, fmt.Errorf("cannot make snapshot %s: %w", d.Name, err)
	}
	return h, nil
}

// keep fills in what a snapshot holds, for ever.
func (h *Holder) keep(spec, template []byte, mode Mode) error {
	immutable := true
	h.Immutable = &immutable
	content := &h.Data
	var err error
	if h.Kind == Secret {
		h.Type = SecretType
		h.Data = encoded(spec, template)
	} else {
		h.Data = plain(spec, template)
	}
	if escapedSize(h.Data) > maxPlain {
		if h.Kind != Secret { // A Secret has no binaryData: all its data is base64.
			h.Data = nil
			content = &h.BinaryData
		}
		if *content, err = packed(spec, template); err != nil {
			return err
		}
	}
	return Fits(*content, mode) // the rest is within the margin
}

func plain(spec, template []byte) json.RawMessage {
	out := append([]byte{'{'}, `"`+specKey+`":`...)
	out = jsontree.AppendString(out, string(spec))
	out = append(out, `,"`+templateKey+`":`...)
	out = jsontree.AppendString(out, string(template))
	return append(out, '}')
}

// encoded is the data of a Secret. Data and not stringData: the API server turns the
// one into the other, so that stringData would be a difference, and a write, for ever.
func encoded(spec, template []byte) json.RawMessage {
	return texts("", spec, template)
}

func packed(spec, template []byte) (json.RawMessage, error) {
	if longest := max(len(spec), len(template)); longest > maxUnpacked {
		return nil, fmt.Errorf("a part of it has %d bytes, more than %d", longest, maxUnpacked)
	}
	zippedSpec, err := pack(spec)
	if err != nil {
		return nil, err
	}
	zippedTemplate, err := pack(template)
	if err != nil {
		return nil, err
	}
	return texts(gzipSuffix, zippedSpec, zippedTemplate), nil
}

// texts writes both parts as base64, as the API server would.
func texts(suffix string, spec, template []byte) json.RawMessage {
	out := append([]byte{'{'}, `"`+specKey+suffix+`":"`...)
	out = base64.StdEncoding.AppendEncode(out, spec)
	out = append(out, `","`+templateKey+suffix+`":"`...)
	out = base64.StdEncoding.AppendEncode(out, template)
	return append(out, `"}`...)
}
