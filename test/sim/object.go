package sim

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// Kind is a kind of object that the cluster stores.
type Kind struct {
	Group, Version, Name, Resource string

	// counted kinds have a generation that grows with each change of the spec.
	counted bool
	// status is a subresource of its own.
	status bool
}

// The kinds that a GreyRelease is made of, and EndpointSlices and Pods, which it
// looks at.
var (
	ConfigMaps     = &Kind{Version: "v1", Name: "ConfigMap", Resource: "configmaps"}
	Deployments    = &Kind{Group: "apps", Version: "v1", Name: "Deployment", Resource: "deployments", counted: true, status: true}
	EndpointSlices = &Kind{Group: "discovery.k8s.io", Version: "v1", Name: "EndpointSlice", Resource: "endpointslices"}
	HTTPRoutes     = &Kind{Group: "gateway.networking.k8s.io", Version: "v1", Name: "HTTPRoute", Resource: "httproutes", counted: true, status: true}
	Ingresses      = &Kind{Group: "networking.k8s.io", Version: "v1", Name: "Ingress", Resource: "ingresses", counted: true, status: true}
	Pods           = &Kind{Version: "v1", Name: "Pod", Resource: "pods"}
	Releases       = &Kind{Group: "greyrelease.example.com", Version: "v1", Name: "GreyRelease", Resource: "greyreleases", counted: true, status: true}
	Secrets        = &Kind{Version: "v1", Name: "Secret", Resource: "secrets"}
	Services       = &Kind{Version: "v1", Name: "Service", Resource: "services", status: true}
)

// kinds are sorted by the names under which requests list them.
var kinds = []*Kind{ConfigMaps, Deployments, EndpointSlices, Releases, HTTPRoutes, Ingresses, Pods, Secrets, Services}

// APIVersion is the group and version as objects carry them.
func (k *Kind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// GroupKey is the name of the kind in the children of a request.
func (k *Kind) GroupKey() string { return k.Name + "." + k.APIVersion() }

func kindOf(tree map[string]any) *Kind {
	for _, k := range kinds {
		if tree["kind"] == k.Name && tree["apiVersion"] == k.APIVersion() {
			return k
		}
	}
	return nil
}

// Ref names an object.
type Ref struct {
	Kind            *Kind
	Namespace, Name string
}

// Key is the namespace and name.
func (r Ref) Key() string { return r.Namespace + "/" + r.Name }

func (r Ref) String() string { return r.Kind.Name + " " + r.Key() }

// Object is one version of an object in the API server. Neither it nor its tree
// is ever written to.
type Object struct {
	Ref
	UID     string
	Version int64
	Tree    map[string]any

	generation int64
	owners     []owner
	text       []byte
}

// owner is an entry of managedFields.
type owner struct {
	apply.Managed
	time string
}

// JSON returns the object as the API server sends it.
func (o *Object) JSON() []byte {
	if o.text == nil {
		text, err := json.Marshal(o.Tree)
		if err != nil {
			panic("cannot encode " + o.String() + ": " + err.Error())
		}
		o.text = text
	}
	return o.text
}

// Label returns the value of a label, or "".
func (o *Object) Label(name string) string { return apply.Text(o.Tree, "metadata", "labels", name) }

// Annotation returns the value of an annotation, or "".
func (o *Object) Annotation(name string) string {
	return apply.Text(o.Tree, "metadata", "annotations", name)
}

// Int returns the whole number at a path, or 0.
func (o *Object) Int(path ...string) int64 { return number(o.Tree, path...) }

// Text returns the string at a path, or "".
func (o *Object) Text(path ...string) string { return apply.Text(o.Tree, path...) }

// Generation counts the changes of the spec, 0 for kinds that do not.
func (o *Object) Generation() int64 { return o.generation }

// Deleting tells whether the object waits for its finalizers.
func (o *Object) Deleting() bool { return o.Text("metadata", "deletionTimestamp") != "" }

// Controller returns the reference of the object's controller, or nil.
func (o *Object) Controller() map[string]any {
	for _, ref := range apply.List(o.Tree, "metadata", "ownerReferences") {
		if apply.Field(ref, "controller") == true {
			return ref.(map[string]any)
		}
	}
	return nil
}

// OwnedBy tells whether the object with this uid is the controller.
func (o *Object) OwnedBy(uid string) bool {
	ref := o.Controller()
	return ref != nil && ref["uid"] == uid
}

func number(v any, path ...string) int64 {
	switch n := apply.Field(v, path...).(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// scaled resolves a number or a percentage of total. Absent is def.
func scaled(v any, total int64, up bool, def string) int64 {
	if v == nil {
		v = def
	}
	text, ok := v.(string)
	if !ok {
		return number(v)
	}
	percent, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	if err != nil {
		return 0
	}
	if up {
		return (percent*total + 99) / 100
	}
	return percent * total / 100
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
