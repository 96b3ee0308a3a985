package composite

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/json"

	"greyrelease.example.com/hooks/jsontree"
)

// Decoder reads requests. P, C and R are those of [SyncRequest].
type Decoder[P, C, R any] struct {
	sync      *jsontree.Decoder[syncWire[P, C, R]]
	customize *jsontree.Decoder[customizeWire[P]]
}

// NewDecoder makes the decoder for a hook once and for all.
func NewDecoder[P, C, R any]() *Decoder[P, C, R] {
	return &Decoder[P, C, R]{jsontree.NewDecoder[syncWire[P, C, R]](), jsontree.NewDecoder[customizeWire[P]]()}
}

// syncWire is a request as it comes. Pointers tell a null from an empty object: a
// null child would otherwise be an object without a name.
type syncWire[P, C, R any] struct {
	Controller Controller               `json:"controller"`
	Parent     *P                       `json:"parent"`
	Children   map[string]map[string]*C `json:"children"`
	Related    map[string]map[string]*R `json:"related"`
	Finalizing bool                     `json:"finalizing"`
}

type customizeWire[P any] struct {
	Controller Controller `json:"controller"`
	Parent     *P         `json:"parent"`
}

// Sync reads a request to the sync or finalize hook. The only error is a
// *BadRequestError; the package documentation says what is refused. The result
// shares no memory with data.
func (d *Decoder[P, C, R]) Sync(data []byte) (*SyncRequest[P, C, R], error) {
	wire, err := unmarshal(data, d.sync)
	if err != nil {
		return nil, badRequest("sync", err)
	}
	if wire.Parent == nil {
		return nil, badRequest("sync", errNoParent)
	}
	if wire.Children == nil {
		return nil, badRequest("sync", errors.New("children is missing"))
	}
	children, err := objects("children", wire.Children)
	if err != nil {
		return nil, badRequest("sync", err)
	}
	related, err := objects("related", wire.Related)
	if err != nil {
		return nil, badRequest("sync", err)
	}
	return &SyncRequest[P, C, R]{
		Controller: wire.Controller,
		Parent:     *wire.Parent,
		Children:   children,
		Related:    related,
		Finalizing: wire.Finalizing,
	}, nil
}

// objects refuses a null where an object should be.
func objects[C any](field string, groups map[string]map[string]*C) (map[string]map[string]C, error) {
	if groups == nil {
		return nil, nil
	}
	out := make(map[string]map[string]C, len(groups))
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		group := groups[kind]
		out[kind] = make(map[string]C, len(group))
		for _, key := range slices.Sorted(maps.Keys(group)) {
			if group[key] == nil {
				return nil, fmt.Errorf("%s[%q][%q] is null", field, kind, key)
			}
			out[kind][key] = *group[key]
		}
	}
	return out, nil
}

// Customize reads a request to the customize hook. The only error is a
// *BadRequestError.
func (d *Decoder[P, C, R]) Customize(data []byte) (*CustomizeRequest[P], error) {
	wire, err := unmarshal(data, d.customize)
	if err != nil {
		return nil, badRequest("customize", err)
	}
	if wire.Parent == nil {
		return nil, badRequest("customize", errNoParent)
	}
	return &CustomizeRequest[P]{Controller: wire.Controller, Parent: *wire.Parent}, nil
}

var errNoParent = errors.New("parent is missing")

// unmarshal decodes with exact field names; see the package documentation. What is
// unusual, errors among it, is left to the decoder of Kubernetes.
func unmarshal[T any](data []byte, usual *jsontree.Decoder[T]) (*T, error) {
	// The decoders would replace broken UTF-8 in silence, so that two different
	// contents could become one.
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	if value, ok := usual.Decode(data); ok {
		return value, nil
	}
	value := new(T)
	return value, json.Unmarshal(data, value)
}

// badRequest makes one line for users of a decoder's error, in words of JSON
// instead of Go types.
func badRequest(hook string, err error) *BadRequestError {
	reason := err.Error()
	var wrongType *stdjson.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		// Field has no map keys: a wrong number in any child reads
		// "children.spec.replicas".
		field := wrongType.Field
		if field == "" {
			field = "the request"
		}
		reason = fmt.Sprintf("%s: %s is no %s", field, wrongType.Value, jsonKind(wrongType.Type))
	}
	reason = strings.Join(strings.Fields(reason), " ")
	return &BadRequestError{Reason: fmt.Sprintf("cannot decode %s request: %s", hook, reason)}
}

// jsonKind is what JSON calls the values that a Go type is decoded from.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("whole number of %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "number"
	}
	return t.String()
}
