package upgrade

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// object is a JSON object.
type object = map[string]any

// outcome is what must not change about an answer with a later version.
type outcome struct {
	Status      position              `json:"status"`
	Record      *record               `json:"record,omitempty"`
	Deployments map[string]deployment `json:"deployments,omitempty"`
	// Snapshots are the SHA-256 of what is asked for, by name.
	Snapshots map[string]string `json:"snapshots,omitempty"`
	// Rest is the SHA-256 of all children of an answer that writes none of them,
	// "" for one that does: an upgrade is no reason to write.
	Rest string `json:"rest,omitempty"`
}

// position is where a release stands, as its status says.
type position struct {
	Phase          string `json:"phase"`
	TargetRevision int64  `json:"targetRevision"`
	StableRevision int64  `json:"stableRevision"`
	CurrentBatch   int64  `json:"currentBatch"`
	TotalBatches   int64  `json:"totalBatches"`
}

// record is what every version has to find in the record of another.
type record struct {
	Highest int64           `json:"highest"`
	Stable  json.RawMessage `json:"stable"`
	Target  json.RawMessage `json:"target"`
	Attempt int64           `json:"attempt"`
	Pin     int64           `json:"pin,omitempty"`
	Left    int64           `json:"left,omitempty"`
	Failure *failure        `json:"failure,omitempty"`
	History []entry         `json:"history,omitempty"`
}

// failure and entry leave out the words that were found for it: a later version
// may find better ones.
type failure struct {
	Reason string `json:"reason"`
	At     string `json:"at"`
}

type entry struct {
	Revision   int64  `json:"revision"`
	Result     string `json:"result"`
	FinishedAt string `json:"finishedAt"`
}

// deployment is what must not change about a Deployment. Replicas may: a later
// version may know a better way.
type deployment struct {
	Number   string          `json:"number"`
	Revision string          `json:"revision"`
	Version  string          `json:"version"`
	Selector json.RawMessage `json:"selector"`
	Settings json.RawMessage `json:"settings"` // spec without replicas, selector and template
	Template string          `json:"template"` // SHA-256
}

// child is a child of an answer, as far as it is looked at here.
type child struct {
	Kind     string
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Spec map[string]json.RawMessage
	Data map[string]string
}

const prefix = "greyrelease.example.com/"

// outcomeOf reads an answer to a request.
func outcomeOf(request, answer []byte) (outcome, error) {
	var a struct {
		Status   position
		Children []json.RawMessage
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return outcome{}, fmt.Errorf("cannot read answer: %w", err)
	}
	o := outcome{Status: a.Status, Deployments: map[string]deployment{}, Snapshots: map[string]string{}}
	for _, raw := range a.Children {
		var c child
		if err := json.Unmarshal(raw, &c); err != nil {
			return outcome{}, fmt.Errorf("cannot read child: %w", err)
		}
		name := c.Metadata.Name
		switch {
		case c.Kind == "Deployment":
			o.Deployments[name] = c.deployment()
		case c.Data["record.json"] != "":
			if err := json.Unmarshal([]byte(c.Data["record.json"]), &o.Record); err != nil {
				return outcome{}, fmt.Errorf("cannot read record: %w", err)
			}
		default:
			o.Snapshots[name] = sum(raw)
		}
	}
	writes, err := writesChildren(request, a.Children)
	if err != nil {
		return outcome{}, err
	}
	if !writes {
		o.Rest = sum(bytes.Join(sorted(a.Children), nil))
	}
	return o, nil
}

func (c *child) deployment() deployment {
	settings := maps.Clone(c.Spec)
	for _, own := range []string{"replicas", "selector", "template"} {
		delete(settings, own)
	}
	return deployment{
		Number: c.Metadata.Labels[prefix+"number"], Revision: c.Metadata.Labels[prefix+"revision"],
		Version: c.Metadata.Annotations[prefix+"version"], Selector: c.Spec["selector"],
		Settings: text(settings), Template: sum(c.Spec["template"]),
	}
}

func sorted(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, raw := range list {
		out[i] = raw
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// text is JSON with sorted names. Everything here can be encoded.
func text(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(fmt.Sprintf("%q", err.Error()))
	}
	return data
}

// differences says what of then is not so any more.
func (then outcome) differences(now outcome) []string {
	var list []string
	check := func(what string, want, got any) {
		if w, g := text(want), text(got); !bytes.Equal(w, g) {
			list = append(list, fmt.Sprintf("%s: want %s, got %s", what, w, g))
		}
	}
	check("status", then.Status, now.Status)
	check("record", then.Record, now.Record)
	names := func(m map[string]deployment) []string { return slices.Sorted(maps.Keys(m)) }
	check("Deployments", names(then.Deployments), names(now.Deployments))
	for _, name := range names(then.Deployments) {
		want, got := then.Deployments[name], now.Deployments[name]
		check(name+": number", want.Number, got.Number)
		check(name+": revision", want.Revision, got.Revision)
		check(name+": version", want.Version, got.Version)
		check(name+": selector", want.Selector, got.Selector)
		check(name+": settings", want.Settings, got.Settings)
		check(name+": hash of the template", want.Template, got.Template)
	}
	check("snapshots", then.Snapshots, now.Snapshots)
	if then.Rest != "" {
		check("hash of all children of a release at rest", then.Rest, now.Rest)
	}
	return list
}
