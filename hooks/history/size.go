package history

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Mode is the way in which Metacontroller applies children.
type Mode uint8

const (
	// Dynamic is Metacontroller's default: a three-way merge of its own, for
	// which it keeps a copy of each child in an annotation of the child.
	Dynamic Mode = iota
	// ServerSide is --apply-strategy=server-side-apply.
	ServerSide
)

// How large an object we ask for may be, as JSON.
const (
	// maxDynamic: all annotations of an object together may have 256 KiB, and
	// one of them is the copy of the object. 8 KiB are left for the others and
	// for the namespace and the controller-uid label that are added to the copy.
	maxDynamic = (256 - 8) << 10
	// maxServerSide: etcd takes requests of 1.5 MiB, and managedFields, which
	// repeat the name of every field, may take as much as the object itself.
	maxServerSide = 700 << 10
)

// TooBigError says that an object cannot be stored in the apply mode in use.
type TooBigError struct {
	Size, Limit int // bytes
	Mode        Mode
}

func (e *TooBigError) Error() string {
	if e.Mode == Dynamic {
		return fmt.Sprintf("it takes %d bytes and dynamic apply has room for %d (an annotation holds a copy of it); "+
			"make the template smaller or run Metacontroller with --apply-strategy=server-side-apply", e.Size, e.Limit)
	}
	return fmt.Sprintf("it takes %d bytes and there is room for %d; make the template smaller", e.Size, e.Limit)
}

// Fits checks that an object, given as JSON, can be stored and goes on being
// storable in the mode: nil, or a *TooBigError. It holds for ConfigMaps and
// for Deployments.
func Fits(object json.RawMessage, mode Mode) error {
	limit := maxServerSide
	if mode == Dynamic {
		limit = maxDynamic
	}
	if len(object)*maxGrowth <= limit {
		return nil
	}
	if size := escapedSize(object); size > limit {
		return &TooBigError{Size: size, Limit: limit, Mode: mode}
	}
	return nil
}

// maxGrowth is the length of \u003c, which Metacontroller writes for < in its
// copy.
const maxGrowth = 6

// escapedSize is the length of JSON once Go's encoder has written it with the
// HTML characters escaped.
func escapedSize(object []byte) int {
	size := len(object)
	for i, c := range object {
		switch c {
		case '<', '>', '&':
			size += maxGrowth - 1
		case 0xE2: // U+2028 and U+2029 are three bytes and become six
			if r, _ := utf8.DecodeRune(object[i:]); r == '\u2028' || r == '\u2029' {
				size += maxGrowth - 3
			}
		}
	}
	return size
}
