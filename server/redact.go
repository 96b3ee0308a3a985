package main

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
)

// redactor takes out of requests what may be secret, so that the hook decides the
// same about what is left.
//
// Every such value has a placeholder in its place, in the parent as well as in its
// children, their snapshots and the copies that annotations hold: the same for the
// same value, so that what was equal stays equal and what was different stays
// different. Revisions are named by a digest of their content, so each gets another
// name, in all places; renamed has the names that they had.
type redactor struct {
	// key makes placeholders that tell nothing of short or common values. It is
	// chosen for one process and never written.
	key []byte
}

// redact returns a request without what may be secret, and the new names of revisions
// with those that they had.
func (r *redactor) redact(request []byte) (text []byte, renamed map[string]string, err error) {
	// A name that stands twice means something to the hook, and is gone once decoded.
	if _, err := jsontree.Parse(request); err != nil {
		return nil, nil, fmt.Errorf("cannot redact request: %w", err)
	}
	var tree map[string]any
	if err := decodeNumbers(request, &tree); err != nil {
		return nil, nil, fmt.Errorf("cannot redact request: %w", err)
	}
	n := &naming{names: map[string]string{}}
	parent, _ := tree["parent"].(map[string]any)
	was := hashOf(parent["spec"])
	r.walk(tree)
	n.names[was] = hashOf(parent["spec"])
	for _, group := range []string{"children", "related"} {
		kinds, _ := tree[group].(map[string]any)
		for _, kind := range kinds {
			objects, _ := kind.(map[string]any)
			for _, object := range objects {
				if object, ok := object.(map[string]any); ok {
					r.snapshot(object, n)
				}
			}
		}
	}
	var pairs []string
	renamed = map[string]string{}
	for before, after := range n.names {
		if before != "" && after != "" && before != after {
			pairs = append(pairs, before, after)
			renamed[after] = before
		}
	}
	rename := strings.NewReplacer(pairs...)
	for _, encode := range n.encode {
		encode(rename)
	}
	text, err = encodePlain(tree)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot redact request: %w", err)
	}
	return []byte(rename.Replace(string(text))), renamed, nil
}

// naming is what becomes of the names of revisions.
type naming struct {
	names map[string]string // by those that they had
	// encode is what can be written only when all names are known, in this order:
	// nobody finds a name in base64.
	encode []func(rename *strings.Replacer)
}

// hashOf is the name of a spec's content, "" if it has none.
func hashOf(spec any) string {
	text, err := encodePlain(spec)
	if err != nil {
		return ""
	}
	content, err := history.IdentifySpec(text)
	if err != nil {
		return ""
	}
	return content.Hash
}

// copies are the annotations that hold objects as they were applied.
var copies = []string{"kubectl.kubernetes.io/last-applied-configuration", "metacontroller.k8s.io/last-applied-configuration"}

// walk redacts, in any object at any depth, the values of env, the words of commands
// and arguments, the headers of probes and the attributes of volumes. Who owns which
// field, which nobody reads, is left out.
func (r *redactor) walk(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			r.walk(element)
		}
	case map[string]any:
		delete(value, "fieldsV1")
		for key, member := range value {
			switch key {
			case "env", "httpHeaders":
				r.values(member)
			case "command", "args":
				r.words(member)
			case "volumeAttributes":
				r.members(member)
			case "annotations":
				r.annotations(member)
			default:
				r.walk(member)
			}
		}
	}
}

// values redacts the values of a list of names with values, and walks through the rest.
func (r *redactor) values(list any) {
	elements, ok := list.([]any)
	if !ok {
		r.walk(list)
		return
	}
	for _, element := range elements {
		if pair, ok := element.(map[string]any); ok {
			if text, ok := pair["value"].(string); ok {
				pair["value"] = r.placeholder(text)
			}
		}
	}
}

func (r *redactor) words(list any) {
	elements, ok := list.([]any)
	if !ok {
		r.walk(list)
		return
	}
	for i := range elements {
		if text, ok := elements[i].(string); ok {
			elements[i] = r.placeholder(text)
		}
	}
}

func (r *redactor) members(object any) {
	all, _ := object.(map[string]any)
	for key, value := range all {
		if text, ok := value.(string); ok {
			all[key] = r.placeholder(text)
		}
	}
}

func (r *redactor) annotations(object any) {
	all, _ := object.(map[string]any)
	for _, name := range copies {
		if text, ok := all[name].(string); ok {
			all[name] = r.document(text, encodePlain)
		}
	}
}

// document redacts JSON in a text. What is no JSON has a placeholder.
func (r *redactor) document(text string, encode func(any) ([]byte, error)) string {
	var tree any
	if err := decodeNumbers([]byte(text), &tree); err != nil {
		return r.placeholder(text)
	}
	r.walk(tree)
	out, err := encode(tree)
	if err != nil {
		return r.placeholder(text)
	}
	return string(out)
}

// snapshot redacts the ConfigMap or Secret of a revision, and notes its new name. What
// was packed is unpacked by this: it means the same. All other data of one that is no
// record of ours has placeholders. The copies that annotations hold have the same.
func (r *redactor) snapshot(object map[string]any, n *naming) {
	secret := object["kind"] == "Secret"
	if object["kind"] != "ConfigMap" && !secret {
		return
	}
	data, _ := object["data"].(map[string]any)
	packed, _ := object["binaryData"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range copies {
		if text, ok := annotations[name].(string); ok {
			r.copied(annotations, name, text, object["kind"], n)
		}
	}
	if plain, ok := object["stringData"].(map[string]any); ok {
		r.members(plain)
	}
	if labels[greyrelease.LabelName] == nil {
		r.members(data)
		r.members(packed)
		return
	}
	if secret {
		packed = data
	}
	for key, value := range packed {
		text, ok := value.(string)
		if !ok || secret && !strings.HasSuffix(key, ".gz") {
			continue
		}
		if plain, err := unzip(text); err == nil && strings.HasSuffix(key, ".gz") {
			if data == nil {
				data = map[string]any{}
				object["data"] = data
			}
			delete(packed, key)
			data[strings.TrimSuffix(key, ".gz")] = encodedIf(secret, plain)
			continue
		}
		packed[key] = r.placeholder(text)
	}
	for key, value := range data {
		text, ok := value.(string)
		if !ok || key == "record.json" && !secret || secret && strings.HasSuffix(key, ".gz") {
			continue
		}
		if key != "spec.json" && key != "template.json" {
			data[key] = r.placeholder(text) // somebody else's: not walked through, but hidden
			continue
		}
		if secret {
			plain, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				data[key] = r.placeholder(text)
				continue
			}
			text = string(plain)
		}
		redacted := r.part(key, text, n)
		data[key] = redacted
		if secret {
			n.encode = append(n.encode, func(rename *strings.Replacer) {
				data[key] = encodedIf(true, []byte(rename.Replace(redacted)))
			})
		}
	}
}

// copied redacts an object as it was applied. It went through walk already.
func (r *redactor) copied(annotations map[string]any, name, text string, kind any, n *naming) {
	annotations[name] = r.placeholder(text)
	var object map[string]any
	if err := decodeNumbers([]byte(text), &object); err != nil || object["kind"] != kind {
		return // it stays a placeholder: nobody knows where its values are
	}
	r.snapshot(object, n)
	n.encode = append(n.encode, func(*strings.Replacer) {
		if out, err := encodePlain(object); err == nil {
			annotations[name] = string(out)
		}
	})
}

// part redacts one text of a snapshot.
func (r *redactor) part(key, text string, n *naming) string {
	if key != "spec.json" {
		return r.document(text, encodePlain)
	}
	redacted := r.document(text, encodeCanonical)
	n.names[hashOf(json.RawMessage(text))] = hashOf(json.RawMessage(redacted))
	return redacted
}

func encodedIf(secret bool, text []byte) string {
	if secret {
		return base64.StdEncoding.EncodeToString(text)
	}
	return string(text)
}

func unzip(text string) ([]byte, error) {
	// etcd takes 1.5 MiB, so that no text that a hook has packed is longer.
	const most = 4 << 20
	zipped, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(reader, most))
}

// placeholder stands for a value. It is no shorter, so that what is too large stays
// too large. Nothing stays nothing, as the two are treated alike elsewhere.
func (r *redactor) placeholder(value string) string {
	if value == "" {
		return ""
	}
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(value))
	text := "redacted-" + hex.EncodeToString(mac.Sum(nil))[:16]
	return text + strings.Repeat("x", max(0, len(value)-len(text)))
}

// decodeNumbers keeps numbers as they are written.
func decodeNumbers(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func encodePlain(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func encodeCanonical(value any) ([]byte, error) {
	text, err := encodePlain(value)
	if err != nil {
		return nil, err
	}
	return history.Canonical(text)
}
