package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

// Write is a write that the API server was asked for.
type Write struct {
	User, Verb, Resource, Subresource, Namespace, Name string
	// Agent is the program that asked, by the end of its user agent:
	// "deployment-controller" of kube-controller-manager, for one.
	Agent string
	Code  int
	// At is when the API server received it.
	At time.Time
}

// Writes returns the writes of a user in a namespace so far, in order.
func (c *Cluster) Writes(user, namespace string) ([]Write, error) {
	all, err := c.AllWrites(namespace)
	return slices.DeleteFunc(all, func(w Write) bool { return w.User != user }), err
}

// AllWrites returns the writes of everybody in a namespace so far, in order.
func (c *Cluster) AllWrites(namespace string) ([]Write, error) {
	return c.Audit(namespace).More()
}

// Audit reads the audit log piece by piece.
type Audit struct {
	path, namespace string
	read            int64
}

// Audit begins to read the audit log of a namespace.
func (c *Cluster) Audit(namespace string) *Audit {
	return &Audit{path: c.file("audit.log"), namespace: namespace}
}

// More returns the writes since the last time.
func (a *Audit) More() ([]Write, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(a.read, io.SeekStart); err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	var writes []Write
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) { // still being written
			break
		}
		a.read += int64(len(line))
		var e struct {
			Verb      string
			UserAgent string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource, Namespace, Name string }
			Status    struct{ Code int } `json:"responseStatus"`
			At        time.Time          `json:"requestReceivedTimestamp"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("cannot read audit log: %w", err)
		}
		if e.ObjectRef.Namespace != a.namespace {
			continue
		}
		writes = append(writes, Write{
			User: e.User.Username, Verb: e.Verb,
			Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource, Namespace: a.namespace, Name: e.ObjectRef.Name,
			Agent: agent(e.UserAgent), Code: e.Status.Code, At: e.At,
		})
	}
	return writes, nil
}

// agent shortens a user agent: "kube-controller-manager/v0.0.0 (linux/amd64)
// kubernetes/$Format/deployment-controller" to "deployment-controller", and "kwok/v0.8.0
// (linux/amd64)" to "kwok".
func agent(userAgent string) string {
	if _, name, ok := strings.Cut(userAgent, "$Format/"); ok {
		return name
	}
	name, _, _ := strings.Cut(userAgent, "/")
	return name
}

// Count says how many writes of each kind there are, as
// "26: 3 configmaps create, 9 deployments update". Events are no writes of ours.
func Count(writes []Write) (int, string) {
	counts := map[string]int{}
	total := 0
	for _, w := range writes {
		if w.Resource == "events" {
			continue
		}
		kind := w.Resource
		if w.Subresource != "" {
			kind += "/" + w.Subresource
		}
		kind += " " + w.Verb
		if w.Code >= 300 {
			kind += fmt.Sprintf(" (%d)", w.Code)
		}
		counts[kind]++
		total++
	}
	var list []string
	for kind, n := range counts {
		list = append(list, fmt.Sprintf("%d %s", n, kind))
	}
	sort.Slice(list, func(i, j int) bool {
		return list[i][strings.Index(list[i], " "):] < list[j][strings.Index(list[j], " "):]
	})
	return total, fmt.Sprintf("%d: %s", total, strings.Join(list, ", "))
}
