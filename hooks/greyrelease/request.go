package greyrelease

import (
	"encoding/json"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/diagnosis"
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

// Child is a child of any kind: what is needed of them.
type Child struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   composite.Metadata `json:"metadata"`
	Spec       childSpec          `json:"spec"`
	Status     childStatus        `json:"status"`
	Immutable  *bool              `json:"immutable"`
	Data       json.RawMessage    `json:"data"`
	BinaryData json.RawMessage    `json:"binaryData"`
	Type       string             `json:"type"` // of a Secret
}

// Related is an object that the customize hook asked for: what is needed of
// EndpointSlices and Pods. Of their metadata the labels alone are many enough to
// weigh: annotations, owners and managedFields are skipped by the decoder.
type Related struct {
	Metadata relatedMetadata `json:"metadata"`
	// AddressType and Endpoints are an EndpointSlice's.
	AddressType string            `json:"addressType"`
	Endpoints   []relatedEndpoint `json:"endpoints"`
	// Status is a Pod's.
	Status diagnosis.Status `json:"status"`
}

type relatedMetadata struct {
	Name              string            `json:"name"`
	CreationTimestamp string            `json:"creationTimestamp"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Labels            map[string]string `json:"labels"`
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

// relatedEndpoint is an address of an EndpointSlice. It is ready unless it says that
// it is not.
type relatedEndpoint struct {
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
type Request = composite.SyncRequest[Parent, Child, Related]

// CustomizeRequest is a call of the customize hook.
type CustomizeRequest = composite.CustomizeRequest[Parent]

var decoder = composite.NewDecoder[Parent, Child, Related]()

// DecodeSync reads a call of the sync hook. The error is a
// [composite.BadRequestError].
func DecodeSync(data []byte) (*Request, error) {
	return decoder.Sync(data)
}

// DecodeCustomize reads a call of the customize hook. The error is a
// [composite.BadRequestError].
func DecodeCustomize(data []byte) (*CustomizeRequest, error) {
	return decoder.Customize(data)
}

// Response is the answer to a sync, and what is worth a line in the log.
type Response struct {
	composite.SyncResponse
	// Transitions are changes of phase, and steps from one batch to the next. They are for
	// logs and counters only.
	Transitions []Transition
	// Queries are to be made, and their results to be given to a later sync.
	Queries []Query
}

// Transition is a change of phase.
type Transition struct {
	Namespace, Name string
	Revision        int64
	Version         string
	// From and To are the same where a release goes on to another batch.
	From, To Phase
	// Stable is the version that is fallen back to, "" for none.
	Stable string
	// Batch is status.progress, as 2/5; "" outside a release.
	Batch string
	// Updated and Replicas are pods of the new version and of all.
	Updated, Replicas int64
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

// maxAsked is the most replicas of a release whose pods are looked at. A pod is some
// 4 to 10 KB of each request, and up to twice the replicas can be there: 1000 pods
// are within the 16 MiB that the service takes. Above it a request could become too
// large, and the release would stand still to learn why it might.
const maxAsked = 500

// Customize answers the customize hook: for a release with traffic the endpoints
// of its Services are looked at, which carry the Services' labels, and where the
// CompositeController says so the pods. The answer depends on the name, the
// namespace and the spec alone, because Metacontroller keeps it.
func Customize(req *CustomizeRequest) (*composite.CustomizeResponse, error) {
	fields, _ := jsontree.Fields(req.Parent.Spec)
	spec := object{fields: fields}
	var rules []any
	if !absent(spec.raw("traffic")) {
		rules = append(rules, labelled(req, "discovery.k8s.io/v1", "endpointslices"))
	}
	if looksAtPods(&req.Controller) && !large(spec.raw("replicas")) {
		rules = append(rules, labelled(req, "v1", "pods"))
	}
	return &composite.CustomizeResponse{RelatedResources: rules}, nil
}

// large tells whether there may be more than maxAsked replicas.
func large(replicas json.RawMessage) bool {
	if absent(replicas) {
		return false
	}
	n, ok := wholeNumber(replicas)
	return !ok || n > maxAsked
}

// labelled selects what carries the label of the release.
func labelled(req *CustomizeRequest, apiVersion, resource string) relatedRule {
	return relatedRule{
		APIVersion: apiVersion, Resource: resource, Namespace: req.Parent.Metadata.Namespace,
		LabelSelector: labelSelector{MatchLabels: map[string]string{LabelName: req.Parent.Metadata.Name}},
	}
}

// looksAtPods tells whether the operator wants pods to be looked at: for each of
// their changes, in the whole cluster, Metacontroller then looks through all releases.
func looksAtPods(c *composite.Controller) bool {
	return c.Metadata.Annotations[AnnotationPods] == "true"
}
