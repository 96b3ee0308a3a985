package history

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// The parts of a snapshot. In data they stand as they are, in binaryData they
// are gzipped and have the suffix. A Secret has both in data, as base64.
const (
	specKey     = "spec.json"
	templateKey = "template.json"
	gzipSuffix  = ".gz"
)

const (
	// maxPlain is the size from which the parts are gzipped: the object appears
	// twice in dynamic mode, and below this it may as well be readable with
	// kubectl. In a Secret, where base64 takes a third more, it counts encoded.
	maxPlain = 100 << 10
	// maxUnpacked bounds what a part may grow to. etcd takes 1.5 MiB, so that no
	// spec is larger.
	maxUnpacked = 4 << 20
)

// pack compresses without a time stamp or name, so that equal text gives equal
// bytes.
func pack(text []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// unpack undoes pack. gzip checks the length and a CRC of what comes out; more
// than maxUnpacked is refused before it takes memory.
func unpack(zipped []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxUnpacked {
		return nil, fmt.Errorf("it unpacks to more than %d bytes", maxUnpacked)
	}
	return text, r.Close()
}
