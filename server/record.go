package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// recordFormat is the version of the lines that are recorded.
const recordFormat = 1

// recorded is one call with all that it was decided from, and what was decided. It is
// one line of a file.
type recorded struct {
	Format  int    `json:"format"`
	Service string `json:"service"`
	Hook    string `json:"hook"`
	Subject string `json:"subject,omitempty"`
	// Now is the instant that the hook was given.
	Now time.Time `json:"now"`
	// Measurements are what the hook was given beside the request.
	Measurements greyrelease.Measurements `json:"measurements"`
	// Request is redacted, see redactor; absent if it could not be read.
	Request json.RawMessage   `json:"request,omitempty"`
	Renamed map[string]string `json:"renamed,omitempty"`
	Decided decision          `json:"decided"`
}

// recorder writes calls to files, of which the oldest are removed. A nil recorder
// writes nothing.
type recorder struct {
	dir      string
	most     int64
	service  string
	redactor redactor
	log      *slog.Logger
	failed   seldom

	mu   sync.Mutex
	file *os.File
	size int64
}

// files is how many files the recorded calls are spread over, so that a tenth of them
// goes at a time.
const files = 10

func newRecorder(c *config, b build, log *slog.Logger) (*recorder, error) {
	if c.recordDir == "" {
		return nil, nil
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("cannot record: %w", err)
	}
	r := &recorder{dir: c.recordDir, most: c.recordSize, service: b.version + " " + b.revision, redactor: redactor{key}, log: log}
	if err := r.next(time.Now()); err != nil {
		return nil, err
	}
	return r, nil
}

// record writes a call. A call never fails for it: what goes wrong is in the log,
// once in a minute.
func (r *recorder) record(hook string, body []byte, got *answer, f *failure) {
	if r == nil {
		return
	}
	if err := r.write(hook, body, got, f); err != nil {
		if others, may := r.failed.now(time.Now()); may {
			r.log.Error("cannot record a call", "error", err.Error(), "others", others)
		}
	}
}

func (r *recorder) write(hook string, body []byte, got *answer, f *failure) error {
	line := recorded{
		Format: recordFormat, Service: r.service, Hook: hook, Subject: got.subject, Now: got.now, Measurements: got.have,
		Decided: decide(got.body, f),
	}
	// What is no JSON may hold anything, so it is not kept.
	line.Request, line.Renamed, _ = r.redactor.redact(body)
	text, err := encodePlain(line)
	if err != nil {
		return fmt.Errorf("cannot write call: %w", err)
	}
	text = append(text, '\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size+int64(len(text)) > r.most/files && r.size > 0 {
		if err := r.next(time.Now()); err != nil {
			return err
		}
	}
	n, err := r.file.Write(text)
	r.size += int64(n)
	if err != nil {
		return fmt.Errorf("cannot write call: %w", err)
	}
	return nil
}

const recordPrefix, recordSuffix = "calls-", ".jsonl"

// next begins another file, and removes the oldest until there is room for it.
func (r *recorder) next(now time.Time) error {
	if r.file != nil {
		if err := r.file.Close(); err != nil {
			return fmt.Errorf("cannot close recorded calls: %w", err)
		}
	}
	if err := r.trim(); err != nil {
		return err
	}
	name := recordPrefix + now.UTC().Format("20060102T150405.000000000Z") + recordSuffix
	file, err := os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot record: %w", err)
	}
	r.file, r.size = file, 0
	return nil
}

// trim removes the oldest files, those of earlier processes as well, until what is
// left and one more file are within the limit.
func (r *recorder) trim() error {
	names, err := filepath.Glob(filepath.Join(r.dir, recordPrefix+"*"+recordSuffix))
	if err != nil {
		return fmt.Errorf("cannot list recorded calls: %w", err)
	}
	slices.Sort(names)
	var sizes []int64
	total := int64(0)
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot list recorded calls: %w", err)
		}
		size := int64(0)
		if err == nil {
			size = info.Size()
		}
		sizes = append(sizes, size)
		total += size
	}
	for i := 0; i < len(names) && total > r.most-r.most/files; i++ {
		if err := os.Remove(names[i]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot remove recorded calls: %w", err)
		}
		total -= sizes[i]
	}
	return nil
}

// decision is what came of a call, as far as people want to know it and without any
// content.
type decision struct {
	Code    int    `json:"code"`
	Error   string `json:"error,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
	Weight  *int64 `json:"weight,omitempty"`
	// Replicas are those that each Deployment is to have.
	Replicas map[string]int64 `json:"replicas,omitempty"`
	// Others are the other children that are to be there, as "Service web".
	Others []string `json:"others,omitempty"`
	// Again is resyncAfterSeconds.
	Again float64 `json:"again,omitempty"`
}

// decide reads the answer of a hook, or what was answered in its place.
func decide(body []byte, f *failure) decision {
	if f != nil {
		return decision{Code: f.code, Error: oneLine(f.line)}
	}
	d := decision{Code: 200}
	var out struct {
		Status struct {
			Phase, Message string
			CanaryWeight   *int64
		}
		Children []struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Replicas *int64 }
		}
		ResyncAfterSeconds float64
	}
	if err := json.Unmarshal(body, &out); err != nil {
		d.Error = fmt.Sprintf("cannot read the answer: %v", err)
		return d
	}
	d.Phase, d.Message, d.Weight, d.Again = out.Status.Phase, out.Status.Message, out.Status.CanaryWeight, out.ResyncAfterSeconds
	for _, child := range out.Children {
		if child.Kind == "Deployment" && child.Spec.Replicas != nil {
			if d.Replicas == nil {
				d.Replicas = map[string]int64{}
			}
			d.Replicas[child.Metadata.Name] = *child.Spec.Replicas
			continue
		}
		d.Others = append(d.Others, child.Kind+" "+child.Metadata.Name)
	}
	slices.Sort(d.Others)
	return d
}

// original gives revisions the names that they had before they were redacted.
func original(text []byte, renamed map[string]string) []byte {
	var pairs []string
	for after, before := range renamed {
		pairs = append(pairs, after, before)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(bytes.Clone(text))))
}
