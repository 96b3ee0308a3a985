package greyrelease

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
)

// wire is what is decoded of a request.
type wire struct {
	Parent   *Parent                        `json:"parent"`
	Children map[string]map[string]*Child   `json:"children"`
	Related  map[string]map[string]*Related `json:"related"`
}

var wireDecoder = jsontree.NewDecoder[wire]()

// fixtures are the recorded requests and those of stories.
func fixtures(tb testing.TB) map[string][]byte {
	tb.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{"*.request.json", "recorded/*.request.json"} {
		files, err := filepath.Glob("../../test/fixtures/" + pattern)
		if err != nil || len(files) == 0 {
			tb.Fatalf("no fixtures match %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				tb.Fatal(err)
			}
			all[filepath.Base(file)] = text
		}
	}
	return all
}

// What is no mistake is decoded in one pass: a field of a type that the fast decoder
// does not know would make all calls slower, and nothing else would show it.
func TestRequestsAreDecodedInOnePass(t *testing.T) {
	for name, text := range fixtures(t) {
		_, ok := wireDecoder.Decode(text)
		if want := !strings.HasPrefix(name, "bad-request-no-json") && !strings.HasPrefix(name, "bad-request-child"); ok != want {
			t.Errorf("%s: want %v, got %v", name, want, ok)
		}
	}
}

func TestRecordsAndStatusesAreDecodedInOnePass(t *testing.T) {
	records, statuses := 0, 0
	for name, text := range fixtures(t) {
		request, ok := wireDecoder.Decode(text)
		if !ok || request.Parent == nil {
			continue
		}
		if status := request.Parent.Status; status != nil {
			statuses++
			if _, ok := statusDecoder.Decode(status); !ok {
				t.Errorf("%s: the status is not decoded", name)
			}
		}
		for _, c := range request.Children[kindConfigMap] {
			record, found, err := history.RecordText(history.Object{Data: c.Data})
			if err != nil || !found {
				continue
			}
			records++
			if _, ok := recordDecoder.Decode(record); !ok && name != "record-unreadable.request.json" {
				t.Errorf("%s: the record is not decoded", name)
			}
		}
	}
	if records < 50 || statuses < 50 {
		t.Errorf("want records and statuses in the fixtures, got %d and %d", records, statuses)
	}
}

// FuzzRequest: a request that is decoded in one pass is the one that the decoder of
// Kubernetes sees.
func FuzzRequest(f *testing.F) {
	for _, text := range fixtures(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := wireDecoder.Decode(text)
		if !ok {
			return
		}
		var want wire
		if err := kjson.Unmarshal(text, &want); err != nil {
			t.Fatalf("want an error, %v, got %+v", err, got)
		}
		if !reflect.DeepEqual(&want, got) {
			t.Fatalf("want %+v, got %+v", want, got)
		}
	})
}
