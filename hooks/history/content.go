package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"greyrelease.example.com/hooks/jsontree"
)

// hashDigits is how many hex digits of the SHA-256 name a revision. 40 bits
// make an accidental collision among 1000 revisions of one release a matter
// of 1 in two million; contents are compared all the same.
const hashDigits = 10

// Canonical is the canonical form of a JSON text: names sorted, no space, null
// members dropped, numbers by value and never rounded, no HTML escapes. Two
// texts that mean the same have the same form. A name that stands twice in one
// object is an error, for nobody can say which of the two was meant.
func Canonical(raw json.RawMessage) ([]byte, error) {
	v, err := jsontree.Parse(raw)
	if err != nil {
		return nil, err
	}
	return jsontree.Canonical(v), nil
}

// Content is what makes a revision: two specs with equal content are the same
// revision, whatever their replicas and rollout settings.
type Content struct {
	// Version is the targetVersion.
	Version string
	// Template is the pod template as the user wrote it, in canonical form.
	Template []byte
	// Hash is the first 10 hex digits of the SHA-256 over the canonical JSON of
	// {"targetVersion": Version, "template": Template}.
	Hash string

	// members is what is hashed, without the braces: a canonical spec with this
	// content has it as a part.
	members []byte
}

// Equal compares the content itself, not only its hash.
func (c Content) Equal(other Content) bool {
	return c.Version == other.Version && bytes.Equal(c.Template, other.Template)
}

// Identify computes the content of a pod template and a version. It fails when
// the template is no object.
func Identify(template jsontree.Value, version string) (Content, error) {
	if template.Kind != jsontree.Object {
		return Content{}, errors.New("cannot identify template: it is no object")
	}
	const before, between, after = `{"targetVersion":`, `,"template":`, `}`
	buf := jsontree.AppendString([]byte(before), version)
	buf = append(buf, between...)
	start := len(buf)
	buf = jsontree.AppendCanonical(buf, template)
	end := len(buf)
	buf = append(buf, after...)
	sum := sha256.Sum256(buf)
	return Content{
		Version:  version,
		Template: buf[start:end:end],
		Hash:     hex.EncodeToString(sum[:])[:hashDigits],
		members:  buf[1 : len(buf)-1],
	}, nil
}

// IdentifySpec computes the content of a whole spec, from its members
// template and targetVersion.
func IdentifySpec(spec json.RawMessage) (Content, error) {
	v, err := jsontree.Parse(spec)
	if err != nil {
		return Content{}, fmt.Errorf("cannot identify spec: %w", err)
	}
	version, _ := v.Get("targetVersion")
	if version.Kind != jsontree.String {
		return Content{}, errors.New("cannot identify spec: targetVersion is no string")
	}
	template, _ := v.Get("template")
	return Identify(template, version.Text)
}
