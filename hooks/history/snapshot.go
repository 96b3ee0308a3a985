package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins every label and annotation that is ours.
const Prefix = "greyrelease.example.com/"

// Labels and annotations of a snapshot.
const (
	NumberLabel       = Prefix + "number"   // the revision number, decimal
	RevisionLabel     = Prefix + "revision" // the hash of the content
	VersionAnnotation = Prefix + "version"  // a digest or tag is no legal label value
)

// MaxNumber is the highest revision number that is taken for one. A label
// beyond it was written by hand.
const MaxNumber = 1 << 53

// nameInfix stands between the release's name and the number in the name of a
// snapshot.
const nameInfix = "-rev-"

// Snapshot is one kept revision, as observed. Its content is decoded only by
// Template, Spec and Content.
type Snapshot struct {
	Number  int64 // 0 if there is no telling
	Hash    string
	Version string
	Kind    Kind
	Name    string
	// Former is an earlier copy of the snapshot, in the other kind; nil if there is
	// none. It is in the way of nobody and may go: see paired.
	Former *Snapshot
	// Broken says why the snapshot cannot be used, "" if nothing speaks against
	// it so far. The content may still turn out broken when it is opened.
	Broken string

	object Object
}

// BrokenError says why a snapshot's content cannot be used.
type BrokenError struct {
	Kind   Kind
	Name   string
	Number int64
	Reason string
}

func (e *BrokenError) Error() string {
	name := e.Name
	if e.Kind == Secret {
		name = "Secret " + name
	}
	return fmt.Sprintf("snapshot %s is broken: %s", name, e.Reason)
}

// Read picks the snapshots out of observed ConfigMaps and Secrets, ordered by number
// and then by name. One is a snapshot if it has the number label or a name
// like web-rev-3; what does not fit together makes it a broken one. Two copies of one
// snapshot count as one. Nothing large is decoded but these.
func Read(objects []Object) []Snapshot {
	var snapshots []Snapshot
	for _, o := range objects {
		if s, ok := read(o); ok {
			snapshots = append(snapshots, s)
		}
	}
	slices.SortFunc(snapshots, func(a, b Snapshot) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name),
			// Who looks for a number finds the one that can be used.
			cmp.Compare(a.Broken, b.Broken), cmp.Compare(a.Kind, b.Kind))
	})
	return paired(snapshots)
}

func read(o Object) (Snapshot, bool) {
	label, labelled := o.Labels[NumberLabel]
	named := int64(0)
	if i := strings.LastIndex(o.Name, nameInfix); i >= 0 {
		named = number(o.Name[i+len(nameInfix):])
	}
	if !labelled && named == 0 {
		return Snapshot{}, false
	}
	s := Snapshot{
		Number:  number(label),
		Hash:    o.Labels[RevisionLabel],
		Version: o.Annotations[VersionAnnotation],
		Kind:    o.Kind,
		Name:    o.Name,
		object:  o,
	}
	switch {
	case !labelled:
		s.Broken = "it has no label " + NumberLabel
	case s.Number == 0:
		s.Broken = fmt.Sprintf("its label %s is %q", NumberLabel, label)
	case s.Number != named:
		s.Broken = fmt.Sprintf("its label %s is %q, which its name denies", NumberLabel, label)
		s.Number = 0
	case s.Hash == "":
		s.Broken = "it has no label " + RevisionLabel
	case !s.has(specKey):
		s.Broken = "it has no " + specKey
	case !s.has(templateKey):
		s.Broken = "it has no " + templateKey
	}
	return s, true
}

// number reads a revision number; 0 if it is none.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > MaxNumber || strconv.FormatInt(n, 10) != text {
		return 0
	}
	return n
}

// Emit answers with a snapshot exactly as it was observed, in the fields that
// are ours: it is immutable, so that anything else would be refused for ever.
// Labels and annotations of others are theirs and left out. The data shares its
// memory with the request, for 50 snapshots of 60 KiB would cost 3 MB a sync;
// nobody may write into it.
func Emit(s Snapshot) Holder {
	c := newHolder(s.Kind, s.Name)
	c.Metadata.Labels = ours(s.object.Labels)
	c.Metadata.Annotations = ours(s.object.Annotations)
	if s.object.Immutable != nil {
		immutable := *s.object.Immutable
		c.Immutable = &immutable
	}
	c.Type, c.Data, c.BinaryData = s.object.Type, s.object.Data, s.object.BinaryData
	return c
}

func ours(all map[string]string) map[string]string {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !strings.HasPrefix(key, Prefix) })
	return kept
}
