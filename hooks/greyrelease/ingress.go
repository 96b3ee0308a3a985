package greyrelease

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
)

// Annotations of ingress-nginx.
const (
	nginxCanary      = "nginx.ingress.kubernetes.io/canary"
	nginxWeight      = "nginx.ingress.kubernetes.io/canary-weight"
	nginxHeader      = "nginx.ingress.kubernetes.io/canary-by-header"
	nginxHeaderValue = "nginx.ingress.kubernetes.io/canary-by-header-value"
)

// ingress is an Ingress to answer with: only the fields that are ours.
type ingress struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   history.Metadata `json:"metadata"`
	Spec       ingressSpec      `json:"spec"`
}

type ingressSpec struct {
	IngressClassName string        `json:"ingressClassName,omitempty"`
	TLS              []ingressTLS  `json:"tls,omitempty"`
	Rules            []ingressRule `json:"rules"`
}

type ingressTLS struct {
	Hosts      []string `json:"hosts,omitempty"`
	SecretName string   `json:"secretName"`
}

type ingressRule struct {
	Host string       `json:"host,omitempty"`
	HTTP ingressPaths `json:"http"`
}

type ingressPaths struct {
	Paths []ingressPath `json:"paths"`
}

type ingressPath struct {
	Path     string         `json:"path"`
	PathType string         `json:"pathType"`
	Backend  ingressBackend `json:"backend"`
}

type ingressBackend struct {
	Service ingressService `json:"service"`
}

type ingressService struct {
	Name string `json:"name"`
	Port struct {
		Number int64 `json:"number"`
	} `json:"port"`
}

// observedIngress is the main or the canary Ingress. What cannot be read is empty.
type observedIngress struct {
	child *Child
	ingressSpec
	// backend is the Service it leads to.
	backend string
	// canary tells whether it is one for ingress-nginx; weight and header are then
	// what it takes.
	canary bool
	weight int64
	header bool
}

func (o *observation) sortIngresses(children []Child) {
	for i := range children {
		c := &children[i]
		switch c.Metadata.Name {
		case o.name:
			o.mainIngress = observeIngress(c)
		case canaryIngressName(o.name):
			o.canaryIngress = observeIngress(c)
		default:
			o.foreign = append(o.foreign, *c)
		}
	}
}

func observeIngress(c *Child) *observedIngress {
	in := &observedIngress{child: c}
	if json.Unmarshal(orNull(c.Spec.Rules), &in.Rules) != nil || json.Unmarshal(orNull(c.Spec.TLS), &in.TLS) != nil ||
		json.Unmarshal(orNull(c.Spec.IngressClassName), &in.IngressClassName) != nil {
		in.ingressSpec = ingressSpec{}
	}
	if len(in.Rules) == 1 && len(in.Rules[0].HTTP.Paths) == 1 {
		in.backend = in.Rules[0].HTTP.Paths[0].Backend.Service.Name
	}
	notes := c.Metadata.Annotations
	in.canary = notes[nginxCanary] == "true"
	if w, err := strconv.ParseInt(notes[nginxWeight], 10, 64); err == nil {
		in.weight = min(100, max(0, w))
	}
	in.header = notes[nginxHeader] != ""
	return in
}

// split is how two Ingresses share out the requests. ingress-nginx knows one
// canary beside the main one.
type split struct {
	main   int64 // revision
	canary int64 // revision; 0: none
	weight int64 // of canary
	header bool  // requests with the header go to canary
}

// wantSplit is the split of the observed record. The stable revision is the main
// one for as long as it has requests.
func (a *answer) wantSplit() (split, bool) {
	r := a.record
	if r == nil || r.Route == nil || r.Settings.Router != rollout.RouterPair {
		return split{}, false
	}
	var s split
	if r.Route.Of(r.Stable.Number).Weight > 0 {
		s.main = r.Stable.Number
	} else {
		for _, share := range r.Route.Shares {
			if s.main == 0 || share.Weight > r.Route.Of(s.main).Weight {
				s.main = share.Revision
			}
		}
	}
	for _, share := range r.Route.Shares {
		if share.Revision != s.main && share.Weight > s.weight {
			s.canary, s.weight = share.Revision, share.Weight
		}
	}
	if s.canary == 0 && r.Route.Header != s.main {
		s.canary = r.Route.Header
	}
	s.header = s.canary != 0 && s.canary == r.Route.Header
	return s, true
}

// observedSplit is how the observed Ingresses share out the requests.
func (a *answer) observedSplit() split {
	var s split
	if a.mainIngress != nil {
		s.main = a.served(a.mainIngress.backend)
	}
	if in := a.canaryIngress; in != nil {
		s.canary, s.weight, s.header = a.served(in.backend), in.weight, in.header
	}
	return s
}

// served is the revision of a Service by its name, 0 if it is none's.
func (o *observation) served(service string) int64 {
	hash, ok := strings.CutPrefix(service, o.name+"-")
	if !ok {
		return 0
	}
	return o.numberOf(hash)
}

// ingressConfig is how the Ingresses are to look besides where they lead: as the
// spec says, or while that is invalid or has none any more, as they look already.
func (a *answer) ingressConfig() (ingressConfig, int64, bool) {
	t := a.spec.Traffic
	asked := t != nil && t.Ingress != nil
	if a.wish.Valid && asked {
		return *t.Ingress, t.Ports[0].Port, true
	}
	if in := a.mainIngress; in != nil && in.backend != "" {
		at := in.Rules[0].HTTP.Paths[0]
		c := ingressConfig{ClassName: in.IngressClassName, Host: in.Rules[0].Host, Path: at.Path}
		if len(in.TLS) > 0 {
			c.Secret = in.TLS[0].SecretName
		}
		if b := a.canaryIngress; b != nil && b.header {
			c.Header = &header{Name: b.child.Metadata.Annotations[nginxHeader], Value: b.child.Metadata.Annotations[nginxHeaderValue]}
		} else if asked {
			c.Header = t.Ingress.Header
		}
		return c, at.Backend.Service.Port.Number, true
	}
	if asked {
		return *t.Ingress, t.Ports[0].Port, true
	}
	return ingressConfig{}, 0, false
}

// renderIngresses answers with the main Ingress and, while two versions share the
// requests, the canary one. Each is written on its own, in any order, so at no
// time may it matter which comes first:
//
//	main v1, canary v2 at 90 -> all to v2: main to v2 first. The canary stays as it
//	    is until main is observed there. Were main left at v1 with a canary of 100,
//	    ingress-nginx would answer 503 once v1 has no endpoints.
//	main v2 -> v1 at 30, v2 at 70: the canary on v2 first, which changes nothing.
//	    Were main moved first, v1 would get all requests for a moment.
func (a *answer) renderIngresses() {
	if !a.given[kindIngress] {
		return
	}
	want, ok := a.wantSplit()
	c, port, known := a.ingressConfig()
	if !ok || !known || a.revision(want.main).Hash == "" || want.canary != 0 && a.revision(want.canary).Hash == "" {
		for _, in := range []*observedIngress{a.mainIngress, a.canaryIngress} {
			if in != nil && a.keepsRoute(rollout.RouterPair) {
				a.children = append(a.children, a.asObserved(in.child))
			}
		}
		return
	}
	seen := a.observedSplit()
	main := want.main
	inPlace := a.mainIngress != nil && seen.main == want.main
	if !inPlace && want.canary != 0 && seen.main == want.canary && !a.canaryCarries(want) {
		main = seen.main
	}
	a.addIngress(a.name, a.mainIngress, c.spec(revisionServiceName(a.name, a.revision(main).Hash), port, true), nil)
	switch {
	case want.canary != 0:
		a.addIngress(canaryIngressName(a.name), a.canaryIngress,
			c.spec(revisionServiceName(a.name, a.revision(want.canary).Hash), port, false), c.annotations(want))
	case a.canaryIngress != nil && !inPlace:
		a.children = append(a.children, a.asObserved(a.canaryIngress.child))
	case a.canaryIngress != nil:
		a.writes = true // it goes
	}
}

func (a *answer) canaryCarries(want split) bool {
	in := a.canaryIngress
	return in != nil && in.canary && in.child.Metadata.DeletionTimestamp == "" &&
		a.served(in.backend) == want.canary && in.weight == want.weight && in.header == want.header
}

// ingressCarries tells whether the observed Ingresses are what the record says.
func (a *answer) ingressCarries() bool {
	want, ok := a.wantSplit()
	in := a.mainIngress
	if !ok || in == nil || in.child.Metadata.DeletionTimestamp != "" || a.served(in.backend) != want.main {
		return false
	}
	if c, _, known := a.ingressConfig(); known && c.Header == nil {
		want.header = false
	}
	if want.canary == 0 {
		return a.canaryIngress == nil
	}
	return a.canaryCarries(want)
}

func (c *ingressConfig) spec(service string, port int64, tls bool) ingressSpec {
	path := ingressPath{Path: c.Path, PathType: "Prefix"}
	path.Backend.Service.Name, path.Backend.Service.Port.Number = service, port
	spec := ingressSpec{
		IngressClassName: c.ClassName,
		Rules:            []ingressRule{{Host: c.Host, HTTP: ingressPaths{Paths: []ingressPath{path}}}},
	}
	if tls && c.Secret != "" {
		spec.TLS = []ingressTLS{{SecretName: c.Secret}}
		if c.Host != "" {
			spec.TLS[0].Hosts = []string{c.Host}
		}
	}
	return spec
}

// annotations are what make an Ingress a canary.
func (c *ingressConfig) annotations(want split) map[string]string {
	notes := map[string]string{nginxCanary: "true", nginxWeight: strconv.FormatInt(want.weight, 10)}
	if want.header && c.Header != nil {
		notes[nginxHeader], notes[nginxHeaderValue] = c.Header.Name, c.Header.Value
	}
	return notes
}

// addIngress adds an Ingress to the answer.
func (a *answer) addIngress(name string, observed *observedIngress, spec ingressSpec, notes map[string]string) {
	out := ingress{
		APIVersion: "networking.k8s.io/v1", Kind: "Ingress",
		Metadata: history.Metadata{Name: name, Labels: map[string]string{LabelName: a.name}, Annotations: map[string]string{}},
		Spec:     spec,
	}
	maps.Copy(out.Metadata.Annotations, notes)
	same := observed != nil && observed.backend == spec.Rules[0].HTTP.Paths[0].Backend.Service.Name && observed.has(notes)
	if same {
		maps.Copy(out.Metadata.Annotations, keptDecision(observed.child))
	} else {
		maps.Copy(out.Metadata.Annotations, a.newDecision())
	}
	if len(out.Metadata.Annotations) == 0 {
		out.Metadata.Annotations = nil
	}
	a.children = append(a.children, out)
	if observed == nil {
		a.missing = append(a.missing, "Ingress "+name)
	}
	a.writes = a.writes || !same || !sameIngress(observed.ingressSpec, spec)
}

// has tells whether an Ingress has these annotations. Others may be there, which
// somebody added and applying leaves alone.
func (in *observedIngress) has(notes map[string]string) bool {
	for name, value := range notes {
		if in.child.Metadata.Annotations[name] != value {
			return false
		}
	}
	return true
}

// sameIngress compares two specs. A class that was not asked for is the default
// one, which the API server has put in.
func sameIngress(observed, want ingressSpec) bool {
	if want.IngressClassName == "" {
		observed.IngressClassName = ""
	}
	return sameJSON(observed, want)
}

// nginxNotes are the annotations of a canary that are ours.
func nginxNotes(c *Child) map[string]string {
	notes := map[string]string{}
	for _, name := range []string{nginxCanary, nginxWeight, nginxHeader, nginxHeaderValue} {
		if value, ok := c.Metadata.Annotations[name]; ok {
			notes[name] = value
		}
	}
	return notes
}

// ownAnnotations are all annotations of an object that are ours.
func ownAnnotations(c *Child) map[string]string {
	notes := nginxNotes(c)
	maps.Copy(notes, keptDecision(c))
	if len(notes) == 0 {
		return nil
	}
	return notes
}
