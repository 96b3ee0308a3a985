package greyrelease

import (
	"encoding/json"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
)

// Spec is a GreyRelease's spec as the decision needs it: types checked, zeros
// told apart from absent fields and defaults applied. A field that is missing in
// the request or wrong holds its default; which ones are wrong is in the errors
// that came with it.
type Spec struct {
	AppName                 string // "": metadata.name
	Replicas                *int64 // nil: absent or wrong, keep what is observed
	TargetVersion           string
	Template                json.RawMessage // as it was written, because its bytes are hashed
	BatchSize               int64           // 0: 25% of replicas, rounded up
	CanaryWeight            int64
	SoakSeconds             int64
	Batches                 []batch // empty: planned from BatchSize and CanaryWeight
	Paused                  bool
	MaxSurge                quantity
	MaxUnavailable          quantity
	MinReadySeconds         int64
	ProgressDeadlineSeconds int64
	AutoRollback            bool
	RollbackTo              int64 // 0: not pinned
	HistoryLimit            int64
	SnapshotKind            history.Kind
	BlueGreen               bool
	ScaleDownDelaySeconds   int64
	MaxRestarts             int64
	Traffic                 *traffic // nil: absent or wrong
	Metrics                 []rollout.Metric
}

// batch is one step of an explicit plan. Exactly one of Pods and Percent is set.
type batch struct {
	Pods                   int64
	Percent                int64
	Weight                 *int64 // nil: the batch's share of replicas
	Approval               bool
	ApprovalTimeoutSeconds int64  // 0: no limit
	SoakSeconds            *int64 // nil: spec.soakSeconds
}

// quantity is a number of pods or a percentage of replicas.
type quantity struct {
	Value   int64
	Percent bool
}

const (
	maxBatches      = 50
	maxHistoryLimit = 100
	// maxNumber bounds pods and seconds, because a Deployment holds them in 32
	// bits: 2147483648 replicas would be refused only by the API server.
	maxNumber = math.MaxInt32
	// maxMaxRestarts is days of a crash loop: as good as never.
	maxMaxRestarts = 1000
)

// defaultSpec is what a spec says where it says nothing. These are the defaults
// that the comments in types.go promise.
func defaultSpec() *Spec {
	return &Spec{
		MaxSurge:                quantity{Value: 25, Percent: true},
		MaxUnavailable:          quantity{Value: 0},
		ProgressDeadlineSeconds: 600,
		AutoRollback:            true,
		HistoryLimit:            10,
		SnapshotKind:            history.ConfigMap,
		MaxRestarts:             rollout.DefaultMaxRestarts,
	}
}

// decodeSpec reads and checks raw, a GreyRelease's spec, without its template's
// content; see validateTemplate for that. The CRD refuses most mistakes already,
// but an older CRD or an API server without CEL may stand before us, so nothing
// is taken on trust. Unknown fields are left alone.
//
// A Spec is returned in any case and holds all that could be read, because
// healing and scaling go on while another field is wrong. Each error names its
// field and the cure.
func decodeSpec(raw json.RawMessage) (*Spec, field.ErrorList) {
	var errs field.ErrorList
	s := defaultSpec()
	o, ok := newObject(field.NewPath("spec"), raw, "it needs targetVersion and template", &errs)
	if !ok {
		return s, errs
	}

	o.text("appName", &s.AppName, checkAppName)
	o.optional("replicas", maxNumber, &s.Replicas)
	if o.required("targetVersion", `name the image tag or digest to release, as in "1.28.0"`) {
		o.text("targetVersion", &s.TargetVersion, checkVersion)
	}
	if o.required("template", "describe the pods as in a Deployment") {
		s.Template = o.raw("template")
	}
	strategy := string(StrategyCanary)
	o.text("strategy", &strategy, checkStrategy)
	s.BlueGreen = strategy == string(StrategyBlueGreen)

	o.integer("batchSize", 1, maxNumber, &s.BatchSize)
	o.integer("canaryWeight", 0, 100, &s.CanaryWeight)
	o.integer("soakSeconds", 0, maxNumber, &s.SoakSeconds)
	s.Batches = o.batches("batches")
	o.boolean("paused", &s.Paused)

	surgeOK := o.quantity("maxSurge", 0, &s.MaxSurge)
	unavailableOK := o.quantity("maxUnavailable", 0, &s.MaxUnavailable)
	if surgeOK && unavailableOK && s.MaxSurge.Value == 0 && s.MaxUnavailable.Value == 0 {
		// maxSurge is 25% by default, so it is the one that was written.
		o.invalid("maxSurge", "cannot be 0 while maxUnavailable is 0: no pod could ever be replaced; set one of them to 1 or more")
	}

	readyOK := o.integer("minReadySeconds", 0, maxNumber, &s.MinReadySeconds)
	deadlineOK := o.integer("progressDeadlineSeconds", 0, maxNumber, &s.ProgressDeadlineSeconds)
	if readyOK && deadlineOK && s.ProgressDeadlineSeconds <= s.MinReadySeconds {
		errs = append(errs, field.Invalid(o.path.Child("progressDeadlineSeconds"), s.ProgressDeadlineSeconds,
			fmt.Sprintf("must be greater than minReadySeconds, %d: no pod could become available in time", s.MinReadySeconds)))
	}

	o.boolean("autoRollback", &s.AutoRollback)
	o.integer("rollbackTo", 1, maxNumber, &s.RollbackTo)
	o.integer("revisionHistoryLimit", 0, maxHistoryLimit, &s.HistoryLimit)
	kind := string(s.SnapshotKind)
	o.text("snapshotKind", &kind, checkSnapshotKind)
	s.SnapshotKind = history.Kind(kind)
	var delay *int64
	o.optional("scaleDownDelaySeconds", maxNumber, &delay)
	o.health("health", s)
	s.Traffic = o.traffic("traffic")
	s.Metrics = o.analysis("analysis")
	s.checkTraffic(o, delay)
	return s, errs
}

// health reads what counts as a failure.
func (o object) health(name string, into *Spec) {
	if absent(o.raw(name)) {
		return
	}
	if in, ok := newObject(o.path.Child(name), o.raw(name), "as in {maxRestarts: 5}", o.errs); ok {
		in.integer("maxRestarts", 1, maxMaxRestarts, &into.MaxRestarts)
	}
}

// batches reads an explicit plan. It is nil if there is none or a part is wrong.
func (o object) batches(name string) []batch {
	raw := o.raw(name)
	if absent(raw) {
		return nil
	}
	path := o.path.Child(name)
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		*o.errs = append(*o.errs, field.Invalid(path, shown(raw), `must be a list, as in [{replicas: 1}, {replicas: "50%"}]`))
		return nil
	}
	if len(items) > maxBatches {
		*o.errs = append(*o.errs, field.TooMany(path, len(items), maxBatches))
		return nil
	}
	before := len(*o.errs)
	plan := make([]batch, len(items))
	for i, item := range items {
		plan[i] = decodeBatch(path.Index(i), item, o.errs)
	}
	if len(*o.errs) > before {
		return nil
	}
	checkAscending(path, plan, o.errs)
	if len(*o.errs) > before {
		return nil
	}
	return plan
}

func decodeBatch(path *field.Path, raw json.RawMessage, errs *field.ErrorList) batch {
	var b batch
	const cure = `say how many pods it brings, as in {replicas: 1} or {replicas: "20%"}`
	o, ok := newObject(path, raw, cure, errs)
	if !ok {
		return b
	}
	var size quantity
	if o.required("replicas", cure) && o.quantity("replicas", 1, &size) {
		if size.Percent {
			b.Percent = size.Value
		} else {
			b.Pods = size.Value
		}
	}
	o.optional("weight", 100, &b.Weight)
	approvalOK := o.boolean("approval", &b.Approval)
	o.integer("approvalTimeoutSeconds", 1, maxNumber, &b.ApprovalTimeoutSeconds)
	if approvalOK && !b.Approval && b.ApprovalTimeoutSeconds > 0 {
		o.invalid("approvalTimeoutSeconds", "has an effect only with approval: true: set that as well or remove this")
	}
	o.optional("soakSeconds", maxNumber, &b.SoakSeconds)
	return b
}
