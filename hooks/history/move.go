package history

import (
	"bytes"
	"cmp"
	"fmt"
)

// A snapshot moves from one kind to the other by a copy, which is made first and
// observed, before the original goes. Requests show each kind as it was at some
// time, which can be long ago, and users change their minds in between. So which of
// two copies may go is never told by what is wanted: the one that was made earlier
// goes, whichever kind it is. Both are immutable, and an object's time and uid never
// change. Of all copies that ever were, the last one therefore is never told to go by
// anybody, however old what he sees. If what is left is of the kind that is not
// wanted, a later copy is made of it.

// paired puts two copies of one snapshot together: what remains is the later one.
func paired(snapshots []Snapshot) []Snapshot {
	out := snapshots[:0]
	for _, s := range snapshots {
		if n := len(out); n > 0 && out[n-1].Former == nil && out[n-1].copies(s) {
			first, last := out[n-1], s
			if last.before(first) {
				first, last = last, first
			}
			last.Former = &first
			out[n-1] = last
			continue
		}
		out = append(out, s)
	}
	return out
}

// copies tells whether two snapshots keep the same. Their settings are not compared:
// after an edit at the wrong moment a snapshot can have been made twice.
func (s Snapshot) copies(other Snapshot) bool {
	if s.Number == 0 || s.Number != other.Number || s.Name != other.Name || s.Kind == other.Kind || s.Hash != other.Hash ||
		s.Broken != "" || other.Broken != "" {
		return false
	}
	one, err := s.Content()
	if err != nil {
		return false
	}
	two, err := other.Content()
	if err != nil || !one.Equal(two) {
		return false
	}
	was, err := s.Template()
	if err != nil {
		return false
	}
	is, err := other.Template()
	return err == nil && bytes.Equal(was.Text, is.Text)
}

// before orders copies by when they were made. One that is being deleted is before all
// that are not.
func (s Snapshot) before(other Snapshot) bool {
	if s.object.Deleting != other.object.Deleting {
		return s.object.Deleting
	}
	return cmp.Or(cmp.Compare(s.object.Created, other.object.Created), cmp.Compare(s.object.UID, other.object.UID)) < 0
}

// Created is metadata.creationTimestamp.
func (s Snapshot) Created() string { return s.object.Created }

// Move builds a copy of a snapshot in the other kind, with what it keeps byte for byte
// and with its labels and annotations of ours. The error is a *BrokenError, or a
// *TooBigError if it cannot be kept in this mode.
func Move(s Snapshot, to Kind, mode Mode) (Holder, error) {
	_, spec, err := s.open()
	if err != nil {
		return Holder{}, err
	}
	template, err := s.Template()
	if err != nil {
		return Holder{}, err
	}
	h := newHolder(to, s.Name)
	h.Metadata.Labels = ours(s.object.Labels)
	h.Metadata.Annotations = ours(s.object.Annotations)
	if err := h.keep(spec, template.Text, mode); err != nil {
		return Holder{}, fmt.Errorf("cannot move snapshot %s into a %s: %w", s.Name, to, err)
	}
	return h, nil
}
