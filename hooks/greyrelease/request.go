package greyrelease

import (
	"encoding/json"

	"greyrelease.example.com/hooks/composite"
)

// Parent is the GreyRelease of a request. Its spec stays as it was written,
// because content is identified by it.
type Parent struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   composite.Metadata `json:"metadata"`
	Spec       json.RawMessage    `json:"spec"`
	Status     json.RawMessage    `json:"status"`
}

// Child is a child of any kind: what is needed of Deployments and ConfigMaps.
type Child struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   composite.Metadata `json:"metadata"`
	Spec       childSpec          `json:"spec"`
	Status     childStatus        `json:"status"`
	Immutable  *bool              `json:"immutable"`
	Data       json.RawMessage    `json:"data"`
	BinaryData json.RawMessage    `json:"binaryData"`
}

type childSpec struct {
	// Replicas is nil when absent, which Kubernetes reads as 1.
	Replicas *composite.Int  `json:"replicas"`
	Template json.RawMessage `json:"template"`
}

// childStatus is a Deployment's. Counts that are absent are 0.
type childStatus struct {
	ObservedGeneration composite.Int    `json:"observedGeneration"`
	Replicas           composite.Int    `json:"replicas"`
	ReadyReplicas      composite.Int    `json:"readyReplicas"`
	AvailableReplicas  composite.Int    `json:"availableReplicas"`
	Conditions         []childCondition `json:"conditions"`
}

type childCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// Request is a call of the sync hook.
type Request = composite.SyncRequest[Parent, Child]

// CustomizeRequest is a call of the customize hook.
type CustomizeRequest = composite.CustomizeRequest[Parent]

// DecodeSync reads a call of the sync hook. The error is a
// [composite.BadRequestError].
func DecodeSync(data []byte) (*Request, error) {
	return composite.DecodeSync[Parent, Child](data)
}

// DecodeCustomize reads a call of the customize hook. The error is a
// [composite.BadRequestError].
func DecodeCustomize(data []byte) (*CustomizeRequest, error) {
	return composite.DecodeCustomize[Parent](data)
}

// Response is the answer to a sync, and what is worth a line in the log.
type Response struct {
	composite.SyncResponse
	// Transitions are changes of phase. They are for logs and counters only.
	Transitions []Transition
}

// Transition is a change of phase.
type Transition struct {
	Namespace, Name string
	Revision        int64
	Version         string
	From, To        Phase
	// Reason is why a release failed, from the closed set of rollout.Reason; "" otherwise.
	Reason string
}

// Customize answers the customize hook: no objects besides the children are
// looked at.
func Customize(*CustomizeRequest) (*composite.CustomizeResponse, error) {
	return &composite.CustomizeResponse{}, nil
}
