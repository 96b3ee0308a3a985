package greyrelease

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"greyrelease.example.com/hooks/jsontree"
)

// difference says how a live template differs from the wanted one. Both paths
// are empty if the live one covers it.
type difference struct {
	// Changed is the path of the first field that has another value or is gone,
	// relative to the template: "spec.containers[0].image". It is "." if all is.
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
	d := compare(want, live, podTemplate)
	if d.Changed == here {
		return d
	}
	return difference{Changed: strings.TrimPrefix(d.Changed, "."), Added: strings.TrimPrefix(d.Added, ".")}
}

// here is the path of the value itself, relative to it.
const here = "."

// compare returns paths relative to the values. They are put together on the
// way back, so that the usual case, no difference, costs nothing.
func compare(want, live jsontree.Value, s *shape) difference {
	switch {
	case want.Kind == jsontree.Object && live.Kind == jsontree.Object:
		return compareObjects(want, live, s)
	case want.Kind == jsontree.Array && live.Kind == jsontree.Array:
		return compareLists(want, live, s)
	case s != nil && s.quantity && sameQuantity(want, live), jsontree.Equal(want, live):
		return difference{}
	}
	return difference{Changed: here}
}

func compareObjects(want, live jsontree.Value, s *shape) difference {
	var all difference
	for _, m := range want.Members() {
		if m.Value.Kind == jsontree.Null {
			continue
		}
		if d := compareField(m, live, s.field(m.Name)); d != (difference{}) && all.add(d, s.step(m.Name)) {
			break
		}
	}
	return all
}

func compareField(want jsontree.Member, in jsontree.Value, s *shape) difference {
	live, _ := in.Get(want.Name)
	switch {
	case live.Kind == jsontree.Null && droppable(want.Value, s):
		return difference{}
	case live.Kind == jsontree.Null:
		return difference{Changed: here}
	case s != nil && s.filled && want.Value.IsZero():
		return difference{}
	}
	return compare(want.Value, live, s)
}

// droppable is true for a value that the API server does not store.
func droppable(v jsontree.Value, s *shape) bool {
	return v.IsZero() && (s == nil || !s.pointer)
}

func compareLists(want, live jsontree.Value, s *shape) difference {
	var all difference
	added := len(live.Items()) - len(want.Items())
	if added < 0 || added > 0 && (s == nil || s.keys == nil) {
		return difference{Changed: here}
	}
	if added > 0 {
		all.Added = here
	}
	// Ours must all be there, in our order.
	j := 0
	for i, w := range want.Items() {
		for added > 0 && !sameKeys(w, live.Items()[j], s.keys) {
			j++
			added--
		}
		if d := compare(w, live.Items()[j], s.item()); d != (difference{}) && all.add(d, "["+strconv.Itoa(i)+"]") {
			break
		}
		j++
	}
	return all
}

// add takes over the difference of a part that stands at the step, and says
// whether that settles it.
func (d *difference) add(part difference, step string) (settled bool) {
	if d.Added == "" {
		d.Added = below(step, part.Added)
	}
	d.Changed = below(step, part.Changed)
	return d.Changed != ""
}

func below(step, path string) string {
	switch path {
	case "":
		return ""
	case here:
		return step
	}
	return step + path
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
		return v.Number()
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
