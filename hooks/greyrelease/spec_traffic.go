package greyrelease

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// traffic is spec.traffic with its defaults applied.
type traffic struct {
	ServiceName string // "": metadata.name
	Ports       []servicePort
	WithBatches bool // stable gives up its pods batch by batch
	HTTPRoute   *httpRouteConfig
	Ingress     *ingressConfig
}

// httpRouteConfig is what an HTTPRoute has besides its backends.
type httpRouteConfig struct {
	ParentRefs []parentRef
	Hostnames  []string
	Path       string
	Headers    []header
	Cookie     string // "": not sticky
}

// ingressConfig is what the Ingresses have besides their backends.
type ingressConfig struct {
	ClassName string
	Host      string
	Path      string
	Secret    string // "": no TLS
	Header    *header
}

// header is a header with the value that sends a request to the new version.
type header struct{ Name, Value string }

// routed tells whether something splits requests by weight.
func (t *traffic) routed() bool { return t != nil && (t.HTTPRoute != nil || t.Ingress != nil) }

// pinned tells whether requests with certain headers go to the new version.
func (t *traffic) pinned() bool {
	return t != nil && (t.HTTPRoute != nil && len(t.HTTPRoute.Headers) > 0 || t.Ingress != nil && t.Ingress.Header != nil)
}

const (
	maxPorts       = 20
	maxParentRefs  = 32
	maxHostnames   = 16
	maxHeaders     = 16
	maxPort        = 65535
	defaultPath    = "/"
	portsCure      = "name at least one port of the pods, as in [{port: 80, targetPort: 8080}]"
	parentRefsCure = "name the gateway that serves the route, as in [{name: main, namespace: gateways}]"
)

// traffic reads spec.traffic. It is nil if there is none or a part of it is wrong.
func (o object) traffic(name string) *traffic {
	if absent(o.raw(name)) {
		return nil
	}
	before := len(*o.errs)
	in, ok := newObject(o.path.Child(name), o.raw(name), "it needs ports", o.errs)
	if !ok {
		return nil
	}
	t := &traffic{}
	in.text("serviceName", &t.ServiceName, checkServiceName)
	if in.required("ports", portsCure) {
		t.Ports = in.ports("ports")
	}
	scaleDown := ""
	in.text("stableScaleDown", &scaleDown, checkStableScaleDown)
	t.WithBatches = scaleDown == string(StableWithBatches)
	t.HTTPRoute = in.httpRoute("httpRoute")
	t.Ingress = in.ingress("ingress")
	if t.HTTPRoute != nil && t.Ingress != nil {
		in.invalid("ingress", "cannot be combined with httpRoute: only one router can split the requests, remove one of the two")
	}
	if t.routed() && len(t.Ports) > 0 && t.Ports[0].Protocol != protocolTCP {
		*o.errs = append(*o.errs, field.Invalid(in.path.Child("ports").Index(0).Child("protocol"), t.Ports[0].Protocol,
			"the first port is the one that the route leads to, so its protocol must be TCP"))
	}
	if len(*o.errs) > before {
		return nil
	}
	return t
}

// items reads a list of 0 to most items.
func (o object) items(name string, most int, cure string) []json.RawMessage {
	raw := o.raw(name)
	var items []json.RawMessage
	switch {
	case absent(raw):
	case json.Unmarshal(raw, &items) != nil:
		o.invalid(name, "must be a list: "+cure)
	case len(items) > most:
		*o.errs = append(*o.errs, field.TooMany(o.path.Child(name), len(items), most))
		return nil
	}
	return items
}

// needed is items of a list that needs one at least.
func (o object) needed(name string, most int, cure string) []json.RawMessage {
	before := len(*o.errs)
	items := o.items(name, most, cure)
	if len(items) == 0 && len(*o.errs) == before {
		*o.errs = append(*o.errs, field.Required(o.path.Child(name), cure))
	}
	return items
}

func (o object) ports(name string) []servicePort {
	path := o.path.Child(name)
	items := o.needed(name, maxPorts, portsCure)
	ports := make([]servicePort, 0, len(items))
	for i, item := range items {
		ports = append(ports, decodePort(path.Index(i), item, len(items) > 1, o.errs))
	}
	names, numbers := map[string]bool{}, map[string]bool{}
	for i, p := range ports {
		if p.Name != "" && names[p.Name] {
			*o.errs = append(*o.errs, field.Duplicate(path.Index(i).Child("name"), p.Name))
		}
		number := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.Port > 0 && numbers[number] {
			*o.errs = append(*o.errs, field.Duplicate(path.Index(i).Child("port"), p.Port))
		}
		names[p.Name], numbers[number] = true, true
	}
	return ports
}

func decodePort(path *field.Path, raw json.RawMessage, named bool, errs *field.ErrorList) servicePort {
	p := servicePort{Protocol: protocolTCP}
	o, ok := newObject(path, raw, "say which port it is, as in {port: 80}", errs)
	if !ok {
		return p
	}
	if !named || o.required("name", "there is more than one port: name each, as in http or metrics") {
		o.text("name", &p.Name, checkPortName)
	}
	if o.required("port", "say which port the Services have, as in 80") {
		o.integer("port", 1, maxPort, &p.Port)
	}
	p.TargetPort = o.targetPort("targetPort", p.Port)
	o.text("protocol", &p.Protocol, checkProtocol)
	o.text("appProtocol", &p.AppProtocol, checkAppProtocol)
	return p
}

// targetPort is the port of the pods, as JSON: 8080 or "http".
func (o object) targetPort(name string, port int64) portName {
	raw := o.raw(name)
	if absent(raw) {
		return portName{Number: port}
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if checkTargetPort(text) == "" {
			return portName{Name: text}
		}
	} else if n, ok := wholeNumber(raw); ok && n >= 1 && n <= maxPort {
		return portName{Number: n}
	}
	o.invalid(name, checkTargetPort(""))
	return portName{}
}

func (o object) httpRoute(name string) *httpRouteConfig {
	if absent(o.raw(name)) {
		return nil
	}
	in, ok := newObject(o.path.Child(name), o.raw(name), "it needs parentRefs", o.errs)
	if !ok {
		return nil
	}
	c := &httpRouteConfig{Path: defaultPath}
	if in.required("parentRefs", parentRefsCure) {
		c.ParentRefs = in.parentRefs("parentRefs")
	}
	for i, item := range in.items("hostnames", maxHostnames, `as in ["shop.example.com"]`) {
		at := in.path.Child("hostnames").Index(i)
		var host string
		if json.Unmarshal(item, &host) != nil {
			*o.errs = append(*o.errs, field.Invalid(at, shown(item), stringWanted(item)))
			continue
		}
		if wrong := checkHost(host); wrong != "" {
			*o.errs = append(*o.errs, field.Invalid(at, cut(host), wrong))
		}
		c.Hostnames = append(c.Hostnames, host)
	}
	in.text("path", &c.Path, checkPath)
	c.Headers = in.headers("headers", maxHeaders, checkHeaderName, checkHeaderValue)
	if !absent(in.raw("sticky")) {
		const cure = "name the cookie, as in {cookieName: version}"
		if sticky, ok := newObject(in.path.Child("sticky"), in.raw("sticky"), cure, o.errs); ok && sticky.required("cookieName", cure) {
			sticky.text("cookieName", &c.Cookie, checkCookieName)
		}
	}
	return c
}

func (o object) parentRefs(name string) []parentRef {
	path := o.path.Child(name)
	items := o.needed(name, maxParentRefs, parentRefsCure)
	refs := make([]parentRef, 0, len(items))
	for i, item := range items {
		r := parentRef{Group: gatewayGroup, Kind: kindGateway}
		in, ok := newObject(path.Index(i), item, parentRefsCure, o.errs)
		if ok {
			if in.required("name", "name the gateway") {
				in.text("name", &r.Name, checkSubdomain)
			}
			in.text("namespace", &r.Namespace, checkNamespace)
			in.text("sectionName", &r.SectionName, checkSubdomain)
			in.integer("port", 1, maxPort, &r.Port)
		}
		refs = append(refs, r)
	}
	// The rules of the HTTPRoute's own schema, in both of its channels.
	for i, r := range refs {
		for _, before := range refs[:i] {
			same := r.Name != "" && r.Name == before.Name && r.Namespace == before.Namespace
			apart := r.SectionName != "" && before.SectionName != "" && r.SectionName != before.SectionName && (r.Port == 0) == (before.Port == 0)
			if same && !apart {
				*o.errs = append(*o.errs, field.Invalid(path.Index(i), r.Name,
					"the gateway is named before: both must say which sectionName they mean, not the same one, and port either both or none"))
				break
			}
		}
	}
	return refs
}

func (o object) ingress(name string) *ingressConfig {
	if absent(o.raw(name)) {
		return nil
	}
	in, ok := newObject(o.path.Child(name), o.raw(name), "as in {className: nginx, host: shop.example.com}", o.errs)
	if !ok {
		return nil
	}
	c := &ingressConfig{Path: defaultPath}
	in.text("className", &c.ClassName, checkSubdomain)
	in.text("host", &c.Host, checkHost)
	in.text("path", &c.Path, checkPath)
	if !absent(in.raw("tls")) {
		const cure = "name the Secret of the certificate, as in {secretName: shop-tls}"
		if tls, ok := newObject(in.path.Child("tls"), in.raw("tls"), cure, o.errs); ok && tls.required("secretName", cure) {
			tls.text("secretName", &c.Secret, checkSubdomain)
		}
	}
	if headers := in.headers("headers", 1, checkNginx, checkNginx); len(headers) > 0 {
		c.Header = &headers[0]
	}
	return c
}

// headers reads a map of headers, sorted by name.
func (o object) headers(name string, most int, checkName, checkValue func(string) string) []header {
	raw := o.raw(name)
	if absent(raw) {
		return nil
	}
	path := o.path.Child(name)
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		o.invalid(name, "must be an object of headers and their values, as in {X-Canary: always}")
		return nil
	}
	if len(values) > most {
		*o.errs = append(*o.errs, field.TooMany(path, len(values), most))
		return nil
	}
	var headers []header
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := path.Key(cut(key))
		var value string
		if wrong := checkName(key); wrong != "" {
			*o.errs = append(*o.errs, field.Invalid(at, cut(key), "the name of a header "+wrong))
		}
		if seen[strings.ToLower(key)] {
			*o.errs = append(*o.errs, field.Duplicate(at, cut(key)))
		}
		seen[strings.ToLower(key)] = true
		if json.Unmarshal(values[key], &value) != nil {
			*o.errs = append(*o.errs, field.Invalid(at, shown(values[key]), stringWanted(values[key])))
			continue
		}
		if wrong := checkValue(value); wrong != "" {
			*o.errs = append(*o.errs, field.Invalid(at, cut(value), "the value of a header "+wrong))
		}
		headers = append(headers, header{Name: key, Value: value})
	}
	return headers
}

// checkTraffic checks what traffic, strategy, batches and scaleDownDelaySeconds
// need of each other, and sets the default of the last one.
func (s *Spec) checkTraffic(o object, delay *int64) {
	path, blueGreen := o.path, s.BlueGreen
	hasTraffic := !absent(o.raw("traffic"))
	// What of spec.traffic was asked for, also when it is wrong elsewhere.
	routed := hasTraffic && (s.Traffic == nil || s.Traffic.routed())
	if blueGreen && !hasTraffic {
		o.invalid("strategy", "BlueGreen switches a Service from one version to the other: set traffic.ports")
	}
	if blueGreen && len(s.Batches) > 1 {
		*o.errs = append(*o.errs, field.TooMany(path.Child("batches"), len(s.Batches), 1))
	}
	switch {
	case delay == nil && (blueGreen || s.Traffic.routed()):
		s.ScaleDownDelaySeconds = defaultScaleDownDelay
	case delay == nil:
	case *delay > 0 && !blueGreen && !routed:
		o.invalid("scaleDownDelaySeconds", "must be 0 without a router or BlueGreen: the pods of the previous version would still be reached")
	default:
		s.ScaleDownDelaySeconds = *delay
	}
	if s.Traffic == nil {
		return
	}
	in, _ := newObject(path.Child("traffic"), o.raw("traffic"), "", o.errs)
	if absent(in.raw("stableScaleDown")) {
		return
	}
	switch {
	case blueGreen && s.Traffic.WithBatches:
		in.invalid("stableScaleDown", "has an effect only for a Canary: BlueGreen keeps the old version whole, remove it")
	case !blueGreen && !routed:
		in.invalid("stableScaleDown", "has an effect only for a Canary with httpRoute or ingress: remove it")
	}
}

// defaultScaleDownDelay is how long the previous version is kept by default where
// requests are led: long enough for a proxy that is slow to follow.
const defaultScaleDownDelay = 30
