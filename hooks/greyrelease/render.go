package greyrelease

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/diagnosis"
	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
)

// deployment is a Deployment to answer with: only the fields that are ours. A
// zero that the API server drops is never sent, or every sync would write.
type deployment struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   history.Metadata `json:"metadata"`
	Spec       deploymentSpec   `json:"spec"`
}

type deploymentSpec struct {
	Replicas                int64           `json:"replicas"`
	MinReadySeconds         int64           `json:"minReadySeconds,omitempty"`
	ProgressDeadlineSeconds int64           `json:"progressDeadlineSeconds"`
	RevisionHistoryLimit    int64           `json:"revisionHistoryLimit"`
	Strategy                strategy        `json:"strategy"`
	Selector                labelSelector   `json:"selector"`
	Template                json.RawMessage `json:"template"`
}

type labelSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type strategy struct {
	Type          string        `json:"type"`
	RollingUpdate rollingUpdate `json:"rollingUpdate"`
}

// rollingUpdate carries the release's own limits, so that a restart of one
// child by hand keeps the promise too.
type rollingUpdate struct {
	MaxSurge       podCount `json:"maxSurge"`
	MaxUnavailable podCount `json:"maxUnavailable"`
}

// podCount is 3 or "25%".
type podCount rollout.Quantity

func (q podCount) MarshalJSON() ([]byte, error) {
	text := strconv.FormatInt(q.Value, 10)
	if q.Percent {
		text = `"` + text + `%"`
	}
	return []byte(text), nil
}

// stub names an object and asks nothing of it: it keeps what is not ours.
type stub struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   history.Metadata `json:"metadata"`
}

// childHistoryLimit: a Deployment of ours never changes its template, but for a
// restart by hand.
const childHistoryLimit = 2

// answer is an answer under way.
type answer struct {
	*observation
	desire
	facts *rollout.Facts
	// diagnoses are what is known of the pods of target and stable.
	diagnoses map[int64]diagnosis.Report
	now       time.Time
	// record is the one that was observed, nil when there is none; next is the
	// one that comes after it.
	record, next *rollout.Record
	orders       []rollout.Order
	wake         time.Time
	queries      []Query
	children     []any
	// missing are children that were asked for before and are not there.
	missing []string
	// writes tells whether something is asked for that differs from what is observed.
	writes bool
	// countsHeld is for how many seconds the status shows counts of pods that are a
	// moment old; 0 when it does not.
	countsHeld int64
	// routeWake is in how many seconds a route that nobody has reported on is looked
	// at again; 0 for not at all.
	routeWake int64
	// moveWake is in how many seconds a snapshot is old enough to be copied; 0 for none.
	moveWake int64
}

// renderDeployments answers with the Deployments that were ordered.
func (a *answer) renderDeployments() error {
	for _, order := range a.orders {
		c := a.deployments[order.Revision]
		identity := a.revision(order.Revision)
		template, err := a.template(identity, c)
		if err != nil {
			return err
		}
		d := deployment{
			APIVersion: "apps/v1", Kind: "Deployment",
			Metadata: history.Metadata{
				Name: deploymentName(a.name, identity.Hash),
				Labels: map[string]string{
					LabelName: a.name, LabelRevision: identity.Hash,
					LabelNumber: strconv.FormatInt(identity.Number, 10), LabelTrack: a.track(order.Revision),
				},
				Annotations: map[string]string{AnnotationVersion: identity.Version},
			},
			Spec: a.deploymentSpec(order.Replicas, identity.Hash, template),
		}
		if text := a.decision(order, c); text != "" {
			d.Metadata.Annotations[AnnotationDecision] = text
		}
		if text := a.failed(order, c); text != "" {
			d.Metadata.Annotations[AnnotationFailed] = text
		}
		a.children = append(a.children, d)
		if c == nil {
			a.missing = append(a.missing, "Deployment "+d.Metadata.Name)
		}
		a.writes = a.writes || c == nil || int64(*replicasOf(c)) != order.Replicas
	}
	return nil
}

func replicasOf(c *Child) *composite.Int {
	if c.Spec.Replicas == nil {
		one := composite.Int(1)
		return &one
	}
	return c.Spec.Replicas
}

// deploymentSpec fills in the settings in force.
func (a *answer) deploymentSpec(replicas int64, hash string, template json.RawMessage) deploymentSpec {
	s := a.settings()
	return deploymentSpec{
		Replicas: replicas, MinReadySeconds: s.MinReadySeconds,
		// Always sent: the default of 600 would refuse a larger minReadySeconds,
		// and then every write of the Deployment fails.
		ProgressDeadlineSeconds: s.ProgressDeadlineSeconds,
		RevisionHistoryLimit:    childHistoryLimit,
		Strategy: strategy{Type: "RollingUpdate", RollingUpdate: rollingUpdate{
			MaxSurge: podCount(s.MaxSurge), MaxUnavailable: podCount(s.MaxUnavailable),
		}},
		Selector: labelSelector{MatchLabels: selector(a.name, hash)},
		Template: template,
	}
}

// settings are the spec's, or while that is invalid the last valid ones.
func (a *answer) settings() rollout.Settings {
	switch {
	case a.wish.Valid:
		return a.wish.Settings
	case a.record != nil:
		return a.record.Settings
	}
	return defaultSpec().settings()
}

// revision is the identity of a revision that has a Deployment or is to get one.
func (a *answer) revision(number int64) rollout.Revision {
	if id, ok := a.identity[number]; ok {
		return id
	}
	if r := a.record; r != nil {
		for _, known := range []rollout.Revision{r.Target, r.Stable} {
			if known.Number == number {
				return known
			}
		}
	}
	s, _ := history.ByNumber(a.snapshots, number)
	return rollout.Revision{Number: number, Hash: s.Hash, Version: s.Version}
}

// template is the pod template of a Deployment: as it was rendered when its
// revision was new, never rendered again.
func (a *answer) template(r rollout.Revision, c *Child) (json.RawMessage, error) {
	var want history.Template
	if s, ok := a.snapshot(r); ok {
		template, err := s.Template()
		switch {
		case err == nil:
			want = template
		case c == nil:
			return nil, err
		default:
			a.note("%v: Deployment %s goes on from the template it has", err, c.Metadata.Name)
		}
	}
	if c == nil {
		if want.Text == nil {
			return nil, fmt.Errorf("revision %d has neither a snapshot nor a Deployment", r.Number)
		}
		return want.Text, nil
	}
	if c.Metadata.DeletionTimestamp != "" && want.Text != nil {
		return want.Text, nil
	}
	e := emitTemplate(want, c.Spec.Template, c.Metadata.Annotations[lastAppliedAnnotation], a.mode)
	if e.Changed != "" {
		a.note("spec.template.%s of Deployment %s differs from what was asked for: it was changed by hand, and is put right, or by an admission webhook", e.Changed, c.Metadata.Name)
	}
	return e.Template, nil
}

// lastAppliedAnnotation is where dynamic apply keeps what it applied last.
const lastAppliedAnnotation = "metacontroller.k8s.io/last-applied-configuration"

// track is stable for the revision that the observed record calls so.
func (a *answer) track(number int64) string {
	if a.record == nil {
		// The record is being made again from these very labels.
		if c := a.deployments[number]; c != nil && c.Metadata.Labels[LabelTrack] == trackStable {
			return trackStable
		}
		return trackCanary
	}
	if a.record.Stable.Number == number {
		return trackStable
	}
	return trackCanary
}

// decision is the annotation that goes with replicas: the one that is there, or
// a new one when the replicas change or are to be confirmed.
func (a *answer) decision(order rollout.Order, c *Child) string {
	// One on its way out is not updated any more.
	same := c != nil && (int64(*replicasOf(c)) == order.Replicas || c.Metadata.DeletionTimestamp != "")
	if a.record == nil || same && !order.Confirm {
		if c == nil {
			return ""
		}
		return c.Metadata.Annotations[AnnotationDecision]
	}
	at := a.now
	if same {
		// Confirmed, not decided: the same in every answer until it is observed.
		at = a.record.Changed
	}
	text, err := json.Marshal(decision{Counter: a.record.Counter, Time: at, Attempt: a.record.Attempt})
	if err != nil {
		return "" // Integers and a time within the years that RFC 3339 knows.
	}
	return string(text)
}

// failed is the annotation that marks a failed revision's Deployment.
func (a *answer) failed(order rollout.Order, c *Child) string {
	if a.record == nil {
		if c == nil {
			return ""
		}
		return c.Metadata.Annotations[AnnotationFailed]
	}
	if order.Failed == nil {
		return ""
	}
	text, err := json.Marshal(failedMark{
		Attempt: a.record.Attempt, Reason: order.Failed.Reason, Message: order.Failed.Message, At: order.Failed.At,
	})
	if err != nil {
		return ""
	}
	return string(text)
}

// undeployable says why a Deployment of a revision can't be created in the apply
// mode in use; nil when it can, or when the mode is not known yet.
func (o *observation) undeployable(r rollout.Revision, template history.Template) *field.Error {
	if !o.modeKnown {
		return nil
	}
	path := field.NewPath("spec", "template")
	if found := collisions(template.Tree, o.mode); len(found) > 0 {
		return field.Invalid(path.Child(found[0].Path), field.OmitValueType{},
			fmt.Sprintf("two items have %s; %s", found[0].Key, found[0].Cure))
	}
	a := answer{observation: o, desire: desire{spec: defaultSpec()}}
	object, err := json.Marshal(deployment{
		Metadata: history.Metadata{Name: deploymentName(o.name, r.Hash)},
		Spec:     a.deploymentSpec(1, r.Hash, template.Text),
	})
	if err == nil {
		err = history.Fits(object, o.mode)
	}
	if err != nil {
		return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("its Deployment cannot be stored: %v", err))
	}
	return nil
}

// makeSnapshot builds the snapshot of the spec's content.
func (o *observation) makeSnapshot(d *desire) (history.Holder, error) {
	return history.NewSnapshot(history.Draft{
		Kind: d.spec.SnapshotKind,
		Name: snapshotName(o.name, d.wish.Content.Number), Number: d.wish.Content.Number,
		Content: d.content, Labels: map[string]string{LabelName: o.name},
		Spec: o.parent.Spec, Template: d.draft.template,
	}, o.mode)
}

// renderHistory answers with the snapshots that are kept, and with the one of a
// target that has none yet.
func (a *answer) renderHistory() error {
	for _, s := range a.kept() {
		a.renderKept(s)
	}
	if a.next == nil || a.draft == nil || a.next.Target.Number != a.wish.Content.Number {
		return nil
	}
	asked := a.record != nil && a.record.Target.Number == a.wish.Content.Number
	if asked {
		a.missing = append(a.missing, string(a.spec.SnapshotKind)+" "+snapshotName(a.name, a.wish.Content.Number))
	}
	if asked && a.parent.Metadata.Generation != a.record.Generation && a.sinceChange() < snapshotGrace {
		// A cache may not show it yet. It would be made from a spec that has other
		// settings by now, and what is immutable can't be made twice.
		return nil
	}
	c, err := a.makeSnapshot(&a.desire)
	if err != nil {
		return err
	}
	a.children = append(a.children, c)
	a.writes = true
	return nil
}

// snapshotGrace is how long a snapshot that is not observed may be there.
const snapshotGrace = 10 * time.Second

// kept are the snapshots to go on asking for. While the spec is invalid all are.
func (a *answer) kept() []history.Snapshot {
	r := a.record
	if !a.wish.Valid || r == nil {
		return a.snapshots
	}
	keep := map[int64]bool{}
	hashes := map[string]bool{}
	for _, known := range []*rollout.Record{r, a.next} {
		if known == nil {
			continue
		}
		// Old caches can give a content another number than its snapshot has.
		hashes[known.Target.Hash], hashes[known.Stable.Hash] = true, true
		keep[known.Target.Number], keep[known.Stable.Number] = true, true
		keep[known.Pin], keep[known.Left] = true, true
		for _, share := range routeShares(known) {
			// A route names its Service by the hash, which is kept in the snapshot.
			keep[share.Revision] = true
		}
	}
	keep[a.wish.Content.Number], keep[a.wish.Pin.Number] = true, true
	for _, n := range a.numbers {
		keep[n] = true
	}
	for _, order := range a.orders {
		keep[order.Revision] = true
	}
	// Two snapshots of one content are kept or dropped together: a Deployment may
	// carry the number of either.
	for _, s := range a.snapshots {
		hashes[s.Hash] = hashes[s.Hash] || keep[s.Number]
	}
	for _, s := range a.snapshots {
		keep[s.Number] = keep[s.Number] || hashes[s.Hash]
	}
	last := func(number int64) int64 {
		return int64(slices.IndexFunc(r.Past, func(p rollout.Past) bool { return p.Revision == number }))
	}
	kept := history.Prune(a.snapshots, int(a.spec.HistoryLimit), keep, last)
	a.writes = a.writes || len(kept) < len(a.snapshots)
	return kept
}

// renderRecord answers with the record that comes next.
func (a *answer) renderRecord() error {
	if a.next == nil {
		if a.recordMap != nil {
			// It can't be read and there is nothing to make it from: left to whoever
			// can tell what it was.
			a.children = append(a.children, history.Holder{
				APIVersion: "v1", Kind: history.ConfigMap,
				Metadata: history.Metadata{
					Name: recordName(a.name), Labels: map[string]string{LabelName: a.name}, Annotations: a.recordAnnotations(),
				},
				Data: a.recordMap.Data, BinaryData: a.recordMap.BinaryData, Immutable: a.recordMap.Immutable,
			})
		}
		return nil
	}
	var text json.RawMessage // of a change
	if a.record == nil && !a.recordIsLost() {
		a.missing = append(a.missing, "ConfigMap "+recordName(a.name))
	}
	if a.next != a.record {
		a.writes = true
		encoded, err := json.Marshal(a.next)
		if err != nil {
			return fmt.Errorf("cannot encode the record: %w", err)
		}
		text = encoded
		if a.record != nil {
			again, err := json.Marshal(a.record)
			if err != nil {
				return fmt.Errorf("cannot encode the record: %w", err)
			}
			if text, err = history.Carry(a.recordText, again, encoded, sameElement); err != nil {
				return err
			}
		}
	}
	a.children = append(a.children, history.RecordMap(
		recordName(a.name), map[string]string{LabelName: a.name}, a.recordAnnotations(), a.recordMap, text))
	return nil
}

// sameElement identifies an element of a list in the record from one version of
// it to the next.
func sameElement(path string, element history.Member) string {
	switch path {
	case "history":
		return element("revision") + "." + element("attempt") + "@" + element("startedAt")
	case "past", "wave.asks":
		return element("revision")
	}
	return ""
}

// renderForeign keeps objects that carry our label and are not ours.
func (a *answer) renderForeign() {
	for _, c := range a.foreign {
		if a.lists(c.Kind, c.Metadata.Name) {
			continue
		}
		a.children = append(a.children, stub{
			APIVersion: c.APIVersion, Kind: c.Kind, Metadata: history.Metadata{Name: c.Metadata.Name},
		})
		a.note("%s %s is no part of this release: remove its label controller-uid and its ownerReference", c.Kind, c.Metadata.Name)
	}
}

// lists tells whether the answer has a child of this kind and name already.
func (a *answer) lists(kind, name string) bool {
	return slices.ContainsFunc(a.children, func(child any) bool {
		switch c := child.(type) {
		case deployment:
			return kind == c.Kind && name == c.Metadata.Name
		case history.Holder:
			return kind == string(c.Kind) && name == c.Metadata.Name
		case service:
			return kind == c.Kind && name == c.Metadata.Name
		case httpRoute:
			return kind == c.Kind && name == c.Metadata.Name
		case ingress:
			return kind == c.Kind && name == c.Metadata.Name
		case rawObject:
			return kind == c.Kind && name == c.Metadata.Name
		}
		return false
	})
}

func instant(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
