package history

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"greyrelease.example.com/hooks/jsontree"
)

// Draft is a snapshot to be made.
type Draft struct {
	Name    string            // of the ConfigMap, <release>-rev-<number>
	Number  int64             // at least 1
	Content Content           // must be the content of Spec
	Labels  map[string]string // besides number and revision
	Spec    json.RawMessage   // the full spec as it is in the request
	// Template is the pod template as rendered for this revision.
	Template json.RawMessage
}

// NewSnapshot builds the ConfigMap that keeps a revision: immutable, with the
// spec and the rendered template, gzipped where they are large. The bytes
// depend on nothing but the arguments. A *TooBigError means that it cannot be
// kept in this mode, and so must not be released.
func NewSnapshot(d Draft, mode Mode) (ConfigMap, error) {
	if d.Number < 1 || d.Number > MaxNumber {
		return ConfigMap{}, fmt.Errorf("cannot make snapshot %s: number %d is out of range", d.Name, d.Number)
	}
	stored, err := IdentifySpec(d.Spec)
	if err != nil {
		return ConfigMap{}, fmt.Errorf("cannot make snapshot %s: %w", d.Name, err)
	}
	if !stored.Equal(d.Content) || stored.Hash != d.Content.Hash {
		return ConfigMap{}, fmt.Errorf("cannot make snapshot %s: the spec has the content of %s, not of %s",
			d.Name, stored.Hash, d.Content.Hash)
	}
	spec, err := Canonical(d.Spec)
	if err != nil {
		return ConfigMap{}, fmt.Errorf("cannot make snapshot %s: %w", d.Name, err)
	}
	immutable := true
	c := newConfigMap(d.Name)
	c.Metadata.Labels = maps.Clone(d.Labels)
	if c.Metadata.Labels == nil {
		c.Metadata.Labels = map[string]string{}
	}
	c.Metadata.Labels[NumberLabel] = strconv.FormatInt(d.Number, 10)
	c.Metadata.Labels[RevisionLabel] = d.Content.Hash
	c.Metadata.Annotations = map[string]string{VersionAnnotation: d.Content.Version}
	c.Immutable = &immutable
	c.Data = plain(spec, d.Template)
	if escapedSize(c.Data) > maxPlain {
		c.Data = nil
		if c.BinaryData, err = packed(spec, d.Template); err != nil {
			return ConfigMap{}, fmt.Errorf("cannot make snapshot %s: %w", d.Name, err)
		}
	}
	content := c.Data
	if content == nil {
		content = c.BinaryData
	}
	if err := Fits(content, mode); err != nil { // the rest is within the margin
		return ConfigMap{}, fmt.Errorf("cannot make snapshot %s: %w", d.Name, err)
	}
	return c, nil
}

func plain(spec, template []byte) json.RawMessage {
	out := append([]byte{'{'}, `"`+specKey+`":`...)
	out = jsontree.AppendString(out, string(spec))
	out = append(out, `,"`+templateKey+`":`...)
	out = jsontree.AppendString(out, string(template))
	return append(out, '}')
}

func packed(spec, template []byte) (json.RawMessage, error) {
	out := []byte{'{'}
	for i, part := range []struct {
		key  string
		text []byte
	}{{specKey, spec}, {templateKey, template}} {
		if len(part.text) > maxUnpacked {
			return nil, fmt.Errorf("%s has %d bytes, more than %d", part.key, len(part.text), maxUnpacked)
		}
		zipped, err := pack(part.text)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `"`+part.key+gzipSuffix+`":"`...)
		out = base64.StdEncoding.AppendEncode(out, zipped)
		out = append(out, '"')
	}
	return append(out, '}'), nil
}
