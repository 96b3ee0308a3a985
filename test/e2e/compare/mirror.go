package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// mirrorGroup is the API group of the parents whose hook is mirrorHook.
const mirrorGroup = "test.greyrelease.example.com"

// mirrorHook is a hook that answers what the parent's spec says, so that a story
// can have Metacontroller do anything:
//
//	spec:
//	  answer: {...}    the answer; what was seen is added to its status
//	  text: "..."      or the answer as it goes out, whatever it is
//	  code: 429        the status code
//	  header: {...}    headers
//	  delaySeconds: 3  how long it takes
//	  related: [...]   the answer of the customize hook
//
// A spec that was planted for a parent is taken before its own: nothing tells
// Metacontroller of that.
type mirrorHook struct {
	address string

	mu       sync.Mutex
	planted  map[string]mirrorSpec        // by namespace
	requests map[string]map[string]string // the last ones, by namespace
}

type mirrorSpec struct {
	Answer       map[string]any    `json:"answer"`
	Text         string            `json:"text"`
	Code         int               `json:"code"`
	Header       map[string]string `json:"header"`
	DelaySeconds float64           `json:"delaySeconds"`
	Related      []any             `json:"related"`
}

type mirrorRequest struct {
	Controller struct {
		Kind string         `json:"kind"`
		Spec map[string]any `json:"spec"`
	} `json:"controller"`
	Parent struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec mirrorSpec `json:"spec"`
	} `json:"parent"`
	Children   map[string]map[string]any `json:"children"`
	Related    map[string]map[string]any `json:"related"`
	Finalizing bool                      `json:"finalizing"`
}

func startMirrorHook() (*mirrorHook, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	h := &mirrorHook{
		address: "http://" + listener.Addr().String(),
		planted: map[string]mirrorSpec{}, requests: map[string]map[string]string{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sync", h.sync)
	mux.HandleFunc("POST /customize", h.customize)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // as long as the process
	return h, nil
}

// plant has the hook answer for the mirror in a namespace by a spec in the place of
// its own.
func (h *mirrorHook) plant(namespace, spec string) error {
	var planted mirrorSpec
	if err := yaml.Unmarshal([]byte(spec), &planted); err != nil {
		return fmt.Errorf("cannot read spec: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.planted[namespace] = planted
	return nil
}

// last returns the last request of each hook for each parent in a namespace.
func (h *mirrorHook) last(namespace string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.requests[namespace])
}

// receive decodes and notes a request, and returns the spec to answer by.
func (h *mirrorHook) receive(r *http.Request) (*mirrorRequest, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var request mirrorRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	var whole map[string]any
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	namespace, name := request.Parent.Metadata.Namespace, request.Parent.Metadata.Name
	text := requestText(whole, namespace)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests[namespace] == nil {
		h.requests[namespace] = map[string]string{}
	}
	h.requests[namespace][r.URL.Path+" "+name] = text
	if planted, ok := h.planted[namespace]; ok {
		request.Parent.Spec = planted
	}
	return &request, nil
}

// requestText is a request as YAML. How often somebody wrote an object is chance
// here, so owners of fields are left to the objects themselves.
func requestText(whole map[string]any, namespace string) string {
	forget(whole)
	text, err := yaml.Marshal(whole)
	if err != nil {
		return err.Error()
	}
	return neutral(string(text), namespace)
}

// forget takes managedFields out of every object below v.
func forget(v any) {
	switch v := v.(type) {
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
		}
		for _, w := range v {
			forget(w)
		}
	case []any:
		for _, w := range v {
			forget(w)
		}
	}
}

func (h *mirrorHook) sync(w http.ResponseWriter, r *http.Request) {
	request, err := h.receive(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	spec := request.Parent.Spec
	time.Sleep(time.Duration(spec.DelaySeconds * float64(time.Second)))
	for name, value := range spec.Header {
		w.Header().Set(name, value)
	}
	if spec.Code != 0 {
		w.WriteHeader(spec.Code)
	}
	text := []byte(spec.Text)
	if spec.Text == "" {
		if text, err = json.Marshal(request.answer()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	_, _ = w.Write(text) // whether anybody listens is not ours to judge
}

// answer is the answer of the spec, with what was seen in its status.
func (r *mirrorRequest) answer() map[string]any {
	answer := maps.Clone(r.Parent.Spec.Answer)
	if answer == nil {
		answer = map[string]any{}
	}
	status := map[string]any{"children": names(r.Children), "related": names(r.Related), "finalizing": strconv.FormatBool(r.Finalizing)}
	if more, ok := answer["status"].(map[string]any); ok {
		maps.Copy(status, more)
	}
	answer["status"] = status
	return answer
}

func names(groups map[string]map[string]any) map[string]any {
	list := map[string]any{}
	for group, objects := range groups {
		keys := []any{}
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if key != "kube-root-ca.crt" {
				keys = append(keys, key)
			}
		}
		list[group] = keys
	}
	return list
}

func (h *mirrorHook) customize(w http.ResponseWriter, r *http.Request) {
	request, err := h.receive(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, err := json.Marshal(map[string]any{"relatedResources": request.Parent.Spec.Related})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text)
}

// mirrorManifests are the two kinds of parents and their CompositeControllers:
// mirrors have a hook of version v2, oldmirrors one of version v1. Each kind of
// child has another update method.
func (h *mirrorHook) manifests() string {
	text := ""
	for _, m := range []struct{ kind, plural, version string }{{"Mirror", "mirrors", "v2"}, {"OldMirror", "oldmirrors", "v1"}} {
		text += fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[4]s}
spec:
  group: %[4]s
  names: {kind: %[1]s, plural: %[2]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: %[2]s}
spec:
  generateSelector: true
  parentResource: {apiVersion: %[4]s/v1, resource: %[2]s}
  childResources:
  - {apiVersion: apps/v1, resource: deployments, updateStrategy: {method: InPlace}}
  - {apiVersion: v1, resource: configmaps, updateStrategy: {method: InPlace}}
  - {apiVersion: v1, resource: services, updateStrategy: {method: Recreate}}
  - {apiVersion: v1, resource: secrets}
  hooks:
    sync: {version: %[3]s, webhook: {url: "%[5]s/sync", timeout: 2s}}
    customize: {version: %[3]s, webhook: {url: "%[5]s/customize", timeout: 2s}}
`, m.kind, m.plural, m.version, mirrorGroup, h.address)
	}
	return text
}
