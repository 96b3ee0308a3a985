package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// Answer is what a hook answered.
type Answer struct {
	Status   map[string]any
	Children []*wish
	Resync   time.Duration // 0 for none
}

// wish is a child that is asked for.
type wish struct {
	Ref
	tree map[string]any // with namespace and uid label
	text string
	hash uint64  // of the configuration, in server-side mode
	met  *Object // the observed version that had everything
}

// Tree returns the child as Metacontroller completes it.
func (w *wish) Tree() map[string]any { return w.tree }

// decode reads an answer. As with version v2 of the hook, unknown fields are an
// error.
func (m *Metacontroller) decode(s *Sync) (*Answer, error) {
	var raw struct {
		Status             json.RawMessage   `json:"status"`
		Children           []json.RawMessage `json:"children"`
		ResyncAfterSeconds float64           `json:"resyncAfterSeconds"`
		Finalized          bool              `json:"finalized"`
	}
	d := json.NewDecoder(bytes.NewReader(s.Reply.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("can't unmarshal webhookResponse: %w", err)
	}
	a := &Answer{Resync: time.Duration(raw.ResyncAfterSeconds * float64(time.Second))}
	if len(raw.Status) > 0 && string(raw.Status) != "null" {
		status, err := apply.Decode(raw.Status)
		if err != nil {
			return nil, err
		}
		a.Status = status
	}
	if a.Status == nil {
		a.Status = map[string]any{}
	}
	a.Status["observedGeneration"] = s.Parent.Generation()
	at := map[Ref]int{}
	for _, text := range raw.Children {
		w, err := m.wish(s, text)
		if err != nil {
			return nil, err
		}
		if i, ok := at[w.Ref]; ok { // the later of two stands
			a.Children[i] = w
			continue
		}
		at[w.Ref] = len(a.Children)
		a.Children = append(a.Children, w)
	}
	return a, nil
}

// wish decodes a child, or finds it among those decoded before.
func (m *Metacontroller) wish(s *Sync, text []byte) (*wish, error) {
	key := s.Parent.UID + string(text)
	if w := m.wishes[key]; w != nil {
		return w, nil
	}
	tree, err := apply.Decode(text)
	if err != nil {
		return nil, err
	}
	meta := apply.CloneMap(apply.Object(tree, "metadata"))
	if meta["namespace"] == nil || meta["namespace"] == "" {
		meta["namespace"] = s.Parent.Namespace
	}
	labels := apply.CloneMap(apply.Object(meta, "labels"))
	if labels == nil {
		labels = map[string]any{}
	}
	if _, ok := labels[uidLabel]; !ok {
		labels[uidLabel] = s.Parent.UID
	}
	meta["labels"] = labels
	tree = with(tree, "metadata", meta)
	ref, err := refOf(tree)
	if err != nil {
		return nil, err
	}
	if labels[uidLabel] != s.Parent.UID {
		return nil, fmt.Errorf("labels on desired child %s don't match parent selector", ref)
	}
	if m.caches[ref.Kind] == nil || ref.Kind == Releases {
		return nil, fmt.Errorf("no informer for kind %s", ref.Kind.Name)
	}
	w := &wish{Ref: ref, tree: tree, text: key}
	if len(m.wishes) > 1000 {
		clear(m.wishes)
	}
	m.wishes[key] = w
	return w, nil
}

// composite is the CompositeController as requests carry it.
func (m *Metacontroller) composite() string {
	text := `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"CompositeController","metadata":{"name":"greyrelease","annotations":{"greyrelease.example.com/channel":"experimental"`
	if m.c.options.Pods {
		text += `,"greyrelease.example.com/pods":"true"`
	}
	text += `}},"spec":{"childResources":[`
	for i, k := range m.childKinds() {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"apiVersion":%q,"resource":%q,"updateStrategy":{"method":"InPlace"}}`, k.APIVersion(), k.Resource)
	}
	return text + `],"generateSelector":true,"parentResource":{"apiVersion":"greyrelease.example.com/v1","resource":"greyreleases"}}}`
}

// request is the body of the request of a sync: the parent and the children as
// cached, one group for each kind of child.
func (m *Metacontroller) request(s *Sync) []byte {
	var b bytes.Buffer
	b.WriteString(`{"controller":`)
	b.WriteString(m.composite())
	b.WriteString(`,"parent":`)
	b.Write(s.Parent.JSON())
	b.WriteString(`,"children":{`)
	writeGroups(&b, m.childKinds(), s.Children)
	b.WriteString(`},"related":{`)
	var asked []*Kind
	for _, k := range kinds {
		if slices.ContainsFunc(s.rules, func(r rule) bool { return r.kind == k }) {
			asked = append(asked, k)
		}
	}
	writeGroups(&b, asked, s.Related)
	b.WriteString(`},"finalizing":false}`)
	return b.Bytes()
}

// writeGroups writes a group for each kind with its objects, which are sorted.
func writeGroups(b *bytes.Buffer, of []*Kind, objects []*Object) {
	for i, k := range of {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%q:{", k.GroupKey())
		first := true
		for _, o := range objects {
			if o.Kind != k {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			fmt.Fprintf(b, "%q:", o.Key())
			b.Write(o.JSON())
		}
		b.WriteByte('}')
	}
}
