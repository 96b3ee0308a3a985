package greyrelease

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/diagnosis"
	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/jsontree"
	"greyrelease.example.com/hooks/rollout"
)

// fieldManager is the name under which Metacontroller writes.
const fieldManager = "metacontroller"

// observation is a request, sorted out.
type observation struct {
	parent    *Parent
	name      string
	namespace string
	// mode is how Metacontroller applies children; modeKnown is false until a
	// child exists that shows it.
	mode      history.Mode
	modeKnown bool

	snapshots  []history.Snapshot
	recordMap  *history.Object
	recordText json.RawMessage
	record     *rollout.Record
	// holders are the names of the ConfigMaps and Secrets that are there.
	holders map[holder]bool
	// written is when Metacontroller last changed the record's ConfigMap.
	written     time.Time
	deployments map[int64]*Child // by revision number
	identity    map[int64]rollout.Revision
	numbers     []int64 // of deployments, ascending
	routes
	// foreign are children of ours by label only: kept, and said so.
	foreign []Child
	status  lastStatus
	// podsOf are the release's pods by the hash of their revision; podsKnown tells
	// whether pods came along.
	podsOf    map[string][]diagnosis.Pod
	podsKnown bool
	// notes are for the message: what was found and put right.
	notes []string
}

// lastStatus is what is read of the parent's status: only to keep times where
// nothing changed, and as a hint when the record is lost.
type lastStatus struct {
	Phase          Phase           `json:"phase"`
	Message        string          `json:"message"`
	Progress       string          `json:"progress"`
	Conditions     []lastCondition `json:"conditions"`
	StableVersion  string          `json:"stableVersion"`
	StableRevision composite.Int   `json:"stableRevision"`
	TargetVersion  string          `json:"targetVersion"`
	TargetRevision composite.Int   `json:"targetRevision"`
	History        json.RawMessage `json:"history"` // read when the record is lost
	LastCommand    *lastCommand    `json:"lastCommand"`
	Analysis       json.RawMessage `json:"analysis"`
	podCounts
	// read is false when the status is missing.
	read bool
}

// shows tells whether the status says the same as s to a reader, counts of pods
// aside: phase, message, batch and conditions.
func (l *lastStatus) shows(s *GreyReleaseStatus) bool {
	if l.Phase != s.Phase || l.Message != s.Message || l.Progress != s.Progress || len(l.Conditions) != len(s.Conditions) {
		return false
	}
	for i, c := range s.Conditions {
		if l.Conditions[i].Type != c.Type || l.Conditions[i].Status != string(c.Status) {
			return false
		}
	}
	return true
}

type lastCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Message            string `json:"message"`
	LastTransitionTime string `json:"lastTransitionTime"`
}

type lastCommand struct {
	Text   string `json:"text"`
	Result string `json:"result"`
	Time   string `json:"time"`
}

// command is the last command as a record has it.
func (l *lastStatus) command() *rollout.Command {
	if l.LastCommand == nil || l.LastCommand.Text == "" {
		return nil
	}
	return &rollout.Command{Text: l.LastCommand.Text, Result: l.LastCommand.Result, Time: instant(l.LastCommand.Time)}
}

// entries are the history, as far as it can be read.
func (l *lastStatus) entries() []lastEntry {
	var entries []lastEntry
	if len(l.History) == 0 || json.Unmarshal(l.History, &entries) != nil {
		return nil
	}
	return entries
}

type lastEntry struct {
	Revision   composite.Int `json:"revision"`
	Version    string        `json:"version"`
	Result     string        `json:"result"`
	Reason     string        `json:"reason"`
	StartedAt  string        `json:"startedAt"`
	FinishedAt string        `json:"finishedAt"`
}

// decision is the annotation that says when replicas, or where a route leads, were
// decided last.
type decision struct {
	Counter int64     `json:"counter"`
	Time    time.Time `json:"time"`
	Attempt int64     `json:"attempt"`
}

// failedMark is the annotation on the Deployment of a revision that failed.
type failedMark struct {
	Attempt int64          `json:"attempt"`
	Reason  rollout.Reason `json:"reason"`
	Message string         `json:"message"`
	At      time.Time      `json:"at"`
}

// observe sorts out a request. The only error is a record of a newer format.
func observe(req *Request) (*observation, error) {
	o := &observation{
		parent: &req.Parent, name: req.Parent.Metadata.Name, namespace: req.Parent.Metadata.Namespace,
		deployments: map[int64]*Child{}, identity: map[int64]rollout.Revision{},
	}
	o.readStatus(req.Parent.Status)
	o.sortSnapshots(req)
	if err := o.readRecord(); err != nil {
		return nil, err
	}
	o.sortDeployments(req.All(kindDeployment))
	o.sortRoutes(req)
	o.sortPods(req)
	o.findMode(req)
	return o, nil
}

// readStatus reads what is used of the parent's status. If it can't be read,
// somebody wrote it by hand, and it is only a hint.
func (o *observation) readStatus(raw json.RawMessage) {
	if len(raw) == 0 || unmarshal(raw, &o.status, statusDecoder) != nil {
		o.status = lastStatus{}
		return
	}
	o.status.read = true
}

var (
	statusDecoder = jsontree.NewFoldingDecoder[lastStatus]()
	recordDecoder = jsontree.NewFoldingDecoder[rollout.Record]()
)

// unmarshal is json.Unmarshal, in a fraction of the time where a text is as usual.
func unmarshal[T any](text json.RawMessage, into *T, usual *jsontree.Decoder[T]) error {
	if value, ok := usual.Decode(text); ok {
		*into = *value
		return nil
	}
	return json.Unmarshal(text, into)
}

// readRecord decodes the record. One that can't be read is a lost one.
func (o *observation) readRecord() error {
	if o.recordMap == nil {
		return nil
	}
	text, found, err := history.RecordText(*o.recordMap)
	if err == nil && !found {
		err = fmt.Errorf("it has no %s", history.RecordKey)
	}
	if err == nil {
		var r rollout.Record
		err = unmarshal(text, &r, recordDecoder)
		if format := formatOf(text, &r, err); format > rollout.Format {
			return &composite.RetryError{
				After:  2 * time.Second,
				Reason: fmt.Sprintf("the record %s has format %d, written by a newer version of the service; this one knows %d", recordName(o.name), format, rollout.Format),
			}
		}
		if err == nil {
			if err = r.Validate(); err == nil {
				o.record, o.recordText = &r, text
				return nil
			}
		}
	}
	o.note("the record %s could not be used (%v) and is made again from what runs", recordName(o.name), err)
	return nil
}

// formatOf is the format of a record's text, also when a newer one has fields of
// other types than r.
func formatOf(text json.RawMessage, r *rollout.Record, err error) int64 {
	if err == nil {
		return r.Format
	}
	var only struct {
		Format int64 `json:"format"`
	}
	if json.Unmarshal(text, &only) != nil {
		return 0
	}
	return only.Format
}

func (o *observation) sortDeployments(children []Child) {
	for i := range children {
		c := &children[i]
		identity := o.identify(c)
		if identity.Hash == "" {
			o.foreign = append(o.foreign, *c)
			continue
		}
		if _, taken := o.deployments[identity.Number]; taken || identity.Number == 0 {
			identity.Number = unnumbered(identity.Hash)
		}
		o.deployments[identity.Number] = c
		o.identity[identity.Number] = identity
		o.numbers = append(o.numbers, identity.Number)
	}
	slices.Sort(o.numbers)
}

// identify finds the revision of a Deployment by its name, which is its hash.
// The record and the snapshots know its number better than a label does.
func (o *observation) identify(c *Child) rollout.Revision {
	hash, ok := strings.CutPrefix(c.Metadata.Name, o.name+"-")
	if !ok || hash == "" {
		return rollout.Revision{}
	}
	if known := o.canonical(rollout.Revision{Hash: hash}); known.Number != 0 {
		return known
	}
	if c.Metadata.Labels[LabelRevision] != hash {
		return rollout.Revision{}
	}
	r := rollout.Revision{Hash: hash, Version: c.Metadata.Annotations[AnnotationVersion]}
	n, err := strconv.ParseInt(c.Metadata.Labels[LabelNumber], 10, 64)
	if err == nil && n >= 1 && n <= history.MaxNumber && !o.claimed(rollout.Revision{Number: n, Hash: hash}) {
		r.Number = n
	}
	return r
}

// unnumbered is a number for a Deployment that has none, or one that another
// content has as well, as after a release was made anew while the old one's
// children were still there. It is beyond all that are given, follows from the
// hash alone and serves only to let it drain.
func unnumbered(hash string) int64 {
	var n int64
	for _, c := range []byte(hash) {
		n = (n*31 + int64(c)) & (1<<40 - 1)
	}
	return rollout.MaxNumber + 1 + n
}

// findMode tells the apply mode from Metacontroller's latest write to a child.
func (o *observation) findMode(req *Request) {
	latest := ""
	for _, kind := range req.Kinds() {
		for _, c := range req.Children[kind] {
			for _, m := range c.Metadata.ManagedFields {
				if m.Manager != fieldManager || m.Subresource != "" || m.Time < latest {
					continue
				}
				mode := history.Dynamic
				if m.Operation == "Apply" {
					mode = history.ServerSide
				}
				if m.Time == latest && o.modeKnown {
					// Written in the same second: the stricter rules hold.
					mode = min(mode, o.mode)
				}
				latest, o.mode, o.modeKnown = m.Time, mode, true
			}
		}
	}
	if !o.modeKnown {
		o.mode = history.ServerSide
	}
}

// facts turns Deployments into numbers.
func (o *observation) facts() *rollout.Facts {
	f := &rollout.Facts{Deployments: make([]rollout.Deployment, 0, len(o.numbers))}
	for _, n := range o.numbers {
		f.Deployments = append(f.Deployments, o.fact(n))
	}
	return f
}

func (o *observation) fact(number int64) rollout.Deployment {
	c := o.deployments[number]
	d := rollout.Deployment{
		Revision: number, Identity: o.identity[number],
		Deleting:  c.Metadata.DeletionTimestamp != "",
		Asked:     1,
		Current:   int64(c.Status.ObservedGeneration) >= c.Metadata.Generation,
		Total:     int64(c.Status.Replicas),
		Ready:     int64(c.Status.ReadyReplicas),
		Available: int64(c.Status.AvailableReplicas),
		Stable:    c.Metadata.Labels[LabelTrack] == trackStable,
	}
	if c.Spec.Replicas != nil {
		d.Asked = int64(*c.Spec.Replicas)
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == "ReplicaFailure" && condition.Status == "True" {
			d.Failure = condition.Message
			if d.Failure == "" {
				d.Failure = "pods cannot be created"
			}
		}
	}
	last := decisionOf(c)
	d.Counter, d.Decided, d.Attempt = last.Counter, last.Time, last.Attempt
	var mark failedMark
	if text := c.Metadata.Annotations[AnnotationFailed]; text != "" && json.Unmarshal([]byte(text), &mark) == nil {
		d.Failed = &rollout.Failure{Reason: mark.Reason, Message: mark.Message, At: mark.At.UTC()}
		d.FailedAttempt = mark.Attempt
	}
	return d
}

// decisionOf is the decision annotation of an object; the zero decision when it
// has none that can be read.
func decisionOf(c *Child) decision {
	var last decision
	if json.Unmarshal([]byte(c.Metadata.Annotations[AnnotationDecision]), &last) != nil || last.Counter > history.MaxNumber {
		return decision{}
	}
	return last
}

// staleness limits how long an old record is waited out: caches catch up within
// seconds, so what is older than that is not a cache.
const staleness = time.Minute

// clockSkew is how far our clock, which stamps decisions, may be from the API
// server's, which stamps writes.
const clockSkew = 5 * time.Second

// checkStale answers a request whose record is older than what its Deployments and
// routes were decided under with "again in a second": an answer would take back what
// was done. If that lasts, if the time of the decision makes no sense, or if the
// record was written after the decision, then no cache is behind: the record
// itself went back, as after a restore or when an old answer overwrote it in
// server-side mode, and it counts as lost.
func (o *observation) checkStale(now time.Time) error {
	if o.record == nil {
		return nil
	}
	// After a failover the parent itself can be an old copy, and its old template
	// would look like a new target. A restored parent counts from 1 again: that lasts.
	if o.parent.Metadata.Generation < o.record.Generation && recent(o.record.Changed, now) {
		return &composite.RetryError{
			After:  time.Second,
			Reason: fmt.Sprintf("this copy of %s is older than the record %s: a cache is behind", o.name, recordName(o.name)),
		}
	}
	for _, c := range o.decided() {
		d := decisionOf(c)
		if d.Counter <= o.record.Counter {
			continue
		}
		if recent(d.Time, now) && !o.written.After(d.Time.Add(clockSkew)) {
			return &composite.RetryError{
				After:  time.Second,
				Reason: fmt.Sprintf("the record %s is older than %s %s: a cache is behind", recordName(o.name), c.Kind, c.Metadata.Name),
			}
		}
		o.note("the record %s was older than what runs and is made again from that", recordName(o.name))
		o.record = nil
		return nil
	}
	return nil
}

// lastWrite is when Metacontroller last changed an object; zero when unknown.
func lastWrite(fields []composite.ManagedField) time.Time {
	return latest(fields, func(m composite.ManagedField) bool { return m.Manager == fieldManager && m.Subresource == "" })
}

// lastEdit is when somebody last wrote more of an object than its status.
func lastEdit(fields []composite.ManagedField) time.Time {
	return latest(fields, func(m composite.ManagedField) bool { return m.Subresource == "" })
}

// statusWrite is when the status of an object was last written.
func statusWrite(fields []composite.ManagedField) time.Time {
	return latest(fields, func(m composite.ManagedField) bool { return m.Subresource == "status" })
}

// latest is when the last of certain writes was; zero when there was none.
func latest(fields []composite.ManagedField, of func(composite.ManagedField) bool) time.Time {
	var last time.Time
	for _, m := range fields {
		if at := instant(m.Time); of(m) && at.After(last) {
			last = at
		}
	}
	return last
}

// recent tells whether an instant is near enough to now for a cache to lag behind it.
func recent(at, now time.Time) bool {
	age := now.Sub(at)
	return age <= staleness && age >= -staleness
}

// note notes something for the message, once.
func (o *observation) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(o.notes, text) {
		o.notes = append(o.notes, text)
	}
}

// snapshot finds a usable snapshot of a revision's content. Content decides, not
// the number: there can be two of one content.
func (o *observation) snapshot(r rollout.Revision) (history.Snapshot, bool) {
	var found []history.Snapshot
	for _, s := range o.snapshots {
		if s.Broken == "" && s.Hash == r.Hash && r.Hash != "" {
			found = append(found, s)
		}
	}
	for _, s := range found {
		if len(found) == 1 {
			return s, true
		}
		if _, err := s.Template(); err == nil {
			return s, true
		}
	}
	if len(found) > 0 {
		return found[0], true
	}
	return history.Snapshot{}, false
}
