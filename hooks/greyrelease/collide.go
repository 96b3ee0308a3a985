package greyrelease

import (
	"fmt"
	"strings"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
)

// collision is a list of a template with two items that applying can't tell
// apart.
type collision struct {
	Path string // "spec.containers[0].ports"
	Key  string // "containerPort 53"
	Cure string // what to do, a full clause
}

func (c collision) String() string {
	return fmt.Sprintf("spec.template.%s: two items have %s; %s", c.Path, c.Key, c.Cure)
}

// collisions finds the lists of a rendered template that the apply mode would
// corrupt or refuse, in the order of the paths. Such a template must not be
// released in that mode.
//
// Dynamic apply merges a list by the first of a few names that all its items
// have, and two items with one key become the same item twice on the second
// sync: ports 53/UDP and 53/TCP end as 53/TCP twice. Server-side apply merges by
// the keys of the API, containerPort and protocol for ports, and refuses two
// items with equal ones; so do other tools.
func collisions(template jsontree.Value, mode history.Mode) []collision {
	c := collider{mode: mode}
	c.walk("", template, podTemplate)
	return c.found
}

type collider struct {
	mode  history.Mode
	found []collision
}

func (c *collider) walk(path string, v jsontree.Value, s *shape) {
	switch v.Kind {
	case jsontree.Object:
		for _, m := range v.Members() {
			c.walk(strings.TrimPrefix(path+"."+m.Name, "."), m.Value, s.field(m.Name))
		}
	case jsontree.Array:
		c.list(path, v, s)
		for i, item := range v.Items() {
			c.walk(fmt.Sprintf("%s[%d]", path, i), item, s.item())
		}
	case jsontree.Null, jsontree.Bool, jsontree.Number, jsontree.String, jsontree.Verbatim:
	}
}

func (c *collider) list(path string, v jsontree.Value, s *shape) {
	if s != nil && s.keys != nil {
		if key := twice(v, func(item jsontree.Value) string { return keysText(item, s.keys) }); key != "" {
			c.found = append(c.found, collision{Path: path, Key: key, Cure: "remove or rename one of them"})
			return
		}
	}
	name := mergeName(v)
	if c.mode != history.Dynamic || name == "" {
		return
	}
	if key := twice(v, func(item jsontree.Value) string { return name + " " + mergeKey(item, name) }); key != "" {
		c.found = append(c.found, collision{
			Path: path, Key: key,
			Cure: "dynamic apply can't keep both, run Metacontroller with --apply-strategy=server-side-apply",
		})
	}
}

// twice returns the first key that a list has twice, "" if there is none.
func twice(list jsontree.Value, key func(jsontree.Value) string) string {
	seen := make(map[string]bool, len(list.Items()))
	for _, item := range list.Items() {
		k := key(item)
		if seen[k] {
			return k
		}
		seen[k] = true
	}
	return ""
}

func keysText(item jsontree.Value, keys []string) string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = key + " " + keyText(item, key)
	}
	return strings.Join(texts, " and ")
}
