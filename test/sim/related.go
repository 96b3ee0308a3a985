package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// keepsRules is how long an answer of the customize hook is good for.
const keepsRules = 20 * time.Minute

// rule selects objects that come along with a parent's requests.
type rule struct {
	kind   *Kind
	labels map[string]any
	names  []string
}

// customized is an answer of the customize hook.
type customized struct {
	generation int64
	at         time.Time
	rules      []rule
}

// customize returns what a parent wants to see beside its children. An answer is
// kept by uid and generation.
func (m *Metacontroller) customize(parent *Object) ([]rule, error) {
	if m.c.options.Customize == nil {
		return nil, nil
	}
	known := m.customs[parent.UID]
	if known != nil && known.generation == parent.Generation() && m.c.Since(known.at) < keepsRules {
		return known.rules, nil
	}
	if m.Down {
		return nil, fmt.Errorf("customize hook failed for GreyRelease %s: http error: connection refused", parent.Key())
	}
	body := fmt.Sprintf(`{"controller":%s,"parent":%s}`, m.composite(), parent.JSON())
	reply, err := m.c.options.Customize([]byte(body), m.c.clock.now)
	if err != nil {
		return nil, fmt.Errorf("customize hook failed for GreyRelease %s: http error: %w", parent.Key(), err)
	}
	if reply.Status != 200 {
		return nil, fmt.Errorf("customize hook failed for GreyRelease %s: unsupported status code: %d body: %s", parent.Key(), reply.Status, reply.Body)
	}
	rules, err := m.readRules(reply.Body)
	if err != nil {
		return nil, fmt.Errorf("customize hook failed for GreyRelease %s: %w", parent.Key(), err)
	}
	m.customs[parent.UID] = &customized{parent.Generation(), m.c.clock.now, rules}
	return rules, nil
}

func (m *Metacontroller) readRules(body []byte) ([]rule, error) {
	var answer struct {
		RelatedResources []struct {
			APIVersion    string `json:"apiVersion"`
			Resource      string `json:"resource"`
			LabelSelector *struct {
				MatchLabels map[string]any `json:"matchLabels"`
			} `json:"labelSelector"`
			Namespace string   `json:"namespace"`
			Names     []string `json:"names"`
		} `json:"relatedResources"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		return nil, fmt.Errorf("can't unmarshal webhookResponse: %w", err)
	}
	var rules []rule
	for _, r := range answer.RelatedResources {
		i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.APIVersion() == r.APIVersion && k.Resource == r.Resource })
		if i < 0 {
			return nil, fmt.Errorf("discovery: can't find resource %s in apiVersion %s", r.Resource, r.APIVersion)
		}
		if (r.LabelSelector != nil) == (len(r.Names) > 0) {
			return nil, fmt.Errorf("a related rule has either a labelSelector or names")
		}
		next := rule{kind: kinds[i], names: r.Names}
		if r.LabelSelector != nil {
			next.labels = r.LabelSelector.MatchLabels
		}
		rules = append(rules, next)
		if m.related[next.kind] == nil {
			cache := &informer{kind: next.kind, c: m.c, handle: m.onRelated}
			m.related[next.kind] = cache
			cache.objects = map[Ref]*Object{}
			for _, o := range m.c.Server.List(next.kind) {
				cache.objects[o.Ref] = o
			}
			m.listCaches()
		}
	}
	return rules, nil
}

// selects tells whether an object is one that a parent wants to see.
func (r rule) selects(parent, o *Object) bool {
	if o == nil || o.Kind != r.kind || o.Namespace != parent.Namespace {
		return false
	}
	if r.labels != nil {
		return matches(r.labels, apply.Object(o.Tree, "metadata", "labels"))
	}
	return slices.Contains(r.names, o.Name)
}

// onRelated wakes the parents that wanted to see the object as it was or as it is.
func (m *Metacontroller) onRelated(e Event) {
	if e.Old != nil && e.New != nil && e.Old.Version == e.New.Version {
		return
	}
	for _, parent := range m.caches[Releases].all() {
		rules, err := m.customize(parent)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(rules, func(r rule) bool { return r.selects(parent, e.Old) || r.selects(parent, e.New) }) {
			m.queue.add(parent.Key())
		}
	}
}

// findRelated returns what the caches show of the objects that the rules select.
func (m *Metacontroller) findRelated(parent *Object, rules []rule) []*Object {
	found := map[Ref]*Object{}
	for _, r := range rules {
		for _, o := range m.related[r.kind].list(parent.Namespace) {
			if r.selects(parent, o) {
				found[o.Ref] = o
			}
		}
	}
	list := slices.Collect(maps.Values(found))
	slices.SortFunc(list, func(a, b *Object) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// listCaches puts all caches in a fixed order.
func (m *Metacontroller) listCaches() {
	m.every = nil
	for _, k := range kinds {
		for _, of := range []map[*Kind]*informer{m.caches, m.related} {
			if cache := of[k]; cache != nil {
				m.every = append(m.every, cache)
			}
		}
	}
}
