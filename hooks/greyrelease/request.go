package greyrelease

import (
	"encoding/json"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/jsontree"
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

// Child is a child of any kind, or a related object: what is needed of them.
type Child struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   composite.Metadata `json:"metadata"`
	Spec       childSpec          `json:"spec"`
	Status     childStatus        `json:"status"`
	Immutable  *bool              `json:"immutable"`
	Data       json.RawMessage    `json:"data"`
	BinaryData json.RawMessage    `json:"binaryData"`
	// AddressType and Endpoints are an EndpointSlice's.
	AddressType string          `json:"addressType"`
	Endpoints   []childEndpoint `json:"endpoints"`
}

// childSpec is what is needed of the specs of all kinds. What only routes have
// stays text: it is read when there is a route.
type childSpec struct {
	// Replicas is nil when absent, which Kubernetes reads as 1.
	Replicas *composite.Int  `json:"replicas"`
	Template json.RawMessage `json:"template"`
	// Selector is a Service's and, in another form, a Deployment's.
	Selector json.RawMessage `json:"selector"`
	// Ports are a Service's.
	Ports json.RawMessage `json:"ports"`
	// Rules are an HTTPRoute's or an Ingress's.
	Rules json.RawMessage `json:"rules"`
	// ParentRefs and Hostnames are an HTTPRoute's.
	ParentRefs json.RawMessage `json:"parentRefs"`
	Hostnames  json.RawMessage `json:"hostnames"`
	// IngressClassName and TLS are an Ingress's.
	IngressClassName json.RawMessage `json:"ingressClassName"`
	TLS              json.RawMessage `json:"tls"`
}

// childEndpoint is an address of an EndpointSlice. It is ready unless it says that
// it is not.
type childEndpoint struct {
	Addresses  []string `json:"addresses"`
	Conditions struct {
		Ready *bool `json:"ready"`
	} `json:"conditions"`
}

// childStatus is a Deployment's or an HTTPRoute's. Counts that are absent are 0.
type childStatus struct {
	ObservedGeneration composite.Int    `json:"observedGeneration"`
	Replicas           composite.Int    `json:"replicas"`
	ReadyReplicas      composite.Int    `json:"readyReplicas"`
	AvailableReplicas  composite.Int    `json:"availableReplicas"`
	Conditions         []childCondition `json:"conditions"`
	// Parents are what gateways say of an HTTPRoute.
	Parents json.RawMessage `json:"parents"`
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
	// Queries are to be made, and their results to be given to a later sync.
	Queries []Query
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

// relatedRule selects objects that come along with later requests.
type relatedRule struct {
	APIVersion    string        `json:"apiVersion"`
	Resource      string        `json:"resource"`
	Namespace     string        `json:"namespace"`
	LabelSelector labelSelector `json:"labelSelector"`
}

// Customize answers the customize hook: for a release with traffic the endpoints
// of its Services are looked at, which carry the Services' labels. The answer
// depends on the name, the namespace and the spec alone, because Metacontroller
// keeps it.
func Customize(req *CustomizeRequest) (*composite.CustomizeResponse, error) {
	fields, _ := jsontree.Fields(req.Parent.Spec)
	if spec := (object{fields: fields}); absent(spec.raw("traffic")) {
		return &composite.CustomizeResponse{}, nil
	}
	return &composite.CustomizeResponse{RelatedResources: []any{relatedRule{
		APIVersion: "discovery.k8s.io/v1", Resource: "endpointslices", Namespace: req.Parent.Metadata.Namespace,
		LabelSelector: labelSelector{MatchLabels: map[string]string{LabelName: req.Parent.Metadata.Name}},
	}}}, nil
}
