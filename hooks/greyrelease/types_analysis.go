package greyrelease

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Analysis is what a batch must show in metrics before the next one begins, beside
// healthy pods. The operator of GreyRelease says which Prometheus is asked; a
// release that asks for metrics where there is none waits in its first batch.
type Analysis struct {
	// Metrics that each batch must pass, 1 to 10. A metric passes a batch with one
	// success taken while the batch is full, once nothing that was due within the soak
	// is outstanding. A first install and rollbackTo have no batches and are not
	// measured, and neither is the promotion after the last batch.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	Metrics []Metric `json:"metrics"`
}

// Metric is one question to Prometheus, with the answers that are good.
//
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max)",message="says nothing without a limit: set min, max or both",fieldPath=.name
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="must be at most max: no value could pass",fieldPath=.min
type Metric struct {
	// Name of the metric in messages: at most 40 lower case letters, digits and "-".
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`

	// PromQL whose result is a scalar or a vector of one sample, at most 2000
	// characters. $(namespace), $(name), $(app), $(version), $(revision) and
	// $(stableRevision) stand for those of the release; the last two are the values of
	// the label greyrelease.example.com/revision of the new and of the stable version.
	// $$( is a literal $(. An empty result is inconclusive: where nothing counts as 0,
	// end the query with "or vector(0)".
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2000
	Query string `json:"query"`

	// Least value that is good. A lower one is a failure. Default: no limit.
	Min *float64 `json:"min,omitempty"`

	// Greatest value that is good. A greater one is a failure. Default: no limit.
	Max *float64 `json:"max,omitempty"`

	// Seconds from one measurement to the next, 1 to 86400. Default: 60.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`

	// Seconds from the moment the batch is full to the first measurement, 0 to 86400:
	// as long as the query looks back, so that it sees this batch alone. Default: 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`

	// Failures that are allowed in one batch, 0 to 1000; with one more the release has
	// failed. Default: 0, the first failure is one too many.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	FailureLimit int32 `json:"failureLimit,omitempty"`

	// Inconclusive measurements (no data, NaN, an error, a timeout) that are allowed in
	// a row, 0 to 1000; with one more the release has failed. Default: no limit, the
	// batch waits until the metric can be measured.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	InconclusiveLimit *int32 `json:"inconclusiveLimit,omitempty"`
}

// MetricStatus is the state of one metric in the batch under way, or in the last one
// that was measured.
type MetricStatus struct {
	// Name of the metric.
	Name string `json:"name"`

	// What the last measurement said: Success, Failure or Inconclusive; Pending before
	// the first.
	Verdict string `json:"verdict"`

	// Value that was measured last, as Prometheus writes it; none if it is
	// inconclusive. While one success follows another it is up to a minute old.
	Value string `json:"value,omitempty"`

	// Why the last measurement is inconclusive.
	Problem string `json:"problem,omitempty"`

	// Instant that was measured last.
	Time *metav1.Time `json:"time,omitempty"`

	// Failures in this batch.
	Failures int64 `json:"failures"`

	// Inconclusive measurements in a row.
	Inconclusive int64 `json:"inconclusive"`
}
