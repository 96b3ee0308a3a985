package rollout

import (
	"fmt"
	"time"
)

// Format is the version of the record's layout. A record with a higher one was
// written by a newer service and is left to it.
const Format = 1

// Limits of the record, so that it stays small for as long as a release lives.
const (
	maxHistory = 10
	maxPast    = 100
)

// MaxNumber is the highest revision number that is given. Beyond it are
// Deployments without one.
const MaxNumber = 1 << 53

// Stage is where a release stands.
type Stage string

const (
	// Complete: the target is stable and nothing moves.
	Complete Stage = "Complete"
	// Rolling: the target goes out batch by batch.
	Rolling Stage = "Rolling"
	// Promoting: all gates are behind, the target goes to all replicas.
	Promoting Stage = "Promoting"
	// Restoring: the target is the stable revision again, what else runs drains.
	Restoring Stage = "Restoring"
	// RollingBack: the target failed, the stable revision comes back.
	RollingBack Stage = "RollingBack"
	// RolledBack: the target failed and has no pods; nothing is tried again by itself.
	RolledBack Stage = "RolledBack"
	// Held: the target failed and stays where it is.
	Held Stage = "Held"
)

// Revision names one template and version.
type Revision struct {
	// Number counts from 1 and is never given twice; 0 means none.
	Number int64 `json:"number"`
	// Hash is the identity of the content.
	Hash string `json:"hash"`
	// Version is the targetVersion of the content.
	Version string `json:"version"`
}

// Settings are the rollout settings in force: the last valid ones of the spec.
type Settings struct {
	Batches                 []Batch  `json:"batches,omitempty"`
	BatchSize               int64    `json:"batchSize,omitempty"`
	CanaryWeight            int64    `json:"canaryWeight,omitempty"`
	SoakSeconds             int64    `json:"soakSeconds,omitempty"`
	MaxSurge                Quantity `json:"maxSurge"`
	MaxUnavailable          Quantity `json:"maxUnavailable"`
	MinReadySeconds         int64    `json:"minReadySeconds,omitempty"`
	ProgressDeadlineSeconds int64    `json:"progressDeadlineSeconds"`
	AutoRollback            bool     `json:"autoRollback"`
	Paused                  bool     `json:"paused,omitempty"`
	// Router says what splits requests between versions.
	Router Router `json:"router,omitempty"`
	// Headers: requests with certain headers go to the target while it goes out.
	Headers bool `json:"headers,omitempty"`
	// KeepStable: the stable revision keeps all its pods until requests have left it.
	KeepStable bool `json:"keepStable,omitempty"`
	// ScaleDownDelaySeconds is how long the previous version is kept after its last
	// request.
	ScaleDownDelaySeconds int64 `json:"scaleDownDelaySeconds,omitempty"`
	// MaxRestarts is the number of restarts of a container with which a crash loop is
	// a failure; 0 is DefaultMaxRestarts.
	MaxRestarts int64 `json:"maxRestarts,omitempty"`
	// Metrics judge each batch.
	Metrics []Metric `json:"metrics,omitempty"`
}

// Reason says why a release failed. The set is closed: it labels a metric.
type Reason string

const (
	// ReasonDeadline: pods of the target were missing for longer than progressDeadlineSeconds.
	ReasonDeadline Reason = "ProgressDeadlineExceeded"
	// ReasonCrashLoop: a container of the target was restarted maxRestarts times and
	// waits in CrashLoopBackOff.
	ReasonCrashLoop Reason = "CrashLoop"
	// ReasonUnstable: one soak, or wait for metrics, was broken 10 times.
	ReasonUnstable Reason = "Unstable"
	// ReasonApprovalTimeout: no approval came within approvalTimeoutSeconds.
	ReasonApprovalTimeout Reason = "ApprovalTimeout"
	// ReasonAborted: the abort command.
	ReasonAborted Reason = "Aborted"
	// ReasonPinned: rollbackTo left this revision.
	ReasonPinned Reason = "LeftByRollbackTo"
	// ReasonRouteRefused: no parent of the route accepts it.
	ReasonRouteRefused Reason = "RouteNotAccepted"
	// ReasonAnalysis: more measurements of a metric failed in one batch than its failureLimit allows.
	ReasonAnalysis Reason = "AnalysisFailed"
	// ReasonInconclusive: more measurements of a metric in a row told nothing than its inconclusiveLimit allows.
	ReasonInconclusive Reason = "AnalysisInconclusive"
	// ReasonUnknown: it failed before the record was lost.
	ReasonUnknown Reason = "Unknown"
)

// Reasons are all of them.
func Reasons() []Reason {
	return []Reason{
		ReasonDeadline, ReasonCrashLoop, ReasonUnstable, ReasonApprovalTimeout, ReasonAborted, ReasonPinned, ReasonRouteRefused, ReasonAnalysis,
		ReasonInconclusive, ReasonUnknown,
	}
}

// Failure is the end of an attempt that did not become healthy.
type Failure struct {
	Reason  Reason    `json:"reason"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// Clock is the progress deadline. It runs only while pods of the target are
// asked for and missing.
type Clock struct {
	// Since is the last rise of Best that was stored, or the start.
	Since time.Time `json:"since"`
	// Best is the highest number of available pods seen; flapping never lowers it.
	Best int64 `json:"best"`
	// Late: it was started again, because nothing had been asked for in time.
	Late bool `json:"late,omitempty"`
}

// Gate is the wait at a batch that is full.
type Gate struct {
	// Since is when the batch was last seen to become full; zero while a pod is missing.
	Since time.Time `json:"since,omitzero"`
	// Shortfalls counts how often the soak was broken.
	Shortfalls int64 `json:"shortfalls,omitempty"`
	// Approval is when only the approval was left to wait for.
	Approval time.Time `json:"approval,omitzero"`
}

// Past remembers a revision that was the target before: its last attempt.
type Past struct {
	Revision int64 `json:"revision"`
	Attempt  int64 `json:"attempt"`
}

// Command is the last command that was looked at.
type Command struct {
	Text   string    `json:"text"`
	Result string    `json:"result"`
	Time   time.Time `json:"time"`
}

// Entry is one line of the history.
type Entry struct {
	Revision   int64     `json:"revision"`
	Attempt    int64     `json:"attempt,omitempty"`
	Version    string    `json:"version"`
	Result     Result    `json:"result"`
	Reason     string    `json:"reason,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
}

// Result is how an attempt ended, or a command that was carried out.
type Result string

const (
	ResultCompleted  Result = "Completed"
	ResultRolledBack Result = "RolledBack"
	ResultFailed     Result = "Failed"     // held, or replaced while it was rolled back
	ResultSuperseded Result = "Superseded" // another target came before it was complete
	ResultReverted   Result = "Reverted"   // the spec went back to the stable revision
	ResultCommand    Result = "Command"
)

// Record is the memory of a release.
type Record struct {
	Format int64 `json:"format"`
	// Counter rises with every change. Deployments carry the counter under which
	// their replicas were decided, so an old record is recognised.
	Counter int64 `json:"counter"`
	// Changed is when the record last changed.
	Changed time.Time `json:"changed"`
	// Generation is the parent's when the record last changed: a parent with a
	// lower one is an old copy.
	Generation int64 `json:"generation,omitempty"`
	// Highest is the highest revision number ever given.
	Highest int64 `json:"highest"`
	// Stable is the last revision that completed; number 0 before the first.
	Stable Revision `json:"stable"`
	// Target is the revision that is wanted.
	Target Revision `json:"target"`
	// Attempt counts how often the target was tried, from 1.
	Attempt int64 `json:"attempt"`
	// Started is when the attempt began.
	Started time.Time `json:"started"`
	Stage   Stage     `json:"stage"`
	// Pin is the revision that rollbackTo names; 0 for none.
	Pin int64 `json:"pin,omitempty"`
	// Left is the revision of the spec's content that a pin left: not released
	// again by removing the pin.
	Left int64 `json:"left,omitempty"`
	// Reached is the last batch whose gate was passed; nil before the first.
	Reached *Position `json:"reached,omitempty"`
	// Wave is the movement under way; nil when nothing moves.
	Wave *Wave `json:"wave,omitempty"`
	// Route is where requests go; nil without a router.
	Route *Route `json:"route,omitempty"`
	Clock *Clock `json:"clock,omitempty"`
	Gate  *Gate  `json:"gate,omitempty"`
	// Analysis is what is known of the metrics of the batch under way, or of the last one.
	Analysis []Reading `json:"analysis,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`
	// Settings are the last valid ones.
	Settings Settings `json:"settings"`
	// Past lists earlier targets, the one that was left last at the end.
	Past    []Past   `json:"past,omitempty"`
	Command *Command `json:"command,omitempty"`
	History []Entry  `json:"history,omitempty"`
}

// Validate refuses a record that no version of this package can have written.
// It is stored where people can edit it, so it is distrusted.
func (r *Record) Validate() error {
	switch {
	case r.Format < 1:
		return fmt.Errorf("format is %d", r.Format)
	case r.Counter < 1:
		return fmt.Errorf("counter is %d", r.Counter)
	case r.Target.Number < 1 || r.Target.Hash == "":
		return fmt.Errorf("target has no number or hash")
	case r.Stable.Number < 0 || (r.Stable.Number > 0) != (r.Stable.Hash != ""):
		return fmt.Errorf("stable has a number without a hash or the other way round")
	case r.Highest < max(r.Target.Number, r.Stable.Number):
		return fmt.Errorf("highest number %d is below target %d or stable %d", r.Highest, r.Target.Number, r.Stable.Number)
	case r.Attempt < 1:
		return fmt.Errorf("attempt is %d", r.Attempt)
	case r.Settings.ProgressDeadlineSeconds < 1:
		return fmt.Errorf("settings have no progress deadline")
	case r.Reached != nil && (r.Reached.Pods < 0 || r.Reached.Replicas < 0):
		return fmt.Errorf("reached position is negative")
	}
	if err := r.validateStage(); err != nil {
		return err
	}
	if err := r.Route.validate(); err != nil {
		return err
	}
	if err := validateReadings(r.Analysis); err != nil {
		return err
	}
	return r.Wave.validate()
}

func (r *Record) validateStage() error {
	switch r.Stage {
	case Complete, Restoring:
		if r.Stable != r.Target {
			return fmt.Errorf("stage is %s but revision %d is not the stable %d", r.Stage, r.Target.Number, r.Stable.Number)
		}
	case Rolling:
		if r.Stable.Number == 0 || r.Stable.Number == r.Target.Number {
			return fmt.Errorf("stage is %s without a stable revision beside the target", r.Stage)
		}
	case Promoting:
		if r.Stable.Number == r.Target.Number {
			return fmt.Errorf("stage is %s without a stable revision beside the target", r.Stage)
		}
	case RollingBack, RolledBack:
		if r.Stable.Number == 0 || r.Stable.Number == r.Target.Number || r.Failure == nil {
			return fmt.Errorf("stage is %s without a stable revision or a failure", r.Stage)
		}
	case Held:
		if r.Failure == nil {
			return fmt.Errorf("stage is %s without a failure", r.Stage)
		}
	default:
		return fmt.Errorf("stage %q is unknown", r.Stage)
	}
	return nil
}

// clone copies r so that no change reaches what was observed.
func (r *Record) clone() *Record {
	c := *r
	c.Reached = copyOf(r.Reached)
	c.Clock = copyOf(r.Clock)
	c.Gate = copyOf(r.Gate)
	c.Failure = copyOf(r.Failure)
	c.Command = copyOf(r.Command)
	c.Wave = r.Wave.clone()
	c.Route = r.Route.clone()
	c.Analysis = append([]Reading(nil), r.Analysis...)
	c.Past = append([]Past(nil), r.Past...)
	c.History = append([]Entry(nil), r.History...)
	return &c
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// attempts is the last attempt of an earlier target, 0 when it never was one.
func (r *Record) attempts(revision int64) int64 {
	for _, p := range r.Past {
		if p.Revision == revision {
			return p.Attempt
		}
	}
	return 0
}

// remember puts the target at the end of Past.
func (r *Record) remember() {
	past := make([]Past, 0, len(r.Past)+1)
	for _, p := range r.Past {
		if p.Revision != r.Target.Number {
			past = append(past, p)
		}
	}
	past = append(past, Past{Revision: r.Target.Number, Attempt: r.Attempt})
	r.Past = past[max(0, len(past)-maxPast):]
}

// log appends to the history and keeps its last entries.
func (r *Record) log(e Entry) {
	r.History = append(r.History, e)
	r.History = r.History[max(0, len(r.History)-maxHistory):]
}
