package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// What differs from one telling to the next whoever tells it.
var (
	uuid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moment  = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( \+0000)?(Z| UTC)?`)
	address = regexp.MustCompile(`(127\.0\.0\.1|\[::1\]):\d+`)
	service = regexp.MustCompile(`\b10\.96\.\d+\.\d+\b`)
	nodes   = regexp.MustCompile(`nodePort: \d+`)
	version = regexp.MustCompile(`(resourceVersion): "?\d+"?`)
	// What Go prints of a structure of a program, and how it names it.
	structs = regexp.MustCompile(`&\w+\.\w+\{.*\}`)
	// A call that took too long is ended in two ways at once.
	timeout = regexp.MustCompile(`(context deadline exceeded|net/http: request canceled)( \(Client\.Timeout exceeded while awaiting headers\))?`)
	goTypes = regexp.MustCompile(`(struct field )\w+(\.\w+ of type)|(Go value of type )\w+\.\w+`)
)

// neutral puts words for values that are different each time. Of two uids one can
// still see that they differ: they are numbered as they appear.
func neutral(text, namespace string) string {
	seen := map[string]string{}
	return uuid.ReplaceAllStringFunc(neutralButUIDs(text, namespace), func(uid string) string {
		if seen[uid] == "" {
			seen[uid] = fmt.Sprintf("UID-%d", len(seen)+1)
		}
		return seen[uid]
	})
}

func neutralButUIDs(text, namespace string) string {
	text = strings.ReplaceAll(text, namespace, "NAMESPACE")
	text = moment.ReplaceAllString(text, "TIME")
	text = address.ReplaceAllString(text, "$1:PORT")
	text = service.ReplaceAllString(text, "CLUSTER-IP")
	text = structs.ReplaceAllString(text, "STRUCT")
	text = goTypes.ReplaceAllString(text, "${1}${3}TYPE${2}")
	text = timeout.ReplaceAllString(text, "TIMEOUT")
	text = nodes.ReplaceAllString(text, "nodePort: PORT")
	return version.ReplaceAllString(text, "$1: ANY")
}

// systemFields of metadata are the API server's, and a write repeats them.
var systemFields = []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"}

// sequence is what was written to one object: distinct writes, in order. The rules
// by which chance is left out are those of the package comment.
func sequence(steps []step, namespace string) ([]string, error) {
	var texts, kept []string
	for i, w := range steps {
		if w.Status.Reason == "Conflict" {
			continue
		}
		if w.Ref.Subresource == "status" && (w.gone || overtaken(steps[i+1:], w.rest)) {
			continue
		}
		head, err := w.head()
		if err != nil {
			return nil, err
		}
		body, err := w.body()
		if err != nil {
			return nil, err
		}
		text := head + "\n" + body
		if compared := neutralButUIDs(text, namespace); !slices.Contains(kept[max(0, len(kept)-1):], compared) {
			texts, kept = append(texts, text), append(kept, compared)
		}
	}
	if texts == nil {
		return nil, nil
	}
	// Numbered over the whole sequence, so that a change of an owner shows.
	return strings.Split(neutral(strings.Join(texts, "\x00"), namespace), "\x00"), nil
}

// overtaken tells whether the status is written again before the rest.
func overtaken(later []step, rest int) bool {
	return slices.ContainsFunc(later, func(w step) bool {
		return w.rest == rest && w.Ref.Subresource == "status" && w.Status.Code < 300
	})
}

// body is what was sent, as YAML. What only repeats what was observed is left out:
// the server takes it from nobody.
func (w write) body() (string, error) {
	if len(w.Body) == 0 {
		return "", nil
	}
	var content any
	if err := json.Unmarshal(w.Body, &content); err != nil {
		return "", fmt.Errorf("cannot read body in audit log: %w", err)
	}
	if object, ok := content.(map[string]any); ok {
		dropSystemFields(object)
		if w.Ref.Subresource == "status" {
			object = map[string]any{"status": object["status"]}
		} else {
			delete(object, "status")
		}
		content = object
	}
	text, err := yaml.Marshal(content)
	return string(text), err
}

func dropSystemFields(object map[string]any) {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	for _, name := range systemFields {
		delete(metadata, name)
	}
}

// objectText is an object of the end state as YAML. Owners of fields are part of
// it, the times of their writes are not.
func objectText(object map[string]any, namespace string) string {
	metadata, _ := object["metadata"].(map[string]any)
	managers, _ := metadata["managedFields"].([]any)
	slices.SortFunc(managers, func(a, b any) int { return strings.Compare(manager(a), manager(b)) })
	for _, name := range []string{"creationTimestamp", "resourceVersion"} {
		delete(metadata, name)
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return neutral(string(text), namespace)
}

func manager(entry any) string {
	m, _ := entry.(map[string]any)
	return fmt.Sprint(m["manager"], m["operation"], m["subresource"], m["apiVersion"])
}

// eventText is an event without its count and times: they tell how long it took.
func eventText(object map[string]any, namespace string) string {
	involved, _ := object["involvedObject"].(map[string]any)
	kept := map[string]any{"reportingComponent": object["reportingComponent"]}
	for _, name := range []string{"kind", "name", "apiVersion", "fieldPath"} {
		kept[name] = involved[name]
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		text += fmt.Sprintf("%s %v, ", name, kept[name])
	}
	return neutral(text+fmt.Sprintf("%v %v: %v", object["type"], object["reason"], inOrder(fmt.Sprint(object["message"]))), namespace)
}

// inOrder sorts the errors at the end of a message, which come in the order of a Go
// map. A comma within an error cuts it as well, which is the same on both sides.
func inOrder(message string) string {
	before, list, found := strings.Cut(message, ": [")
	if !found || !strings.HasSuffix(list, "]") {
		return message
	}
	parts := strings.Split(strings.TrimSuffix(list, "]"), ", ")
	slices.Sort(parts)
	return before + ": [" + strings.Join(parts, ", ") + "]"
}
