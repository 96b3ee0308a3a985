package greyrelease

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GreyRelease releases new versions of one application in batches and rolls a
// version back by itself when it cannot become healthy. Its name is a DNS-1035
// label of at most 52 characters, because the names of its Deployments, their
// pods and its snapshots are derived from it.
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([a-z0-9-]{0,50}[a-z0-9])?$')",message="metadata.name must be at most 52 lower case letters, digits and \"-\", beginning with a letter and ending with a letter or digit"
// +kubebuilder:resource:path=greyreleases,singular=greyrelease,shortName=gr,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the release stands"
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.status.targetVersion`,description="The version being released"
// +kubebuilder:printcolumn:name="Stable",type=string,JSONPath=`.status.stableVersion`,description="The last version that was released completely"
// +kubebuilder:printcolumn:name="Batch",type=string,JSONPath=`.status.progress`,description="The current batch and the number of batches"
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.status.canaryWeight`,description="Percent of the traffic that the target receives"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Ready pods of all versions"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`,description="What is happening and how to go on"
type GreyRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What should run and how to get there.
	// +kubebuilder:validation:Required
	Spec GreyReleaseSpec `json:"spec"`

	// What is running, as last observed. It is a report only: it may be wiped at
	// any time and comes back with the next sync.
	Status *GreyReleaseStatus `json:"status,omitempty"`
}

// GreyReleaseSpec is the wish of the user. Fields that change what pods run
// (template and targetVersion) start a release; all others take effect on the
// release that is running.
//
// No rule looks at replicas, so that an autoscaler's own update is never refused.
//
// +kubebuilder:validation:XValidation:rule="has(self.appName) == has(oldSelf.appName) && (!has(self.appName) || self.appName == oldSelf.appName)",message="cannot be changed, added or removed: create another release beside this one",fieldPath=.appName
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !(self.maxSurge == 0 || self.maxSurge == '0%') || (has(self.maxUnavailable) && self.maxUnavailable != 0 && self.maxUnavailable != '0%')",message="cannot be 0 while maxUnavailable is 0: no pod could ever be replaced; set one of them to 1 or more",fieldPath=.maxSurge
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'BlueGreen' || has(self.traffic)",message="BlueGreen switches a Service from one version to the other: set traffic.ports",fieldPath=.strategy
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'BlueGreen' || !has(self.batches) || size(self.batches) <= 1",message="BlueGreen has one batch, all pods: keep at most one, for its approval and soak",fieldPath=.batches
// +kubebuilder:validation:XValidation:rule="!has(self.scaleDownDelaySeconds) || self.scaleDownDelaySeconds == 0 || (has(self.strategy) && self.strategy == 'BlueGreen') || (has(self.traffic) && (has(self.traffic.httpRoute) || has(self.traffic.ingress)))",message="must be 0 without a router or BlueGreen: the pods of the previous version would still be reached",fieldPath=.scaleDownDelaySeconds
// +kubebuilder:validation:XValidation:rule="!has(self.traffic) || !has(self.traffic.stableScaleDown) || (has(self.strategy) && self.strategy == 'BlueGreen' ? self.traffic.stableScaleDown == 'OnPromotion' : has(self.traffic.httpRoute) || has(self.traffic.ingress))",message="has an effect only for a Canary with httpRoute or ingress: remove it",fieldPath=.traffic.stableScaleDown
// +kubebuilder:validation:XValidation:rule="(has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600) > (has(self.minReadySeconds) ? self.minReadySeconds : 0)",message="must be greater than minReadySeconds: no pod could become available in time",fieldPath=.progressDeadlineSeconds
type GreyReleaseSpec struct {
	// Value of the label app on pods whose template has no app label of its own.
	// A label value: at most 63 letters, digits, "-", "_" and ".", beginning and
	// ending with a letter or digit. Default: metadata.name. It cannot be changed,
	// added or removed later.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
	AppName string `json:"appName,omitempty"`

	// Pods to run, all versions together. 0 is allowed and holds a running release
	// where it is. The scale subresource points here: let an autoscaler target the
	// GreyRelease, never its Deployments. Default: 1; a request that lacks it all
	// the same keeps what is observed.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Version to release: an image tag or a digest "sha256:<64 hex digits>".
	// Always a string: quote what looks like a number, as in "1.10". It becomes
	// the tag or digest of every container and init container whose image in the
	// template has neither.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|sha256:[0-9a-f]{64})$`
	TargetVersion string `json:"targetVersion"`

	// Pods to run. The same as spec.template of a Deployment, except that
	// metadata.name and metadata.namespace have no effect, restartPolicy is Always
	// and ephemeral containers and activeDeadlineSeconds are refused.
	// +kubebuilder:validation:Required
	Template corev1.PodTemplateSpec `json:"template"`

	// How a version goes out. Canary moves pods batch by batch. BlueGreen starts all
	// pods of the new version beside the old one, with a Service <name>-preview, and
	// then switches all requests at once; it needs traffic.ports, and batches has at
	// most one entry, for its approval and soak. Default: Canary.
	Strategy Strategy `json:"strategy,omitempty"`

	// Pods moved to the new version in each batch, at least 1. Has no effect beside
	// batches. Default: 25% of replicas, rounded up (3 of 10).
	// +kubebuilder:validation:Minimum=1
	BatchSize *int32 `json:"batchSize,omitempty"`

	// Percent of replicas in the first batch, 0 to 100, rounded up to at least one
	// pod; with a router also the percent of its traffic. Has no effect beside
	// batches. Default: 0, no separate canary batch.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	CanaryWeight int32 `json:"canaryWeight,omitempty"`

	// Seconds for which a full batch must stay available without a break before the
	// next batch begins. Default: 0.
	// +kubebuilder:validation:Minimum=0
	SoakSeconds int32 `json:"soakSeconds,omitempty"`

	// Explicit plan instead of batchSize and canaryWeight: at most 50 batches of
	// growing size; with BlueGreen at most one, whose replicas and weight have no
	// effect. Promotion, the step to 100%, follows the last one by itself.
	// Default: none, the plan comes from batchSize and canaryWeight.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Batches []Batch `json:"batches,omitempty"`

	// Stops advancing. Scaling, healing and a rollback go on; a new target gets no
	// pod while it is set. Default: false.
	Paused bool `json:"paused,omitempty"`

	// Pods that may exist above replicas during a release: a whole number from 0 or
	// a percentage of replicas "0%" to "100%", rounded up. maxSurge and
	// maxUnavailable cannot both be 0. Default: 25%.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]?|100)%$`
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// Pods that may be missing from replicas during a release: a whole number from
	// 0 or a percentage of replicas "0%" to "100%", rounded down. When both limits
	// round to 0 pods, this one is 1, as in a Deployment. Default: 0.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]?|100)%$`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// Seconds for which a pod must be ready without a break to count as available.
	// Default: 0.
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// Seconds without one more available pod of the target after which the release
	// has failed. Greater than minReadySeconds. Waiting for a soak, an approval or
	// while paused does not count. Default: 600.
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// Whether a failed version is rolled back by itself. If false, the release
	// stays where it failed, in phase Degraded. Default: true.
	AutoRollback *bool `json:"autoRollback,omitempty"`

	// Revision whose template and version to go back to, at once and without
	// batches, soaks and approvals. The release stays on it until the field is
	// removed. Revisions are listed in status.history. At least 1. Default: none.
	// +kubebuilder:validation:Minimum=1
	RollbackTo *int32 `json:"rollbackTo,omitempty"`

	// Revisions to keep beside the stable, the target and the pinned one, 0 to 100.
	// Default: 10.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// Kind of object that revisions are kept in, with their whole template: ConfigMap, or
	// Secret where those who may read ConfigMaps are not to see it. Only where the
	// overlay for Secrets is installed. Revisions that are kept already move when it
	// changes. Default: ConfigMap.
	SnapshotKind SnapshotKind `json:"snapshotKind,omitempty"`

	// Seconds for which the previous version keeps its pods after the last request
	// was led to it. Above 0 only with a router (traffic.httpRoute, traffic.ingress)
	// or BlueGreen, because without one those pods would still be reached.
	// Default: 30 with a router or BlueGreen, else 0.
	// +kubebuilder:validation:Minimum=0
	ScaleDownDelaySeconds *int32 `json:"scaleDownDelaySeconds,omitempty"`

	// What counts as a version that can't become healthy, beside the deadline. Only
	// where the overlay for pods is installed. Default: see its fields.
	Health *Health `json:"health,omitempty"`

	// How requests reach the pods. Removing it removes the Services and routes with
	// it. Default: none, no Service is made.
	Traffic *Traffic `json:"traffic,omitempty"`

	// What each batch must show in metrics before the next one begins. Default: none,
	// healthy pods are enough.
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Health is when a version counts as one that can't become healthy.
type Health struct {
	// Restarts of a container, 1 to 1000, with which its crash loop fails the release
	// at once: it was restarted at least so often and waits in CrashLoopBackOff. Init
	// containers and sidecars count, the stable version does not, and neither do pods
	// from before a retry; while paused is set nothing is judged. Default: 3.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`
}

// Strategy is how a version goes out.
// +kubebuilder:validation:Enum=Canary;BlueGreen
type Strategy string

const (
	// StrategyCanary moves pods from the old version to the new one in batches.
	StrategyCanary Strategy = "Canary"
	// StrategyBlueGreen starts the new version beside the old one and switches the
	// requests at once.
	StrategyBlueGreen Strategy = "BlueGreen"
)

// SnapshotKind is a kind of object that revisions are kept in.
// +kubebuilder:validation:Enum=ConfigMap;Secret
type SnapshotKind string

const (
	// SnapshotConfigMap keeps revisions in ConfigMaps.
	SnapshotConfigMap SnapshotKind = "ConfigMap"
	// SnapshotSecret keeps revisions in Secrets.
	SnapshotSecret SnapshotKind = "Secret"
)

// Batch is one step of an explicit plan.
//
// +kubebuilder:validation:XValidation:rule="!has(self.approvalTimeoutSeconds) || (has(self.approval) && self.approval)",message="has an effect only with approval: true: set that as well or remove this",fieldPath=.approvalTimeoutSeconds
type Batch struct {
	// Pods of the new version once this batch is out, those of earlier batches
	// included: a whole number from 1 or a percentage of replicas "1%" to "100%",
	// rounded up. Numbers above replicas mean all of them. Batches of one type must
	// grow from one to the next.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]?|100)%$`
	Replicas intstr.IntOrString `json:"replicas"`

	// Percent of the traffic for the new version during this batch, 0 to 100. Only
	// with a router: without one the traffic follows the available pods, and this has
	// no effect. Default: the batch's share of replicas.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight *int32 `json:"weight,omitempty"`

	// Whether the release waits for a promote command after this batch; the command
	// to give is in status.message. Default: false.
	Approval bool `json:"approval,omitempty"`

	// Seconds to wait for the approval, counted from the end of the soak and of the
	// analysis; then the release has failed, and autoRollback says what follows. Only
	// with approval, at least 1. Default: no limit.
	// +kubebuilder:validation:Minimum=1
	ApprovalTimeoutSeconds *int32 `json:"approvalTimeoutSeconds,omitempty"`

	// Seconds for which this batch must stay available without a break before the
	// next one begins. Default: spec.soakSeconds.
	// +kubebuilder:validation:Minimum=0
	SoakSeconds *int32 `json:"soakSeconds,omitempty"`
}

// GreyReleaseStatus is what was observed. It is never read as a wish.
type GreyReleaseStatus struct {
	// Generation of the spec that this status answers. Metacontroller sets it.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Where the release stands.
	Phase Phase `json:"phase,omitempty"`

	// What is happening and, where something waits for a person, the command that
	// continues, aborts or retries.
	Message string `json:"message,omitempty"`

	// Ready, Reconciling and Stalled as in kstatus, Paused and RolledBack, with
	// spec.analysis AnalysisInconclusive, and where the overlay for pods is installed
	// PodsFailing, which names the pod, the container and the reason. Ready is True
	// only while the target is fully out and available.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Label selector of all pods of the release, for autoscalers.
	Selector string `json:"selector,omitempty"`

	// Version being released, or released last.
	TargetVersion string `json:"targetVersion,omitempty"`

	// Number of the revision being released, or released last.
	TargetRevision int64 `json:"targetRevision,omitempty"`

	// Last version that was released completely; a rollback goes back to it.
	StableVersion string `json:"stableVersion,omitempty"`

	// Number of the revision that was released completely last.
	StableRevision int64 `json:"stableRevision,omitempty"`

	// Batch that is going out, from 1. 0 when no release is running.
	CurrentBatch int64 `json:"currentBatch"`

	// Batches of the plan, promotion not counted.
	TotalBatches int64 `json:"totalBatches"`

	// Current batch and number of batches, as in 2/5.
	Progress string `json:"progress,omitempty"`

	// Percent of the traffic that the target receives: what the route carries, or
	// without a router its share of the available pods.
	CanaryWeight int64 `json:"canaryWeight"`

	// Pods of all versions.
	Replicas int64 `json:"replicas"`

	// Pods of the target.
	UpdatedReplicas int64 `json:"updatedReplicas"`

	// Ready pods of all versions.
	ReadyReplicas int64 `json:"readyReplicas"`

	// Pods of all versions that have been ready for minReadySeconds.
	AvailableReplicas int64 `json:"availableReplicas"`

	// What metrics say of the batch under way, or of the last one that was measured.
	// +listType=atomic
	Analysis []MetricStatus `json:"analysis,omitempty"`

	// The last 10 releases that have ended and commands that were executed, oldest
	// first.
	// +listType=atomic
	History []HistoryEntry `json:"history,omitempty"`

	// The last command given through the annotation
	// greyrelease.example.com/command and what became of it.
	LastCommand *LastCommand `json:"lastCommand,omitempty"`
}

// Phase is where a release stands. The schema does not list the phases: an older
// CRD would refuse the whole status of a later hook that knows one more.
type Phase string

const (
	// PhasePending is the first install: no version has been out completely yet.
	PhasePending Phase = "Pending"
	// PhaseProgressing brings out a batch.
	PhaseProgressing Phase = "Progressing"
	// PhasePaused waits for an approval, a soak, spec.paused or for replicas above
	// 0; the message says which and how to go on.
	PhasePaused Phase = "Paused"
	// PhasePromoting has passed the last batch and replaces the rest.
	PhasePromoting Phase = "Promoting"
	// PhaseHealthy has the target out. If pods are missing later, the phase stays
	// and the condition Ready is False.
	PhaseHealthy Phase = "Healthy"
	// PhaseRollingBack brings the stable version back.
	PhaseRollingBack Phase = "RollingBack"
	// PhaseRolledBack has the stable version back; the target is not tried again
	// until the user changes something or asks for it.
	PhaseRolledBack Phase = "RolledBack"
	// PhaseDegraded has failed and is held where it is.
	PhaseDegraded Phase = "Degraded"
	// PhaseInvalid has a spec that cannot be followed; what runs is kept.
	PhaseInvalid Phase = "Invalid"
)

// Types of conditions in status.conditions.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
	ConditionPaused      = "Paused"
	ConditionRolledBack  = "RolledBack"
	// ConditionPodsFailing is only there where pods are looked at.
	ConditionPodsFailing = "PodsFailing"
	// ConditionAnalysisInconclusive is there with spec.analysis only.
	ConditionAnalysisInconclusive = "AnalysisInconclusive"
)

// HistoryEntry is one release that has ended, or one command.
type HistoryEntry struct {
	// Number of the revision; rollbackTo takes it.
	Revision int64 `json:"revision"`

	// Version of the revision.
	Version string `json:"version,omitempty"`

	// How the release ended: Completed, RolledBack, Failed (and held, or replaced
	// while it was rolled back), Superseded by another target or Reverted to the
	// stable one. Command is a command that was executed.
	Result string `json:"result,omitempty"`

	// Why it ended so, or the command that was executed.
	Reason string `json:"reason,omitempty"`

	// When the release began.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// When it ended.
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// LastCommand is a command and what became of it.
type LastCommand struct {
	// The command as it was given.
	Text string `json:"text,omitempty"`

	// What became of it: executed, or why not.
	Result string `json:"result,omitempty"`

	// When it was seen first.
	Time *metav1.Time `json:"time,omitempty"`
}
