package composite

import (
	"maps"
	"slices"
)

// SyncRequest is what Metacontroller posts to the sync and finalize hooks.
// P, C and R are the types of the parent, of one child and of one related object:
// a type holds what is needed of all kinds, or decodes itself by kind. Whatever they
// have no field for is skipped. There can be far more related objects than children,
// so they have a type of their own.
type SyncRequest[P, C, R any] struct {
	Controller Controller
	Parent     P
	// Children are by group ("Deployment.apps/v1", "ConfigMap.v1") and then by
	// a key that means nothing. Every child kind that the controller was given
	// has a group, which may be empty.
	Children map[string]map[string]C
	// Related are the objects that the customize hook asked for, in groups like
	// those of Children. It is nil without that hook.
	Related map[string]map[string]R
	// Finalizing is set on calls to the finalize hook.
	Finalizing bool
}

// Kinds returns the groups of the request ("ConfigMap.v1",
// "Deployment.apps/v1", ...), sorted: the child kinds that the controller was
// given.
func (r *SyncRequest[P, C, R]) Kinds() []string {
	return slices.Sorted(maps.Keys(r.Children))
}

// All returns the children of one group, in the order of their keys, so that
// the same request always gives the same list. The list is the caller's; what
// it shows is shared with the request.
func (r *SyncRequest[P, C, R]) All(kind string) []C { return all(r.Children[kind]) }

// AllRelated is All for related objects.
func (r *SyncRequest[P, C, R]) AllRelated(kind string) []R { return all(r.Related[kind]) }

func all[C any](group map[string]C) []C {
	all := make([]C, 0, len(group))
	for _, key := range slices.Sorted(maps.Keys(group)) {
		all = append(all, group[key])
	}
	return all
}

// CustomizeRequest is what Metacontroller posts to the customize hook. The
// answer is cached by the parent's uid and generation for 20 minutes, so it
// may depend on metadata.uid and spec only.
type CustomizeRequest[P any] struct {
	Controller Controller
	Parent     P
}

// Controller is the CompositeController that calls, which comes along with
// every request.
type Controller struct {
	Metadata ControllerMetadata `json:"metadata"`
	Spec     ControllerSpec     `json:"spec"`
}

// ControllerMetadata is what hooks need of the controller's metadata.
type ControllerMetadata struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
}

// ControllerSpec is what hooks need of the controller's spec.
type ControllerSpec struct {
	ChildResources []ChildResource `json:"childResources"`
}

// ChildResource is a kind of child that the controller may create. Resource is
// the plural in lower case: "deployments".
type ChildResource struct {
	APIVersion string `json:"apiVersion"`
	Resource   string `json:"resource"`
}
