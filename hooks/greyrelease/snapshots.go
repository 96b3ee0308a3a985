package greyrelease

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"greyrelease.example.com/hooks/history"
)

// holder names a ConfigMap or a Secret.
type holder struct {
	kind history.Kind
	name string
}

// sortSnapshots takes in ConfigMaps and Secrets: the record, the snapshots and what is
// neither.
func (o *observation) sortSnapshots(req *Request) {
	objects := []history.Object{}
	children := map[holder]Child{}
	o.holders = map[holder]bool{}
	for _, group := range []struct {
		key  string
		kind history.Kind
	}{{kindConfigMap, history.ConfigMap}, {kindSecret, history.Secret}} {
		for _, c := range req.All(group.key) {
			object := history.Object{
				Kind: group.kind, Name: c.Metadata.Name, UID: c.Metadata.UID,
				Created: c.Metadata.CreationTimestamp, Deleting: c.Metadata.DeletionTimestamp != "",
				Labels: c.Metadata.Labels, Annotations: c.Metadata.Annotations,
				Immutable: c.Immutable, Type: c.Type, Data: c.Data, BinaryData: c.BinaryData,
			}
			if group.kind == history.ConfigMap && object.Name == recordName(o.name) {
				if !object.Deleting {
					o.recordMap, o.written = &object, lastWrite(c.Metadata.ManagedFields)
				}
				continue
			}
			objects = append(objects, object)
			children[holder{group.kind, object.Name}] = c
			o.holders[holder{group.kind, object.Name}] = true
		}
	}
	for _, s := range history.Read(objects) {
		if !strings.HasPrefix(s.Name, o.name+"-rev-") {
			continue
		}
		o.snapshots = append(o.snapshots, s)
		delete(children, holder{s.Kind, s.Name})
		if s.Former != nil {
			delete(children, holder{s.Former.Kind, s.Former.Name})
		}
		if s.Broken != "" {
			o.note("%v", &history.BrokenError{Kind: s.Kind, Name: s.Name, Number: s.Number, Reason: s.Broken})
		}
	}
	for _, object := range objects {
		if c, left := children[holder{object.Kind, object.Name}]; left {
			o.foreign = append(o.foreign, c)
		}
	}
}

// checkSnapshotKind refuses a spec whose revisions are, or are to be, in Secrets that
// Metacontroller does not send along: what is not seen is not there, so that new
// revisions would be made of old ones and the history would be empty.
func (o *observation) checkSnapshotKind(d *desire) {
	const overlay = "apply the overlay manifests/overlays/secret-snapshots"
	path := field.NewPath("spec", "snapshotKind")
	switch {
	case o.given[kindSecret]:
	case d.spec.SnapshotKind == history.Secret:
		o.needKind(d, path, kindSecret, "secrets", overlay)
	case o.inSecrets():
		d.errs = append(d.errs, field.Forbidden(path, "revisions are still kept in Secrets, and Metacontroller was not told that releases have secrets: "+
			overlay+" again, until they have moved"))
		o.note("if the Secrets are gone for good: kubectl annotate configmap %s -n %s %s=%s --overwrite",
			recordName(o.name), o.namespace, AnnotationSnapshots, history.ConfigMap)
	}
}

// inSecrets tells whether the record says that revisions are kept in Secrets.
func (o *observation) inSecrets() bool {
	return o.recordMap != nil && o.recordMap.Annotations[AnnotationSnapshots] == string(history.Secret)
}

// recordAnnotations are those of the record's ConfigMap. That revisions are kept in
// Secrets is said there for as long as one is, or is going to be: a spec that wants
// ConfigMaps again says so before the Secrets are gone. Once said, it is never left
// out: what was written in dynamic apply stays when server-side apply leaves it out.
func (a *answer) recordAnnotations() map[string]string {
	in := a.inSecrets()
	if a.given[kindSecret] {
		in = a.wish.Valid && a.spec.SnapshotKind == history.Secret || !a.wish.Valid && in
		for _, s := range a.snapshots {
			in = in || s.Kind == history.Secret || s.Former != nil
		}
	}
	a.writes = a.writes || a.recordMap != nil && in != a.inSecrets()
	switch {
	case in:
		return map[string]string{AnnotationSnapshots: string(history.Secret)}
	case a.recordMap != nil && a.recordMap.Annotations[AnnotationSnapshots] != "":
		return map[string]string{AnnotationSnapshots: string(history.ConfigMap)}
	}
	return nil
}

// renderKept answers with a snapshot that is kept, and moves it to the kind that the
// spec asks for, one step an answer: the copy is asked for beside it until it is
// observed, then the earlier of the two is not asked for any more. History says why
// the earlier, whichever it is.
func (a *answer) renderKept(s history.Snapshot) {
	a.children = append(a.children, history.Emit(s))
	switch {
	case !a.wish.Valid:
		if s.Former != nil {
			a.children = append(a.children, history.Emit(*s.Former))
		}
	case s.Former != nil:
		a.writes = true // by leaving it out
	case s.Kind == a.spec.SnapshotKind || s.Broken != "":
	case a.holders[holder{a.spec.SnapshotKind, s.Name}]:
		// An edit of kind and content before anything of the first answer was seen
		// makes two contents with one number, one in each kind.
		a.note("revision %d stays in %s %s: %s %s holds something else; which of the two is not needed can be deleted",
			s.Number, s.Kind, s.Name, a.spec.SnapshotKind, s.Name)
	default:
		a.move(s)
	}
}

// move asks for a copy of a snapshot in the kind that the spec wants.
func (a *answer) move(s history.Snapshot) {
	made := instant(s.Created())
	if age := a.now.Sub(made); age < clockSkew && age >= -staleness {
		// Of two that were made in one second nobody could tell the later.
		if wait := int64((clockSkew - age) / time.Second); a.moveWake == 0 || wait < a.moveWake {
			a.moveWake = wait
		}
		return
	}
	kind := a.spec.SnapshotKind
	copied, err := history.Move(s, kind, a.mode)
	if err != nil {
		a.note("revision %d stays in %s %s: %v", s.Number, s.Kind, s.Name, err)
		return
	}
	a.children = append(a.children, copied)
	a.writes = true
	if due := made.Add(clockSkew); a.now.Sub(due) >= awaitSeconds*time.Second && a.wantedFor() >= awaitSeconds*time.Second {
		a.missing = append(a.missing, string(kind)+" "+s.Name)
	}
}

// wantedFor is for how long the spec has been as it is, and has been in force, at least.
func (a *answer) wantedFor() time.Duration {
	if a.status.Phase == PhaseInvalid {
		return 0
	}
	since := lastEdit(a.parent.Metadata.ManagedFields)
	for _, c := range a.status.Conditions {
		// An overlay that comes later changes no spec.
		if at := instant(c.LastTransitionTime); c.Type == ConditionStalled && at.After(since) {
			since = at
		}
	}
	return a.now.Sub(since)
}
