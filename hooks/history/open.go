package history

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"greyrelease.example.com/hooks/jsontree"
)

// has is a cheap look at whether a part is there. Inside JSON strings quotes
// are escaped, so that the quoted key can't be part of another text.
func (s Snapshot) has(key string) bool {
	zipped := s.object.BinaryData
	if s.object.Kind == Secret {
		zipped = s.object.Data
	}
	return bytes.Contains(s.object.Data, []byte(`"`+key+`"`)) || bytes.Contains(zipped, []byte(`"`+key+gzipSuffix+`"`))
}

// Spec is the full spec as it was. The error is a *BrokenError.
func (s Snapshot) Spec() (json.RawMessage, error) {
	_, spec, err := s.open()
	return spec, err
}

// Content is the content of the stored spec, checked against the label. The
// error is a *BrokenError.
func (s Snapshot) Content() (Content, error) {
	content, _, err := s.open()
	return content, err
}

func (s Snapshot) open() (Content, json.RawMessage, error) {
	spec, err := s.part(specKey)
	if err != nil {
		return Content{}, nil, s.broken(err)
	}
	content, err := IdentifySpec(spec)
	if err != nil {
		return Content{}, nil, s.broken(fmt.Errorf("%s: %w", specKey, err))
	}
	if content.Hash != s.Hash {
		return Content{}, nil, s.broken(fmt.Errorf("%s has the hash %s and the label says %s", specKey, content.Hash, s.Hash))
	}
	return content, spec, nil
}

// states is a quick look whether the stored spec has the content: it is canonical,
// so that the two members stand in it as they are hashed. Within a string their
// quotes would have backslashes.
func (s Snapshot) states(c Content) bool {
	spec, err := s.part(specKey)
	return err == nil && len(c.members) > 0 && bytes.Contains(spec, c.members)
}

// Template is a pod template as it was rendered: its text and what it means.
type Template struct {
	Text json.RawMessage
	Tree jsontree.Value
}

// Template is the pod template as it was rendered then. The error is a
// *BrokenError; it is one as well when the template does not select the
// revision.
func (s Snapshot) Template() (Template, error) {
	text, err := s.part(templateKey)
	if err != nil {
		return Template{}, s.broken(err)
	}
	tree, err := jsontree.Parse(text)
	if err != nil {
		return Template{}, s.broken(fmt.Errorf("%s: %w", templateKey, err))
	}
	if label, _ := tree.At("metadata", "labels", RevisionLabel); label.Kind != jsontree.String || label.Text != s.Hash {
		return Template{}, s.broken(fmt.Errorf("%s does not carry the label of revision %s", templateKey, s.Hash))
	}
	return Template{Text: text, Tree: tree}, nil
}

func (s Snapshot) broken(err error) error {
	return &BrokenError{Kind: s.Kind, Name: s.Name, Number: s.Number, Reason: err.Error()}
}

// part finds a part in data or, unpacked, where it is gzipped.
func (s Snapshot) part(key string) (json.RawMessage, error) {
	if s.Broken != "" {
		return nil, errors.New(s.Broken)
	}
	text, found, err := member(s.object.Data, key)
	switch {
	case err != nil:
		return nil, err
	case found && s.object.Kind == Secret:
		return decoded(key, text)
	case found:
		return json.RawMessage(text), nil
	}
	in := s.object.BinaryData
	if s.object.Kind == Secret {
		in = s.object.Data
	}
	if text, found, err = member(in, key+gzipSuffix); err != nil {
		return nil, err
	}
	if !found {
		return nil, errors.New("it has no " + key)
	}
	zipped, err := decoded(key+gzipSuffix, text)
	if err != nil {
		return nil, err
	}
	unpacked, err := unpack(zipped)
	if err != nil {
		return nil, fmt.Errorf("cannot unpack %s%s: %w", key, gzipSuffix, err)
	}
	return unpacked, nil
}

func decoded(key, text string) ([]byte, error) {
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no base64: %w", key, err)
	}
	return out, nil
}

// member reads one string out of a JSON object of strings.
func member(object json.RawMessage, key string) (text string, found bool, err error) {
	if len(object) == 0 {
		return "", false, nil
	}
	m, found, err := jsontree.ParseMember(object, key)
	if err != nil || !found {
		return "", false, err
	}
	if m.Kind != jsontree.String {
		return "", false, fmt.Errorf("%s is no string", key)
	}
	return m.Text, true, nil
}
