package greyrelease

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"greyrelease.example.com/hooks/jsontree"
)

// difference says how a live template differs from the wanted one. Both paths
// are empty if the live one covers it.
type difference struct {
	// Changed is the path of the first field that has another value or is gone,
	// relative to the template: "spec.containers[0].image".
	Changed string
	// Added is the path of the first list to which somebody added items of
	// their own, in a list that is merged by a key: a container, a port, a
	// variable. Applying leaves such items alone in both modes, so they can be
	// reported and not removed; to insist would be an endless quarrel with a
	// webhook that adds a sidecar.
	Added string
}

// covers compares a live pod template, as the API server stored it, with the
// wanted one. The live one covers it if every wanted field has the wanted
// value, quantities by value, or is absent because the API server drops that
// value (empty maps, lists and strings, 0 and false where no pointer makes
// them mean something), or was filled in because it counts as unset. Lists
// must have the same length and order. Other fields of the live one are
// defaults or other people's.
//
//	wanted                              live                      covers
//	{}                                  {dnsPolicy: ClusterFirst} yes
//	{nodeSelector: {}}                  {}                        yes
//	{volumes: [{emptyDir: {}}]}         {volumes: [{hostPath: ..}]} no
//	{limits: {cpu: "0.5"}}              {limits: {cpu: 500m}}     yes
//	{env: [{name: CPU, value: "0.5"}]}  {env: [.. value: 500m]}   no
func covers(want, live jsontree.Value) difference {
	var d difference
	d.Changed = d.compare(want, live, podTemplate)
	return d
}

// compare returns the path, from here, of the first changed field. Paths are
// put together on the way back, so that the usual case costs nothing.
func (d *difference) compare(want, live jsontree.Value, s *shape) string {
	switch {
	case want.Kind == jsontree.Object && live.Kind == jsontree.Object:
		return d.object(want, live, s)
	case want.Kind == jsontree.Array && live.Kind == jsontree.Array:
		return d.list(want, live, s)
	case s != nil && s.quantity && sameQuantity(want, live), jsontree.Equal(want, live):
		return ""
	}
	return "."
}

func (d *difference) object(want, live jsontree.Value, s *shape) string {
	for _, m := range want.Members {
		if m.Value.Kind == jsontree.Null {
			continue
		}
		field := s.field(m.Name)
		l, present := live.Get(m.Name)
		switch {
		case !present || l.Kind == jsontree.Null:
			if !droppable(m.Value, field) {
				return "." + m.Name
			}
		case field != nil && field.filled && m.Value.IsZero():
		default:
			added := d.Added
			if path := d.compare(m.Value, l, field); path != "" {
				return prefix("."+m.Name, path)
			}
			if d.Added != added {
				d.Added = prefix("."+m.Name, d.Added)
			}
		}
	}
	return ""
}

// droppable is true for a value that the API server does not store.
func droppable(v jsontree.Value, s *shape) bool {
	return v.IsZero() && (s == nil || !s.pointer)
}

func prefix(head, tail string) string {
	if tail == "." {
		return head
	}
	return head + tail
}

func (d *difference) list(want, live jsontree.Value, s *shape) string {
	item := s.item()
	if len(want.Items) == len(live.Items) {
		for i := range want.Items {
			if path := d.element(i, want.Items[i], live.Items[i], item); path != "" {
				return path
			}
		}
		return ""
	}
	if len(want.Items) > len(live.Items) || s == nil || s.keys == nil {
		return "."
	}
	// Somebody added items: ours must all be there, in our order.
	j := 0
	for i, w := range want.Items {
		for j < len(live.Items) && !sameKeys(w, live.Items[j], s.keys) {
			j++
		}
		if j == len(live.Items) {
			return "."
		}
		if path := d.element(i, w, live.Items[j], item); path != "" {
			return path
		}
		j++
	}
	if d.Added == "" {
		d.Added = "."
	}
	return ""
}

func (d *difference) element(i int, want, live jsontree.Value, s *shape) string {
	added := d.Added
	path := d.compare(want, live, s)
	if path == "" && d.Added == added {
		return ""
	}
	index := "[" + strconv.Itoa(i) + "]"
	if d.Added != added {
		d.Added = prefix(index, d.Added)
	}
	if path == "" {
		return ""
	}
	return prefix(index, path)
}

// sameKeys compares the keys by which server-side apply merges a list. An
// absent one is the default: protocol is TCP.
func sameKeys(a, b jsontree.Value, keys []string) bool {
	for _, key := range keys {
		if keyText(a, key) != keyText(b, key) {
			return false
		}
	}
	return true
}

func keyText(item jsontree.Value, key string) string {
	v, _ := item.Get(key)
	if key == "protocol" && v.Text == "" {
		return "TCP"
	}
	if v.Kind == jsontree.Number {
		return string(jsontree.Canonical(v))
	}
	return v.Text
}

// sameQuantity compares 0.5 with 500m and 1024Mi with 1Gi. A quantity may also
// be written as a number.
func sameQuantity(a, b jsontree.Value) bool {
	if a.Text == b.Text {
		return true
	}
	p, err := resource.ParseQuantity(a.Text)
	if err != nil {
		return false
	}
	q, err := resource.ParseQuantity(b.Text)
	return err == nil && p.Cmp(q) == 0
}
