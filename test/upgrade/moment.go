package upgrade

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// moment is a request and what was asked for then.
type moment struct {
	Now        time.Time       `json:"now"`
	ServerSide bool            `json:"serverSide,omitempty"` // apply mode of Metacontroller
	Then       outcome         `json:"then"`
	Request    json.RawMessage `json:"request"`
}

// sync answers a request with the current code.
func sync(request []byte, now time.Time) ([]byte, error) {
	decoded, err := greyrelease.DecodeSync(bytes.Clone(request))
	if err != nil {
		return nil, err
	}
	response, err := greyrelease.Sync(decoded, greyrelease.Measurements{}, now)
	if err != nil {
		return nil, err
	}
	return response.Encode()
}

// replay says what the current code does differently.
func (m *moment) replay() ([]string, error) {
	answer, err := sync(m.Request, m.Now)
	if err != nil {
		return nil, err
	}
	now, err := outcomeOf(m.Request, answer)
	if err != nil {
		return nil, err
	}
	list := m.Then.differences(now)
	names, err := restarted(m.Request, answer, m.ServerSide)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		list = append(list, fmt.Sprintf("the pods of %s would restart", name))
	}
	return list, nil
}

// readLines decodes a file with one value a line.
func readLines[T any](path string) ([]T, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if zipped := []byte{0x1f, 0x8b}; bytes.HasPrefix(data, zipped) {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("cannot unpack %s: %w", path, err)
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(r); err != nil {
			return nil, fmt.Errorf("cannot unpack %s: %w", path, err)
		}
		data = out.Bytes()
	}
	var list []T
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		list = append(list, v)
	}
	return list, lines.Err()
}

// writeLines is the opposite. It creates the file.
func writeLines[T any](path string, zip bool, list []T) error {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	for _, v := range list {
		if err := encoder.Encode(v); err != nil {
			return fmt.Errorf("cannot encode %s: %w", path, err)
		}
	}
	data := plain.Bytes()
	if zip {
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		data = out.Bytes()
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.Close()
}
