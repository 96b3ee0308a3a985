package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"greyrelease.example.com/test/e2e/cluster"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// auditPolicy has the API server log what Metacontroller sends.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  verbs: [get, list, watch]
- level: Request
  users: [` + cluster.Metacontroller + `]
- level: None
`

// write is a write by Metacontroller as the audit log has it.
type write struct {
	Verb       string          `json:"verb"`
	RequestURI string          `json:"requestURI"`
	UserAgent  string          `json:"userAgent"`
	Body       json.RawMessage `json:"requestObject"`
	Ref        struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Status struct {
		Code    int    `json:"code"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"responseStatus"`
}

// auditLog reads the audit log as it grows.
type auditLog struct {
	path string

	mu     sync.Mutex
	at     int64
	writes map[string][]write // by namespace
}

// step is a write and the rest that came after it, by number, and whether the object
// was gone by then.
type step struct {
	write
	rest int
	gone bool
}

func newAuditLog(path string) *auditLog {
	return &auditLog{path: path, writes: map[string][]write{}}
}

// read takes in what is new. The caller holds mu.
func (l *auditLog) read() error {
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(l.at, io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) { // still being written
			break
		}
		l.at += int64(len(line))
		var w write
		if err := json.Unmarshal(line, &w); err != nil {
			return fmt.Errorf("cannot read line of audit log: %w", err)
		}
		if w.Ref.Resource != "events" { // part of the end state
			l.writes[w.Ref.Namespace] = append(l.writes[w.Ref.Namespace], w)
		}
	}
	return nil
}

// count is the number of writes in a namespace so far.
func (l *auditLog) count(namespace string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.read()
	return len(l.writes[namespace]), err
}

// of returns the distinct writes in a namespace, by object, and how many there
// were in all. rests are those of the story.
func (l *auditLog) of(namespace string, rests []rest) (map[string][]string, int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return nil, 0, err
	}
	objects := map[string][]step{}
	for i, w := range l.writes[namespace] {
		key := w.Ref.Resource + " " + w.name()
		n := slices.IndexFunc(rests, func(r rest) bool { return r.writes > i })
		objects[key] = append(objects[key], step{w, n, n >= 0 && !rests[n].there[key]})
	}
	distinct := map[string][]string{}
	for key, writes := range objects {
		texts, err := sequence(writes, namespace)
		if err != nil {
			return nil, 0, err
		}
		distinct[key] = texts
	}
	return distinct, len(l.writes[namespace]), nil
}

// name is the object's name. The URI of a create does not have it.
func (w write) name() string {
	if w.Ref.Name != "" {
		return w.Ref.Name
	}
	var body struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(w.Body, &body) != nil {
		return ""
	}
	return body.Metadata.Name
}

// head says what is done, as whom and what came of it.
func (w write) head() (string, error) {
	uri, err := url.Parse(w.RequestURI)
	if err != nil {
		return "", fmt.Errorf("cannot read URI in audit log: %w", err)
	}
	text := w.Verb
	if w.Ref.Subresource != "" {
		text += " " + w.Ref.Subresource
	}
	// Fields that an update sets are owned by whom the user agent names.
	agent, _, _ := strings.Cut(w.UserAgent, "/")
	text += " as " + agent
	query := uri.Query()
	query.Del("timeout")
	if len(query) > 0 {
		text += " with " + query.Encode()
	}
	if w.Status.Code >= 300 {
		return text + fmt.Sprintf(": %d %s: %s", w.Status.Code, w.Status.Reason, w.Status.Message), nil
	}
	return text, nil
}

// endState is all there is in the namespace, by object.
func (t *teller) endState() map[string]string {
	end := map[string]string{}
	for resource := range resources {
		if resource == "pods" { // their names are random, and their number is in what they belong to
			continue
		}
		list, err := t.on(resource).List(t.ctx, metav1.ListOptions{})
		t.must("list "+resource, err)
		if err != nil {
			return nil
		}
		for _, u := range list.Items {
			end[resource+" "+u.GetName()] = objectText(u.Object, t.namespace)
		}
	}
	for key, text := range t.hook.last(t.namespace) {
		end["last request for "+key] = text
	}
	list, err := t.dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(t.namespace).List(t.ctx, metav1.ListOptions{})
	t.must("list events", err)
	if err != nil {
		return nil
	}
	for _, u := range list.Items {
		if component, _, _ := unstructured.NestedString(u.Object, "source", "component"); component == cluster.Metacontroller {
			text := eventText(u.Object, t.namespace)
			end["event "+text] = text
		}
	}
	return end
}
