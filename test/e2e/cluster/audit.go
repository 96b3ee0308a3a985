package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

// Write is a write that the API server was asked for.
type Write struct {
	User, Verb, Resource, Subresource, Namespace, Name string
	Code                                               int
}

// Writes returns the writes of a user in a namespace so far, in order.
func (c *Cluster) Writes(user, namespace string) ([]Write, error) {
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
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource, Namespace, Name string }
			Status    struct{ Code int } `json:"responseStatus"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("cannot read audit log: %w", err)
		}
		if e.User.Username != user || e.ObjectRef.Namespace != namespace {
			continue
		}
		writes = append(writes, Write{user, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.Status.Code})
	}
	return writes, nil
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
