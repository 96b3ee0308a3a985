package composite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"greyrelease.example.com/hooks/jsontree"
)

// SyncResponse is the answer to the sync and finalize hooks.
type SyncResponse struct {
	// Status replaces the parent's status whole; null clears it.
	// Metacontroller adds observedGeneration.
	Status any `json:"status"`
	// Children is everything that should exist: what is observed and not
	// listed is deleted. nil is an empty list, never null.
	Children []any `json:"children"`
	// ResyncAfterSeconds, when above 0, asks for one more call after that time.
	ResyncAfterSeconds float64 `json:"resyncAfterSeconds,omitempty"`
	// Finalized lets the parent go; only the finalize hook's answer counts.
	Finalized bool `json:"finalized,omitempty"`
}

// Encode returns the bytes to answer with: compact, fields in a fixed order,
// map keys sorted, <, > and & as they are, a json.RawMessage as it is but for
// white space. A child that is not an object, and a time to resync that is
// negative or not finite, is a fault of the hook and an error.
func (r *SyncResponse) Encode() ([]byte, error) {
	if r.ResyncAfterSeconds < 0 || math.IsNaN(r.ResyncAfterSeconds) || math.IsInf(r.ResyncAfterSeconds, 0) {
		return nil, fmt.Errorf("cannot encode answer: resyncAfterSeconds is %v", r.ResyncAfterSeconds)
	}
	children, size := split(r.Children)
	var out bytes.Buffer
	out.Grow(size)
	out.WriteString(`{"status":`)
	if err := encode(&out, r.Status); err != nil {
		return nil, fmt.Errorf("cannot encode status: %w", err)
	}
	out.WriteString(`,"children":`)
	if err := encodeObjects(&out, children); err != nil {
		return nil, fmt.Errorf("cannot encode children%w", err)
	}
	if r.ResyncAfterSeconds > 0 {
		out.WriteString(`,"resyncAfterSeconds":`)
		out.WriteString(strconv.FormatFloat(r.ResyncAfterSeconds, 'f', -1, 64))
	}
	if r.Finalized {
		out.WriteString(`,"finalized":true`)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// CustomizeResponse is the answer to the customize hook: rules that select the
// objects which come along with later sync requests.
type CustomizeResponse struct {
	// RelatedResources is never null; nil is an empty list.
	RelatedResources []any `json:"relatedResources"`
}

// Encode returns the bytes to answer with, as SyncResponse.Encode does.
func (r *CustomizeResponse) Encode() ([]byte, error) {
	rules, size := split(r.RelatedResources)
	var out bytes.Buffer
	out.Grow(size)
	out.WriteString(`{"relatedResources":`)
	if err := encodeObjects(&out, rules); err != nil {
		return nil, fmt.Errorf("cannot encode relatedResources%w", err)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// Parted is an object of an answer with large parts that are JSON already. They pass
// through without being encoded once more, but for white space: they must be known to
// be JSON.
type Parted interface {
	// Parts are the object without its parts, of which some field is left, and the
	// parts, which come after its fields. One without a text is left out.
	Parts() (object any, parts []jsontree.Field)
}

// piece is an object and its parts, if it has any.
type piece struct {
	object any
	parts  []jsontree.Field
}

// split takes objects apart. size is about how many bytes they and the rest of an answer
// take.
func split(objects []any) (pieces []piece, size int) {
	const around, each = 4 << 10, 1 << 10
	pieces, size = make([]piece, len(objects)), around+each*len(objects)
	for i, object := range objects {
		parted, ok := object.(Parted)
		if !ok {
			pieces[i].object = object
			continue
		}
		pieces[i].object, pieces[i].parts = parted.Parts()
		for _, part := range pieces[i].parts {
			size += len(part.Raw)
		}
	}
	return pieces, size
}

// encodeObjects writes a list that holds nothing but objects. Its errors begin
// with the index, "[2]: ...".
func encodeObjects(out *bytes.Buffer, objects []piece) error {
	out.WriteByte('[')
	for i, p := range objects {
		if i > 0 {
			out.WriteByte(',')
		}
		start := out.Len()
		if err := encode(out, p.object); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		if out.Bytes()[start] != '{' {
			return fmt.Errorf("[%d]: not an object", i)
		}
		for _, part := range p.parts {
			if len(part.Raw) == 0 {
				continue
			}
			out.Truncate(out.Len() - 1)
			out.WriteString(`,"` + part.Name + `":`)
			out.Write(jsontree.AppendCompact(out.AvailableBuffer(), part.Raw))
			out.WriteByte('}')
		}
	}
	out.WriteByte(']')
	return nil
}

func encode(out *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	// The encoder ends each value with a line break.
	out.Truncate(out.Len() - 1)
	return nil
}
