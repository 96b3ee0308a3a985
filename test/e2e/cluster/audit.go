package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	text, err := os.ReadFile(c.file("audit.log"))
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	var writes []Write
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) { // still being written
			break
		}
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
		if e.ObjectRef.Namespace != namespace {
			continue
		}
		writes = append(writes, Write{
			User: e.User.Username, Verb: e.Verb,
			Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource, Namespace: namespace, Name: e.ObjectRef.Name,
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
