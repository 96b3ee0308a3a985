package composite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
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
	var out bytes.Buffer
	out.WriteString(`{"status":`)
	if err := encode(&out, r.Status); err != nil {
		return nil, fmt.Errorf("cannot encode status: %w", err)
	}
	out.WriteString(`,"children":`)
	if err := encodeObjects(&out, r.Children); err != nil {
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
	var out bytes.Buffer
	out.WriteString(`{"relatedResources":`)
	if err := encodeObjects(&out, r.RelatedResources); err != nil {
		return nil, fmt.Errorf("cannot encode relatedResources%w", err)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encodeObjects writes a list that holds nothing but objects. Its errors begin
// with the index, "[2]: ...".
func encodeObjects(out *bytes.Buffer, objects []any) error {
	out.WriteByte('[')
	for i, object := range objects {
		if i > 0 {
			out.WriteByte(',')
		}
		start := out.Len()
		if err := encode(out, object); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		if out.Bytes()[start] != '{' {
			return fmt.Errorf("[%d]: not an object", i)
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
