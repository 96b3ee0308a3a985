package greyrelease

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
	"greyrelease.example.com/hooks/rollout"
)

// desire is what the parent asks for, checked and numbered.
type desire struct {
	spec *Spec
	errs field.ErrorList
	wish rollout.Wish
	// content is the spec's own, for a snapshot to be made, and template what its
	// pod template means.
	content  history.Content
	template jsontree.Value
	// draft is the content as rendered; made only for content that is new.
	draft *draft
}

// draft is a revision that has no snapshot yet.
type draft struct {
	template []byte
	notes    []string
}

// want reads the spec and finds out which revision it asks for.
func (o *observation) want() desire {
	d := desire{wish: rollout.Wish{
		Generation: o.parent.Metadata.Generation, Replicas: -1, Command: o.parent.Metadata.Annotations[AnnotationCommand],
	}}
	d.spec, d.errs = decodeSpec(o.parent.Spec)
	d.errs = append(validateName(o.name), d.errs...)
	if d.spec.AppName == "" {
		d.spec.AppName = o.name
	}
	if d.spec.Replicas != nil {
		d.wish.Replicas = *d.spec.Replicas
	}
	o.checkSnapshotKind(&d)
	if len(d.errs) > 0 {
		return d
	}
	d.wish.Settings = d.spec.settings()
	o.checkTraffic(&d)
	o.findContent(&d)
	o.findPin(&d)
	d.wish.Valid = len(d.errs) == 0
	return d
}

// findContent gives the spec's content its revision: a known one, or the next
// number. Content that has no snapshot yet is checked in full.
func (o *observation) findContent(d *desire) {
	path := field.NewPath("spec", "template")
	var content history.Content
	tree, err := jsontree.Parse(d.spec.Template)
	if err == nil {
		content, err = history.Identify(tree, d.spec.TargetVersion)
	}
	if err != nil {
		// The checks of the template know better what is wrong with it.
		d.errs = append(d.errs, validateTemplate(d.spec.Template, o.namespace)...)
		if len(d.errs) == 0 {
			d.errs = append(d.errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
		}
		return
	}
	d.content, d.template = content, tree
	known, found, err := history.Find(o.snapshots, content)
	var collision *history.CollisionError
	switch {
	case errors.As(err, &collision):
		d.errs = append(d.errs, field.Invalid(path, field.OmitValueType{}, collision.Error()))
		return
	case found:
		// The same content can be kept under a number that is another's by now: then
		// it gets a number, and a snapshot, of its own.
		if r := o.canonical(rollout.Revision{Number: known.Number, Hash: content.Hash, Version: content.Version}); !o.claimed(r) {
			d.wish.Content = r
			o.checkDeployable(d, known)
			return
		}
	case err != nil:
		o.note("%v", err)
	}
	for _, known := range o.known() {
		if known.Hash == content.Hash && o.numberTaken(known.Number) {
			// Its snapshot can't be read: reported, and never released anew.
			d.wish.Content = known
			return
		}
	}
	if errs := validateTemplate(d.spec.Template, o.namespace); len(errs) > 0 {
		d.errs = append(d.errs, errs...)
		return
	}
	template, notes, err := renderTemplate(tree, o.identityOf(d))
	if err != nil {
		d.errs = append(d.errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
		return
	}
	number, err := o.number(content)
	if err != nil {
		d.errs = append(d.errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
		return
	}
	d.draft = &draft{template: template.Text, notes: notes}
	d.wish.Content = rollout.Revision{Number: number, Hash: content.Hash, Version: content.Version}
	if problem := o.undeployable(d.wish.Content, template); problem != nil {
		d.errs = append(d.errs, problem)
		return
	}
	if _, err := o.makeSnapshot(d); err != nil {
		d.errs = append(d.errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
}

// identityOf is what the spec's content is rendered with.
func (o *observation) identityOf(d *desire) templateIdentity {
	return templateIdentity{Name: o.name, App: d.spec.AppName, Hash: d.content.Hash, Version: d.content.Version}
}

// checkDeployable refuses content that is kept already and still can't run here:
// the apply mode shows only after the first child was written.
func (o *observation) checkDeployable(d *desire, known history.Snapshot) {
	if o.deployments[d.wish.Content.Number] != nil {
		return
	}
	template, err := known.Template()
	if err != nil {
		return // Said where the template is needed.
	}
	if problem := o.undeployable(d.wish.Content, template); problem != nil {
		d.errs = append(d.errs, problem)
	}
}

// canonical gives a content one number. Two snapshots of one content can come to
// be when a cache shows neither the first of them nor the record; both name the
// same Deployment, so they must not be two revisions.
func (o *observation) canonical(r rollout.Revision) rollout.Revision {
	if o.record != nil {
		for _, known := range []rollout.Revision{o.record.Target, o.record.Stable} {
			if known.Number != 0 && known.Hash == r.Hash {
				return known
			}
		}
	}
	for _, s := range o.snapshots {
		kept := rollout.Revision{Number: s.Number, Hash: s.Hash, Version: s.Version}
		if s.Hash == r.Hash && s.Broken == "" && s.Number != 0 && !o.claimed(kept) {
			return kept
		}
	}
	return r
}

// claimed tells whether the record knows the number of r as another content's.
// It comes to that when a spec changes before its first snapshot is observed: the
// number was given to the old content in the snapshot and to the new one in the
// record. The record is what is acted on, so it decides.
func (o *observation) claimed(r rollout.Revision) bool {
	if o.record == nil {
		return false
	}
	for _, known := range []rollout.Revision{o.record.Target, o.record.Stable} {
		if known.Number == r.Number && known.Number != 0 && known.Hash != r.Hash {
			return true
		}
	}
	return false
}

// number is the revision number of content whose snapshot is not there: the one
// the record or its Deployment knows it by, or a new one.
func (o *observation) number(content history.Content) (int64, error) {
	if n := int64(o.status.TargetRevision); o.record == nil && n > 0 && n <= history.MaxNumber && o.status.TargetVersion == content.Version &&
		!o.numberTaken(n) && !slices.Contains(o.numbers, n) {
		// The answer before gave it this number, and nothing but the status shows it:
		// children are hidden by a cache, or their names are taken. Another number
		// would make it two revisions.
		return n, nil
	}
	hash := content.Hash
	var highest int64
	var elsewhere []int64
	if o.record == nil {
		// Only then: with a record that is a little old the status would make the
		// same content another revision.
		elsewhere = append(elsewhere, int64(o.status.StableRevision), int64(o.status.TargetRevision))
		for _, e := range o.status.entries() {
			elsewhere = append(elsewhere, int64(e.Revision))
		}
	}
	if r := o.record; r != nil {
		for _, known := range []rollout.Revision{r.Target, r.Stable} {
			if known.Number != 0 && known.Hash == hash && !o.numberTaken(known.Number) {
				return known.Number, nil
			}
		}
		highest = r.Highest
	}
	for _, n := range o.numbers {
		if o.identity[n].Hash == hash && n <= history.MaxNumber && !o.numberTaken(n) {
			return n, nil
		}
		elsewhere = append(elsewhere, n)
	}
	number, err := history.Next(highest, o.snapshots, elsewhere...)
	for err == nil && o.nameTaken(snapshotName(o.name, number)) {
		number, err = history.Next(number, o.snapshots, elsewhere...)
	}
	return number, err
}

// nameTaken tells whether an object of this name is there, whatever it is.
func (o *observation) nameTaken(name string) bool {
	return slices.ContainsFunc(o.snapshots, func(s history.Snapshot) bool { return s.Name == name }) ||
		slices.ContainsFunc(o.foreign, func(c Child) bool { return c.Metadata.Name == name })
}

// numberTaken tells whether a snapshot, broken or not, stands under the number.
func (o *observation) numberTaken(number int64) bool {
	_, taken := history.ByNumber(o.snapshots, number)
	return taken
}

// findPin resolves rollbackTo.
func (o *observation) findPin(d *desire) {
	if d.spec.RollbackTo == 0 {
		return
	}
	path := field.NewPath("spec", "rollbackTo")
	s, found := o.keptAs(d.spec.RollbackTo)
	switch {
	case !found:
		d.errs = append(d.errs, field.Invalid(path, d.spec.RollbackTo, "there is no such revision; "+o.choices()))
		return
	case s.Broken != "":
		d.errs = append(d.errs, field.Invalid(path, d.spec.RollbackTo, fmt.Sprintf("snapshot %s is broken: %s; %s", s.Name, s.Broken, o.choices())))
		return
	}
	if _, err := s.Template(); err != nil {
		d.errs = append(d.errs, field.Invalid(path, d.spec.RollbackTo, fmt.Sprintf("%v; %s", err, o.choices())))
		return
	}
	d.wish.Pin = o.canonical(rollout.Revision{Number: s.Number, Hash: s.Hash, Version: s.Version})
}

// keptAs finds the snapshot of what users know under a number.
func (o *observation) keptAs(number int64) (history.Snapshot, bool) {
	s, found := history.ByNumber(o.snapshots, number)
	if !found || !o.claimed(rollout.Revision{Number: number, Hash: s.Hash}) {
		return s, found
	}
	for _, known := range []rollout.Revision{o.record.Target, o.record.Stable} {
		if known.Number == number {
			return o.snapshot(known)
		}
	}
	return history.Snapshot{}, false
}

// choices lists the revisions that rollbackTo can name.
func (o *observation) choices() string {
	var names []string
	for _, s := range o.snapshots {
		if s.Broken == "" && !o.claimed(rollout.Revision{Number: s.Number, Hash: s.Hash}) {
			names = append(names, fmt.Sprintf("%d (%s)", s.Number, s.Version))
		}
	}
	if len(names) == 0 {
		return "none is kept: remove the field"
	}
	return "kept are " + strings.Join(names, ", ")
}

// settings are the rollout settings of a spec.
func (s *Spec) settings() rollout.Settings {
	out := rollout.Settings{
		BatchSize: s.BatchSize, CanaryWeight: s.CanaryWeight, SoakSeconds: s.SoakSeconds,
		MaxSurge: rollout.Quantity(s.MaxSurge), MaxUnavailable: rollout.Quantity(s.MaxUnavailable),
		MinReadySeconds: s.MinReadySeconds, ProgressDeadlineSeconds: s.ProgressDeadlineSeconds,
		AutoRollback: s.AutoRollback, Paused: s.Paused,
		Router: s.router(), Headers: s.Traffic.pinned(),
		KeepStable:            s.BlueGreen || s.Traffic.routed() && !s.Traffic.WithBatches,
		ScaleDownDelaySeconds: s.ScaleDownDelaySeconds,
		Metrics:               s.Metrics,
	}
	if s.MaxRestarts != rollout.DefaultMaxRestarts {
		// The default is left out, so that records of before are as they would be now.
		out.MaxRestarts = s.MaxRestarts
	}
	if s.BlueGreen {
		out.Batches = []rollout.Batch{s.switchBatch()}
		return out
	}
	for _, b := range s.Batches {
		soak := s.SoakSeconds
		if b.SoakSeconds != nil {
			soak = *b.SoakSeconds
		}
		out.Batches = append(out.Batches, rollout.Batch{
			Pods: b.Pods, Percent: b.Percent, Weight: b.Weight, SoakSeconds: soak,
			Approval: b.Approval, ApprovalTimeoutSeconds: b.ApprovalTimeoutSeconds,
		})
	}
	return out
}

// router is what splits requests.
func (s *Spec) router() rollout.Router {
	switch {
	case s.Traffic == nil:
		return rollout.RouterNone
	case s.Traffic.HTTPRoute != nil:
		return rollout.RouterWeights
	case s.Traffic.Ingress != nil:
		return rollout.RouterPair
	case s.BlueGreen:
		return rollout.RouterSwitch
	}
	return rollout.RouterNone
}

// switchBatch is the one batch of BlueGreen: all pods and no requests, with the
// gate of the batch that the spec may have.
func (s *Spec) switchBatch() rollout.Batch {
	var none int64
	out := rollout.Batch{Percent: 100, Weight: &none, SoakSeconds: s.SoakSeconds}
	if len(s.Batches) > 0 {
		b := s.Batches[0]
		out.Approval, out.ApprovalTimeoutSeconds = b.Approval, b.ApprovalTimeoutSeconds
		if b.SoakSeconds != nil {
			out.SoakSeconds = *b.SoakSeconds
		}
	}
	return out
}

// hints are what can be known when the record is lost.
func (o *observation) hints() rollout.Hints {
	h := rollout.Hints{Command: o.status.command(), Highest: max(int64(o.status.StableRevision), int64(o.status.TargetRevision))}
	for _, c := range o.decided() {
		h.Counter = max(h.Counter, decisionOf(c).Counter)
	}
	for _, s := range o.snapshots {
		h.Highest = max(h.Highest, s.Number)
		if s.Number != 0 {
			h.Past = append(h.Past, rollout.Past{Revision: s.Number, Attempt: 1})
		}
	}
	for _, e := range o.status.entries() {
		if n := int64(e.Revision); n >= 1 && n <= history.MaxNumber {
			h.Highest = max(h.Highest, n)
			h.History = append(h.History, rollout.Entry{
				Revision: n, Version: e.Version, Result: rollout.Result(e.Result), Reason: e.Reason,
				StartedAt: instant(e.StartedAt), FinishedAt: instant(e.FinishedAt),
			})
		}
	}
	if s, ok := history.ByNumber(o.snapshots, int64(o.status.StableRevision)); ok && s.Broken == "" {
		h.Stable = rollout.Revision{Number: s.Number, Hash: s.Hash, Version: s.Version}
	}
	return h
}

// known are the revisions that run or are meant to.
func (o *observation) known() []rollout.Revision {
	var out []rollout.Revision
	if o.record != nil {
		out = append(out, o.record.Target, o.record.Stable)
	}
	for _, n := range o.numbers {
		out = append(out, o.identity[n])
	}
	return out
}
