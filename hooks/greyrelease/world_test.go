package greyrelease

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
	"greyrelease.example.com/test/sim/apply"
	"greyrelease.example.com/test/sim/kube"
)

// world is a release with a record that is written by hand, and the objects of its
// traffic as an API server stores them.
type world struct {
	t       *testing.T
	mode    history.Mode
	now     time.Time
	traffic string // the fields of spec that are about traffic
	record  *rollout.Record
	// pods are the available pods of the Deployment of each revision.
	pods    map[int64]int64
	objects map[string]map[string]any  // by "Service web"
	owners  map[string][]apply.Managed // in server-side mode
	related []map[string]any           // EndpointSlices; nil: not looked at
	missing []string                   // kinds that the controller was not given
	invalid bool                       // another field of the spec is wrong
	parents string                     // status.parents of the HTTPRoute
	deleted map[string]bool            // objects that are being deleted
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	webPorts = `"ports":[{"port":80,"targetPort":"http"}]`
	webRoute = `"traffic":{` + webPorts + `,"httpRoute":{"parentRefs":[{"name":"gw","namespace":"infra"}],"hostnames":["a.example.com"],"path":"/shop","headers":{"X-Test":"yes"}}}`
	webPair  = `"traffic":{` + webPorts + `,"ingress":{"className":"nginx","host":"a.example.com","tls":{"secretName":"cert"},"headers":{"X-Test":"yes"}}}`
	webPlain = `"traffic":{` + webPorts + `}`
	webBlue  = `"strategy":"BlueGreen","traffic":{` + webPorts + `}`
)

// hash is the hash of revision n in these tests.
func hash(n int64) string { return strings.Repeat(fmt.Sprint(n), 10) }

func revisionOf(n int64) rollout.Revision {
	return rollout.Revision{Number: n, Hash: hash(n), Version: fmt.Sprintf("%d.0", n)}
}

// newWorld is a release of two pods that goes from revision 1 to revision 2.
func newWorld(t *testing.T, mode history.Mode, traffic string) *world {
	t.Helper()
	w := &world{
		t: t, mode: mode, now: noon, traffic: traffic, pods: map[int64]int64{1: 2, 2: 2},
		objects: map[string]map[string]any{}, owners: map[string][]apply.Managed{},
	}
	spec, errs := decodeSpec(specWith(t, traffic))
	if len(errs) > 0 {
		t.Fatalf("want a good spec, got %s", texts(errs))
	}
	w.record = &rollout.Record{
		Format: rollout.Format, Counter: 7, Changed: noon, Highest: 2,
		Stable: revisionOf(1), Target: revisionOf(2), Attempt: 1, Started: noon, Stage: rollout.Rolling,
		Settings: spec.settings(),
	}
	return w
}

// route sets the weights of the record, by revision.
func (w *world) route(header int64, weights map[int64]int64) {
	w.record.Counter++
	w.record.Route = &rollout.Route{Since: w.now, Header: header}
	for _, n := range slices.Sorted(maps.Keys(weights)) {
		w.record.Route.Shares = append(w.record.Route.Shares, rollout.Share{Revision: n, Weight: weights[n]})
	}
}

func (w *world) encode(v any) json.RawMessage {
	w.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

var groups = map[string]string{"Service": kindService, "HTTPRoute": kindHTTPRoute, "Ingress": kindIngress}

// request is what Metacontroller would send.
func (w *world) request() *Request {
	w.t.Helper()
	operation := map[history.Mode]string{history.Dynamic: "Update", history.ServerSide: "Apply"}[w.mode]
	managed := []any{map[string]any{"manager": fieldManager, "operation": operation, "time": "2026-11-30T11:00:00Z"}}
	children := map[string]map[string]any{kindDeployment: {}, kindConfigMap: {}}
	for _, kind := range groups {
		if !slices.Contains(w.missing, kind) {
			children[kind] = map[string]any{}
		}
	}
	for n, pods := range w.pods {
		children[kindDeployment][fmt.Sprint(n)] = map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{
				"name": "web-" + hash(n), "generation": 1, "managedFields": managed,
				"labels":      map[string]any{LabelName: "web", LabelRevision: hash(n), LabelNumber: fmt.Sprint(n)},
				"annotations": map[string]any{AnnotationVersion: fmt.Sprintf("%d.0", n)},
			},
			"spec":   map[string]any{"replicas": pods, "selector": map[string]any{"matchLabels": selector("web", hash(n))}, "template": map[string]any{}},
			"status": map[string]any{"observedGeneration": 1, "replicas": pods, "readyReplicas": pods, "availableReplicas": pods},
		}
	}
	if w.record != nil {
		children[kindConfigMap]["record"] = map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "web-rollout", "labels": map[string]any{LabelName: "web"}, "managedFields": managed},
			"data":     map[string]any{"record.json": string(w.encode(w.record))},
		}
	}
	for key, object := range w.objects {
		object = apply.CloneMap(object)
		if w.deleted[key] {
			object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-30T12:00:00Z"
		}
		kind, name, _ := strings.Cut(key, " ")
		if kind == "HTTPRoute" && w.parents != "" {
			object["status"] = map[string]any{"parents": json.RawMessage(w.parents)}
		}
		if group := groups[kind]; children[group] != nil {
			children[group][name] = object
		}
	}
	extra := w.traffic
	if w.invalid {
		extra += `,"batchSize":0`
	}
	body := map[string]any{
		"controller": map[string]any{"metadata": map[string]any{"name": "greyrelease", "annotations": map[string]any{AnnotationChannel: channelExperimental}}},
		"parent": map[string]any{
			"apiVersion": APIVersion, "kind": Kind,
			"metadata": map[string]any{"name": "web", "namespace": "default", "uid": "u", "generation": 1, "creationTimestamp": "2026-11-30T11:00:00Z"},
			"spec":     specWith(w.t, `"replicas":2,`+extra),
		},
		"children": children,
	}
	if w.related != nil {
		group := map[string]any{}
		for i, slice := range w.related {
			group[fmt.Sprint(i)] = slice
		}
		body["related"] = map[string]any{kindEndpointSlice: group}
	}
	req, err := DecodeSync(w.encode(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return req
}

// sync answers without the core: the record is the one written by hand.
func (w *world) sync() *answer {
	w.t.Helper()
	o, err := observe(w.request())
	if err != nil {
		w.t.Fatal(err)
	}
	a := &answer{observation: o, now: w.now}
	a.facts = o.facts()
	if err := o.checkStale(w.now); err != nil {
		w.t.Fatal(err)
	}
	a.record, a.next = o.record, o.record
	a.desire = o.want()
	if a.wish.Valid == w.invalid {
		w.t.Fatalf("want a valid spec %t, got the errors %s", !w.invalid, texts(a.errs))
	}
	a.facts.Traffic = a.traffic()
	a.orders = rollout.Act(a.record, &a.wish, a.facts)
	a.renderServices()
	a.renderHTTPRoute()
	a.renderIngresses()
	return a
}

// apply writes the answer as Metacontroller does and tells what was written,
// created or deleted.
func (w *world) apply(a *answer) []string {
	w.t.Helper()
	var writes []string
	listed := map[string]bool{}
	for _, child := range a.children {
		want, err := apply.Decode(w.encode(child))
		if err != nil {
			w.t.Fatal(err)
		}
		kind := apply.Text(want, "kind")
		key := kind + " " + apply.Text(want, "metadata", "name")
		listed[key] = true
		live := w.objects[key]
		now, err := w.write(key, live, want)
		if err != nil {
			w.t.Fatalf("cannot apply %s: %v", key, err)
		}
		if now, err = kube.Admit(kind, live, now); err != nil {
			w.t.Fatalf("want %s accepted, got %v", key, err)
		}
		if live != nil && apply.Equal(live, now) {
			continue
		}
		generation := int64(1)
		if live != nil {
			generation = apply.Field(live, "metadata", "generation").(int64)
			if !apply.Equal(live["spec"], now["spec"]) {
				generation++
			}
		}
		now = apply.CloneMap(now)
		now["metadata"].(map[string]any)["generation"] = generation
		w.objects[key] = now
		writes = append(writes, key)
	}
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		if !listed[key] {
			delete(w.objects, key)
			delete(w.owners, key)
			writes = append(writes, "delete "+key)
		}
	}
	return writes
}

func (w *world) write(key string, live, want map[string]any) (map[string]any, error) {
	owner := map[string]any{"uid": "u", "apiVersion": APIVersion, "kind": Kind, "name": "web", "controller": true}
	want = apply.CloneMap(want)
	want["metadata"].(map[string]any)["namespace"] = "default"
	if w.mode == history.ServerSide {
		kind, _, _ := strings.Cut(key, " ")
		out, owners, err := apply.ServerSide(live, w.owners[key], fieldManager, apply.Config(want, owner), apply.Schema(kind))
		w.owners[key] = owners
		return out, err
	}
	if live == nil {
		return apply.Create(want, owner)
	}
	return apply.Update(live, want)
}

// settle syncs and applies until nothing is written any more.
func (w *world) settle() *answer {
	w.t.Helper()
	for range 6 {
		a := w.sync()
		if writes := w.apply(a); len(writes) == 0 {
			if a.writes {
				w.t.Error("want no look because of writes, got one although nothing is written")
			}
			return a
		}
	}
	w.t.Fatal("want the answers to settle, got writes every time")
	return nil
}

// show is where the objects lead: one line each.
func (w *world) show() string {
	var lines []string
	backend := func(b any) string {
		return fmt.Sprintf("%s=%v", strings.TrimPrefix(apply.Text(b, "name"), "web-")[:1], apply.Field(b, "weight"))
	}
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		object := w.objects[key]
		line := key
		switch {
		case strings.HasPrefix(key, "Service "):
			line += " -> all"
			if h := apply.Text(object, "spec", "selector", LabelRevision); h != "" {
				line = key + " -> " + h[:1]
			}
		case strings.HasPrefix(key, "HTTPRoute "):
			for _, rule := range apply.List(object, "spec", "rules") {
				var parts []string
				for _, b := range apply.List(rule, "backendRefs") {
					parts = append(parts, backend(b))
				}
				headers := apply.List(apply.List(rule, "matches")[0], "headers")
				line += fmt.Sprintf(" [%d headers: %s]", len(headers), strings.Join(parts, " "))
			}
		default:
			path := apply.List(apply.List(object, "spec", "rules")[0], "http", "paths")[0]
			line += " -> " + strings.TrimPrefix(apply.Text(path, "backend", "service", "name"), "web-")[:1]
			notes := apply.Object(object, "metadata", "annotations")
			if weight := notes[nginxWeight]; weight != nil {
				line += fmt.Sprintf(" %v%%", weight)
			}
			if header := notes[nginxHeader]; header != nil {
				line += fmt.Sprintf(" %v: %v", header, notes[nginxHeaderValue])
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (w *world) want(why, want string) {
	w.t.Helper()
	want = strings.Trim(strings.ReplaceAll(want, "\t", ""), "\n")
	if got := w.show(); want != got {
		w.t.Errorf("%s: want\n%s\ngot\n%s", why, want, got)
	}
}
