package sim

import (
	"fmt"

	"greyrelease.example.com/test/sim/apply"
)

// keeps tells whether snapshots are kept in objects of the kind.
func keeps(k *Kind) bool { return k == ConfigMaps || k == Secrets }

// otherKind is the kind that a snapshot moves to, or comes from.
func otherKind(k *Kind) *Kind {
	if k == Secrets {
		return ConfigMaps
	}
	return Secrets
}

// checkPlaces: a snapshot is asked for in one kind, or in two of which one is there,
// and where one is left out for the other, that one was observed.
func checkPlaces(_ *Cluster, s *Sync) error {
	if !judged(s) {
		return nil
	}
	observed, listed := map[Ref]*Object{}, map[Ref]bool{}
	for _, o := range s.Children {
		observed[o.Ref] = o
	}
	for _, w := range s.Answer.Children {
		listed[w.Ref] = true
	}
	for _, w := range s.Answer.Children {
		if !keeps(w.Kind) || apply.Text(w.tree, "metadata", "labels", numberLabel) == "" {
			continue
		}
		other := Ref{otherKind(w.Kind), w.Namespace, w.Name}
		switch here, there := observed[w.Ref], observed[other]; {
		case here == nil && there == nil && listed[other]:
			return fmt.Errorf("%s is asked for twice and is nowhere", w.Ref)
		case there != nil && !listed[other] && (here == nil || here.Deleting() && !there.Deleting()):
			return fmt.Errorf("%s is left out for %s, which was not observed", other, w.Ref)
		}
	}
	return nil
}

// moves looks at what is left of a snapshot that moves.
type moves struct {
	left map[string]bool // uids of what was deleted for a copy of it
}

// check: wherever a snapshot is deleted because there is a copy of it, there is one in
// the store, whatever the caches showed, unless somebody else deleted that.
func (m *moves) check(c *Cluster, s *Sync, w Write) error {
	if w.Verb != "delete" || !keeps(w.Ref.Kind) || w.Old == nil || w.New != nil && w.New.UID == w.Old.UID {
		return nil
	}
	other := Ref{otherKind(w.Ref.Kind), w.Ref.Namespace, w.Ref.Name}
	moved := false
	for _, child := range s.Answer.Children {
		moved = moved || child.Ref == other
	}
	if !moved {
		return nil // It was pruned.
	}
	m.left[w.Old.UID] = true
	if live := c.Server.Get(other); live != nil && live.Label(revisionLabel) == w.Old.Label(revisionLabel) {
		return nil
	}
	for _, ch := range c.history {
		if ch.New == nil && (ch.Old.Ref == other || ch.Old.Ref == w.Ref) && !m.left[ch.Old.UID] {
			return nil // Somebody else deleted one.
		}
	}
	return fmt.Errorf("%s was deleted and no copy of it is left", w.Old.Ref)
}
