package greyrelease

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
)

// service is a Service to answer with: only the fields that are ours. Its type is
// not among them: the default is ClusterIP, and one that was a LoadBalancer before
// the release took it over stays one.
type service struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   history.Metadata `json:"metadata"`
	Spec       serviceSpec      `json:"spec"`
}

type serviceSpec struct {
	Selector map[string]string `json:"selector"`
	Ports    []servicePort     `json:"ports"`
}

// servicePort has its defaults written out, or the API server's would make every
// sync write.
type servicePort struct {
	Name        string   `json:"name,omitempty"`
	Port        int64    `json:"port"`
	TargetPort  portName `json:"targetPort"`
	Protocol    string   `json:"protocol"`
	AppProtocol string   `json:"appProtocol,omitempty"`
}

// portName is 8080 or "http".
type portName struct {
	Number int64
	Name   string
}

// MarshalJSON writes the name, if there is one, or the number.
func (p portName) MarshalJSON() ([]byte, error) {
	if p.Name != "" {
		return json.Marshal(p.Name)
	}
	return strconv.AppendInt(nil, p.Number, 10), nil
}

// UnmarshalJSON reads either.
func (p *portName) UnmarshalJSON(text []byte) error {
	if isString(text) {
		*p = portName{}
		return json.Unmarshal(text, &p.Name)
	}
	*p = portName{}
	return json.Unmarshal(text, &p.Number)
}

// observedService is a Service of ours.
type observedService struct {
	child *Child
	serviceSpec
}

// sortServices takes in the Services that carry the release's name: one for each
// revision, the root and the preview.
func (o *observation) sortServices(children []Child) {
	o.services = make(map[string]*observedService, len(children))
	for i := range children {
		c := &children[i]
		s := &observedService{child: c}
		hash := c.Metadata.Labels[LabelRevision]
		if c.Metadata.Labels[LabelName] != o.name || hash != "" && c.Metadata.Name != revisionServiceName(o.name, hash) {
			o.foreign = append(o.foreign, *c)
			continue
		}
		// What somebody made unreadable is written anew.
		if json.Unmarshal(orNull(c.Spec.Selector), &s.Selector) != nil || json.Unmarshal(orNull(c.Spec.Ports), &s.Ports) != nil {
			s.serviceSpec = serviceSpec{}
		}
		o.services[c.Metadata.Name] = s
	}
}

// sortedServices are the Services of ours, by name.
func (o *observation) sortedServices() []*observedService {
	out := make([]*observedService, 0, len(o.services))
	for _, name := range slices.Sorted(maps.Keys(o.services)) {
		out = append(out, o.services[name])
	}
	return out
}

// selects is the revision whose pods a Service selects, 0 if they are more than
// one's or nobody's.
func (o *observation) selects(s *observedService) int64 {
	if s == nil || s.Selector[LabelName] != o.name {
		return 0
	}
	return o.numberOf(s.Selector[LabelRevision])
}

// numberOf is the number of the revision with this hash, 0 if it is not known.
func (o *observation) numberOf(hash string) int64 {
	if hash == "" {
		return 0
	}
	for _, n := range o.numbers {
		if o.identity[n].Hash == hash {
			return n
		}
	}
	return o.canonical(rollout.Revision{Hash: hash}).Number
}

// root is the observed root Service: the one of the spec's name, or while the spec
// is invalid whichever is there.
func (a *answer) root() *observedService {
	if name := a.rootName(); name != "" {
		return a.services[name]
	}
	return nil
}

// rootName is the name of the root Service; "" if there is none.
func (a *answer) rootName() string {
	if a.wish.Valid {
		return a.rootOf(a.spec.Traffic)
	}
	for _, name := range slices.Sorted(maps.Keys(a.services)) {
		if a.isRoot(name) {
			return name
		}
	}
	return a.rootOf(a.spec.Traffic)
}

func (a *answer) rootOf(t *traffic) string {
	switch {
	case t == nil:
		return ""
	case t.ServiceName != "":
		return t.ServiceName
	}
	return a.name
}

// isRoot tells whether an observed Service is a root, perhaps under an earlier
// name.
func (a *answer) isRoot(name string) bool {
	return name != previewName(a.name) && a.services[name].child.Metadata.Labels[LabelRevision] == ""
}

// ports are those of all Services; nil while the spec is invalid and none is there
// to tell, unless requests are led already.
func (a *answer) ports() []servicePort {
	if t := a.spec.Traffic; a.wish.Valid {
		if t == nil {
			return nil
		}
		return t.Ports
	}
	if s := a.root(); s != nil {
		return s.Ports
	}
	if all := a.sortedServices(); len(all) > 0 {
		return all[0].Ports
	}
	if t := a.spec.Traffic; t != nil && a.record != nil && a.record.Route != nil {
		return t.Ports
	}
	return nil
}

// renderServices answers with the Services: the revisions' first.
func (a *answer) renderServices() {
	if !a.given[kindService] {
		return
	}
	for _, revision := range a.servedRevisions() {
		a.renderRevisionService(revision)
	}
	a.renderPreview()
	a.renderRoot()
}

// servedRevisions are the revisions that have a Service: those with a Deployment,
// and those that a route may lead to. A Service is dropped only when no route was
// observed to name it, because what is asked for may not have reached a proxy.
func (a *answer) servedRevisions() []rollout.Revision {
	served := map[string]rollout.Revision{}
	add := func(number int64) {
		if r := a.revision(number); number != 0 && r.Hash != "" {
			served[r.Hash] = r
		}
	}
	if a.ports() != nil {
		for _, order := range a.orders {
			add(order.Revision)
		}
	}
	if a.record != nil && a.record.Route != nil {
		add(a.record.Route.Header)
		for _, share := range a.record.Route.Shares {
			add(share.Revision)
		}
	}
	named := a.namedServices()
	for name, s := range a.services {
		hash := s.child.Metadata.Labels[LabelRevision]
		if hash != "" && (named[name] || a.record == nil) {
			if _, known := served[hash]; !known {
				n, err := strconv.ParseInt(s.child.Metadata.Labels[LabelNumber], 10, 64)
				if number := a.numberOf(hash); number != 0 || err != nil {
					n = number
				}
				served[hash] = rollout.Revision{Number: n, Hash: hash}
			}
		}
	}
	out := make([]rollout.Revision, 0, len(served))
	for _, hash := range slices.Sorted(maps.Keys(served)) {
		out = append(out, served[hash])
	}
	return out
}

// namedServices are the Services that the observed routes name, and that of the
// revision which the root or the preview selects.
func (a *answer) namedServices() map[string]bool {
	named := map[string]bool{}
	if r := a.httpRoute; r != nil {
		for _, rule := range r.Rules {
			for _, b := range rule.BackendRefs {
				named[b.Name] = true
			}
		}
	}
	for _, name := range a.ingressBackends() {
		named[name] = true
	}
	for _, s := range a.services {
		if hash := s.Selector[LabelRevision]; hash != "" && s.child.Metadata.Labels[LabelRevision] == "" {
			named[revisionServiceName(a.name, hash)] = true
		}
	}
	return named
}

func (a *answer) renderRevisionService(r rollout.Revision) {
	name := revisionServiceName(a.name, r.Hash)
	observed := a.services[name]
	ports := a.ports()
	if ports == nil {
		if observed == nil || observed.Ports == nil {
			return
		}
		ports = observed.Ports
	}
	a.addService(service{
		Metadata: history.Metadata{Name: name, Labels: map[string]string{
			LabelName: a.name, LabelRevision: r.Hash, LabelNumber: strconv.FormatInt(r.Number, 10),
		}},
		Spec: serviceSpec{Selector: selector(a.name, r.Hash), Ports: ports},
	}, true)
}

// renderPreview answers with the Service of the new version of a BlueGreen release
// while it can be looked at.
func (a *answer) renderPreview() {
	name := previewName(a.name)
	hash := a.previewed()
	if hash == "" || a.ports() == nil {
		return
	}
	a.addService(service{
		Metadata: history.Metadata{Name: name, Labels: map[string]string{LabelName: a.name}},
		Spec:     serviceSpec{Selector: selector(a.name, hash), Ports: a.ports()},
	}, true)
}

// previewed is the hash of the revision that the preview Service selects; "" when
// there is none. Once all its pods are available it is there until the release has
// ended.
func (a *answer) previewed() string {
	observed := a.services[previewName(a.name)]
	if a.record == nil {
		if observed == nil {
			return ""
		}
		return observed.Selector[LabelRevision]
	}
	r := a.record
	blueGreen := a.spec.BlueGreen
	if !a.wish.Valid {
		blueGreen = observed != nil
	}
	if !blueGreen || r.Stable.Number == 0 || r.Stable.Number == r.Target.Number {
		return ""
	}
	switch r.Stage {
	case rollout.Rolling, rollout.Promoting, rollout.Held:
	case rollout.Complete, rollout.Restoring, rollout.RollingBack, rollout.RolledBack:
		return ""
	}
	size := a.size()
	if a.selects(observed) == r.Target.Number || size > 0 && a.facts.Available(r.Target.Number) >= size {
		return r.Target.Hash
	}
	return ""
}

// renderRoot answers with the root Service. One that was called otherwise before
// goes when the new one is there.
func (a *answer) renderRoot() {
	name := a.rootName()
	if name != "" {
		if want := a.rootSelector(); want != nil && a.ports() != nil {
			a.addService(service{
				Metadata: history.Metadata{
					Name: name, Labels: map[string]string{LabelName: a.name}, Annotations: a.rootDecision(want),
				},
				Spec: serviceSpec{Selector: want, Ports: a.ports()},
			}, a.record != nil && a.record.Stable.Number != 0)
		}
	}
	if a.services[name] != nil || a.wish.Valid && name == "" {
		return
	}
	for _, other := range slices.Sorted(maps.Keys(a.services)) {
		if other == name || !a.isRoot(other) {
			continue
		}
		s := a.services[other]
		a.addService(service{
			Metadata: history.Metadata{
				Name: other, Labels: map[string]string{LabelName: a.name}, Annotations: keptDecision(s.child),
			},
			Spec: s.serviceSpec,
		}, true)
	}
}

// rootSelector is what the root Service selects; nil while it is not to be made.
// An existing Service of its name is taken over at once in server-side mode, so
// that a first install asks for it only once there are pods to serve it.
func (a *answer) rootSelector() map[string]string {
	observed := a.root()
	kept := func() map[string]string {
		if observed == nil || len(observed.Selector) == 0 {
			return nil
		}
		return observed.Selector
	}
	r := a.record
	if r == nil {
		return kept()
	}
	var revision rollout.Revision
	switch a.settings().Router {
	case rollout.RouterNone:
		if observed == nil && a.availablePods() == 0 && r.Stable.Number == 0 {
			return nil
		}
		return map[string]string{LabelName: a.name}
	case rollout.RouterSwitch:
		for _, share := range routeShares(r) {
			if share.Weight == 100 {
				revision = a.revision(share.Revision)
			}
		}
		if revision.Hash != "" && (observed != nil || r.Stable.Number != 0) {
			return selector(a.name, revision.Hash)
		}
	case rollout.RouterWeights, rollout.RouterPair:
		if revision = r.Stable; revision.Number == 0 {
			revision = r.Target
		}
		for _, share := range routeShares(r) {
			if share.Weight == 100 {
				// The stable one may have to give up its last pods before it is replaced.
				revision = a.revision(share.Revision)
			}
		}
	}
	if revision.Hash == "" || a.facts.Available(revision.Number) == 0 && (observed != nil || r.Stable.Number == 0) {
		return kept()
	}
	return selector(a.name, revision.Hash)
}

func routeShares(r *rollout.Record) []rollout.Share {
	if r == nil || r.Route == nil {
		return nil
	}
	return r.Route.Shares
}

func (a *answer) availablePods() int64 {
	var n int64
	for i := range a.facts.Deployments {
		n += a.facts.Available(a.facts.Deployments[i].Revision)
	}
	return n
}

// rootDecision is the decision annotation of the root Service: it changes together
// with the selector.
func (a *answer) rootDecision(want map[string]string) map[string]string {
	observed := a.root()
	if observed != nil && maps.Equal(observed.Selector, want) {
		return keptDecision(observed.child)
	}
	return a.newDecision()
}

// keptDecision is the decision annotation that an object has.
func keptDecision(c *Child) map[string]string {
	text := ""
	if c != nil {
		text = c.Metadata.Annotations[AnnotationDecision]
	}
	if text == "" {
		return nil
	}
	return map[string]string{AnnotationDecision: text}
}

// newDecision is the decision annotation of what changes now.
func (a *answer) newDecision() map[string]string {
	if a.record == nil {
		return nil
	}
	text, err := json.Marshal(decision{Counter: a.record.Counter, Time: a.now, Attempt: a.record.Attempt})
	if err != nil {
		return nil // Integers and a time within the years that RFC 3339 knows.
	}
	return map[string]string{AnnotationDecision: string(text)}
}

// addService adds a Service to the answer. awaited: if it is not there, somebody
// should know.
func (a *answer) addService(s service, awaited bool) {
	s.APIVersion, s.Kind = "v1", "Service"
	a.children = append(a.children, s)
	observed := a.services[s.Metadata.Name]
	if observed == nil && awaited {
		a.missing = append(a.missing, "Service "+s.Metadata.Name)
	}
	a.writes = a.writes || observed == nil ||
		!maps.Equal(observed.Selector, s.Spec.Selector) || !slices.Equal(observed.Ports, s.Spec.Ports)
}

// orNull is a text that can be decoded.
func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
