package greyrelease

import (
	"reflect"
	"testing"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
)

func TestDecodeTraffic(t *testing.T) {
	port := servicePort{Port: 80, TargetPort: portName{Number: 80}, Protocol: "TCP"}
	for _, tt := range []struct {
		why, patch string
		want       *traffic
	}{
		{"ports alone", `{"ports":[{"port":80}]}`, &traffic{Ports: []servicePort{port}}},
		{"null is absent", `{"ports":[{"port":80.0,"name":null,"targetPort":null,"protocol":null,"appProtocol":null}],"serviceName":null,"stableScaleDown":null,"httpRoute":null,"ingress":null}`,
			&traffic{Ports: []servicePort{port}}},
		{"ports with everything", `{"serviceName":"shop","ports":[{"name":"http","port":80,"targetPort":"web","appProtocol":"kubernetes.io/h2c"},{"name":"dns","port":53,"targetPort":5353,"protocol":"UDP"},{"name":"dns-tcp","port":53}]}`,
			&traffic{ServiceName: "shop", Ports: []servicePort{
				{Name: "http", Port: 80, TargetPort: portName{Name: "web"}, Protocol: "TCP", AppProtocol: "kubernetes.io/h2c"},
				{Name: "dns", Port: 53, TargetPort: portName{Number: 5353}, Protocol: "UDP"},
				{Name: "dns-tcp", Port: 53, TargetPort: portName{Number: 53}, Protocol: "TCP"},
			}}},
		{"an HTTPRoute with defaults", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}]}}`,
			&traffic{Ports: []servicePort{port}, HTTPRoute: &httpRouteConfig{
				ParentRefs: []parentRef{{Group: gatewayGroup, Kind: "Gateway", Name: "gw"}}, Path: "/",
			}}},
		{"an HTTPRoute with everything", `{"ports":[{"port":80}],"stableScaleDown":"WithBatches","httpRoute":{"parentRefs":[{"name":"gw","namespace":"infra","sectionName":"https","port":443}],"hostnames":["a.example.com","*.b.example.com"],"path":"/shop","headers":{"X-Test":"yes","X-A":"b c"},"sticky":{"cookieName":"v"}}}`,
			&traffic{Ports: []servicePort{port}, WithBatches: true, HTTPRoute: &httpRouteConfig{
				ParentRefs: []parentRef{{Group: gatewayGroup, Kind: "Gateway", Name: "gw", Namespace: "infra", SectionName: "https", Port: 443}},
				Hostnames:  []string{"a.example.com", "*.b.example.com"}, Path: "/shop",
				Headers: []header{{"X-A", "b c"}, {"X-Test", "yes"}}, Cookie: "v",
			}}},
		{"an Ingress with defaults", `{"ports":[{"port":80}],"ingress":{}}`,
			&traffic{Ports: []servicePort{port}, Ingress: &ingressConfig{Path: "/"}}},
		{"an Ingress with everything", `{"ports":[{"port":80}],"ingress":{"className":"nginx","host":"a.example.com","path":"/shop","tls":{"secretName":"cert"},"headers":{"X-Test":"yes"}}}`,
			&traffic{Ports: []servicePort{port}, Ingress: &ingressConfig{ClassName: "nginx", Host: "a.example.com", Path: "/shop", Secret: "cert", Header: &header{"X-Test", "yes"}}}},
	} {
		got, errs := decodeSpec(specWith(t, `"traffic":`+tt.patch))
		if len(errs) > 0 {
			t.Errorf("%s: want no errors, got\n%s", tt.why, texts(errs))
		}
		if !reflect.DeepEqual(tt.want, got.Traffic) {
			t.Errorf("%s: want\n%+v\ngot\n%+v", tt.why, tt.want, got.Traffic)
		}
	}
}

func TestValidateTraffic(t *testing.T) {
	const (
		in       = "spec.traffic"
		ref      = in + ".httpRoute.parentRefs"
		label    = `must be at most 63 lower case letters, digits and "-", beginning and ending with a letter or digit`
		subname  = `must be a name of at most 253 lower case letters, digits, "-" and ".", beginning and ending with a letter or digit`
		target   = `must be a port number from 1 to 65535 or the name of a container's port: at most 15 lower case letters, digits and "-", with a letter among them`
		host     = `must be a DNS name in lower case, as in "shop.example.com" or "*.example.com", without port or address`
		twice    = "the gateway is named before: both must say which sectionName they mean, not the same one, and port either both or none"
		inPath   = `must not contain "//", "/./", "/../" or "%2F"`
		pathForm = `must begin with "/" and be at most 1024 characters of a URL's path, without "?" and "#"`
	)
	for _, tt := range []struct{ why, patch, want string }{
		{"no object", `"traffic":[]`, in + ": Invalid value: must be an object: it needs ports"},
		{"no ports", `"traffic":{}`, in + ".ports: Required value: " + portsCure},
		{"an empty list", `"traffic":{"ports":[]}`, in + ".ports: Required value: " + portsCure},
		{"ports as an object", `"traffic":{"ports":{}}`, in + ".ports: Invalid value: must be a list: " + portsCure},
		{"a port without number", `"traffic":{"ports":[{"name":"http"}]}`, in + ".ports[0].port: Required value: say which port the Services have, as in 80"},
		{"port 0", `"traffic":{"ports":[{"port":0}]}`, in + ".ports[0].port: Invalid value: 0: must be a whole number from 1 to 65535"},
		{"port 65536", `"traffic":{"ports":[{"port":65536}]}`, in + ".ports[0].port: Invalid value: 65536: must be a whole number from 1 to 65535"},
		{"a port as text", `"traffic":{"ports":[{"port":"80"}]}`, in + `.ports[0].port: Invalid value: "80": must be a whole number from 1 to 65535, without quotes`},
		{"two ports, one without a name", `"traffic":{"ports":[{"port":80},{"name":"b","port":81}]}`, in + ".ports[0].name: Required value: there is more than one port: name each, as in http or metrics"},
		{"one name twice", `"traffic":{"ports":[{"name":"a","port":80},{"name":"a","port":81}]}`, in + `.ports[1].name: Duplicate value: "a"`},
		{"one port twice", `"traffic":{"ports":[{"name":"a","port":80},{"name":"b","port":80}]}`, in + `.ports[1].port: Duplicate value: 80`},
		{"a port's name in capitals", `"traffic":{"ports":[{"name":"HTTP","port":80}]}`, in + `.ports[0].name: Invalid value: "HTTP": ` + label},
		{"a target port 0", `"traffic":{"ports":[{"port":80,"targetPort":0}]}`, in + ".ports[0].targetPort: Invalid value: 0: " + target},
		{"a target port of digits in quotes", `"traffic":{"ports":[{"port":80,"targetPort":"8080"}]}`, in + `.ports[0].targetPort: Invalid value: "8080": ` + target},
		{"a target port of 16 letters", `"traffic":{"ports":[{"port":80,"targetPort":"abcdefghijklmnop"}]}`, in + `.ports[0].targetPort: Invalid value: "abcdefghijklmnop": ` + target},
		{"an unknown protocol", `"traffic":{"ports":[{"port":80,"protocol":"tcp"}]}`, in + `.ports[0].protocol: Invalid value: "tcp": must be TCP, which is also the default, UDP or SCTP`},
		{"an application protocol with a blank", `"traffic":{"ports":[{"port":80,"appProtocol":"h 2"}]}`, in + `.ports[0].appProtocol: Invalid value: "h 2": must be the name of a protocol, as in "http" or "kubernetes.io/h2c"`},
		{"a Service's name with a dot", `"traffic":{"serviceName":"a.b","ports":[{"port":80}]}`, in + `.serviceName: Invalid value: "a.b": must be at most 63 lower case letters, digits and "-", beginning with a letter and ending with a letter or digit`},

		{"both routers", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}]},"ingress":{}}`, in + ".ingress: Invalid value: cannot be combined with httpRoute: only one router can split the requests, remove one of the two"},
		{"a route to UDP", `"traffic":{"ports":[{"port":80,"protocol":"UDP"}],"ingress":{}}`, in + `.ports[0].protocol: Invalid value: "UDP": the first port is the one that the route leads to, so its protocol must be TCP`},
		{"UDP without a route", `"traffic":{"ports":[{"port":80,"protocol":"UDP"}]}`, ``},
		{"no gateway", `"traffic":{"ports":[{"port":80}],"httpRoute":{}}`, ref + ": Required value: " + parentRefsCure},
		{"an empty list of gateways", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[]}}`, ref + ": Required value: " + parentRefsCure},
		{"a gateway without a name", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{}]}}`, ref + "[0].name: Required value: name the gateway"},
		{"a gateway's name in capitals", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"GW"}]}}`, ref + `[0].name: Invalid value: "GW": ` + subname},
		{"one gateway twice", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"},{"name":"gw"}]}}`, ref + `[1]: Invalid value: "gw": ` + twice},
		{"one gateway, one listener named and one not", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw","sectionName":"a"},{"name":"gw"}]}}`, ref + `[1]: Invalid value: "gw": ` + twice},
		{"two listeners of one gateway", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw","sectionName":"a"},{"name":"gw","sectionName":"b"}]}}`, ``},
		{"two ports of one gateway", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw","port":80},{"name":"gw","port":443}]}}`, ref + `[1]: Invalid value: "gw": ` + twice},
		{"gateways of one name in two namespaces", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw","namespace":"a"},{"name":"gw","namespace":"b"}]}}`, ``},
		{"a host with a port", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"hostnames":["a.example.com:80"]}}`, in + `.httpRoute.hostnames[0]: Invalid value: "a.example.com:80": ` + host},
		{"an address", `"traffic":{"ports":[{"port":80}],"ingress":{"host":"10.0.0.1"}}`, in + `.ingress.host: Invalid value: "10.0.0.1": ` + host},
		{"a star in the middle", `"traffic":{"ports":[{"port":80}],"ingress":{"host":"a.*.example.com"}}`, in + `.ingress.host: Invalid value: "a.*.example.com": ` + host},
		{"a path without a slash", `"traffic":{"ports":[{"port":80}],"ingress":{"path":"shop"}}`, in + `.ingress.path: Invalid value: "shop": ` + pathForm},
		{"a path with a query", `"traffic":{"ports":[{"port":80}],"ingress":{"path":"/shop?a=b"}}`, in + `.ingress.path: Invalid value: "/shop?a=b": ` + pathForm},
		{"a path with two slashes", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"path":"/a//b"}}`, in + `.httpRoute.path: Invalid value: "/a//b": ` + inPath},
		{"a path with a slash in disguise", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"path":"/a%2fb"}}`, in + `.httpRoute.path: Invalid value: "/a%2fb": ` + inPath},
		{"a path that ends upwards", `"traffic":{"ports":[{"port":80}],"ingress":{"path":"/a/.."}}`, in + `.ingress.path: Invalid value: "/a/..": must not end with "/." or "/.."`},
		{"a header with a blank", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"headers":{"X A":"b"}}}`, in + `.httpRoute.headers[X A]: Invalid value: "X A": the name of a header must be 1 to 256 letters, digits and characters of !#$%&'*+-.^_|~`},
		{"a header without a value", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"headers":{"X-A":""}}}`, in + `.httpRoute.headers[X-A]: Invalid value: "": the value of a header must be 1 to 4096 characters`},
		{"a header's value that YAML made a boolean", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"headers":{"X-A":true}}}`, in + `.httpRoute.headers[X-A]: Invalid value: true: must be a string: quote it, as in "true"`},
		{"headers are the same in any case", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"headers":{"X-A":"b","x-a":"c"}}}`, in + `.httpRoute.headers[x-a]: Duplicate value: "x-a"`},
		{"two headers for ingress-nginx", `"traffic":{"ports":[{"port":80}],"ingress":{"headers":{"a":"b","c":"d"}}}`, in + `.ingress.headers: Too many: 2: must have at most 1 item`},
		{"a value that ingress-nginx drops", `"traffic":{"ports":[{"port":80}],"ingress":{"headers":{"X-A":"b c"}}}`, in + `.ingress.headers[X-A]: Invalid value: "b c": the value of a header must be 1 to 256 letters, digits and characters of -._~:/`},
		{"sticky without a cookie", `"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"sticky":{}}}`, in + ".httpRoute.sticky.cookieName: Required value: name the cookie, as in {cookieName: version}"},
		{"TLS without a Secret", `"traffic":{"ports":[{"port":80}],"ingress":{"tls":{}}}`, in + ".ingress.tls.secretName: Required value: name the Secret of the certificate, as in {secretName: shop-tls}"},

		{"an unknown stableScaleDown", `"traffic":{"ports":[{"port":80}],"stableScaleDown":"Never","ingress":{}}`, in + `.stableScaleDown: Invalid value: "Never": must be OnPromotion, which is also the default, or WithBatches`},
		{"stableScaleDown without a router", `"traffic":{"ports":[{"port":80}],"stableScaleDown":"OnPromotion"}`, in + `.stableScaleDown: Invalid value: "OnPromotion": has an effect only for a Canary with httpRoute or ingress: remove it`},
		{"WithBatches with BlueGreen", `"strategy":"BlueGreen","traffic":{"ports":[{"port":80}],"stableScaleDown":"WithBatches"}`, in + `.stableScaleDown: Invalid value: "WithBatches": has an effect only for a Canary: BlueGreen keeps the old version whole, remove it`},
		{"OnPromotion with BlueGreen", `"strategy":"BlueGreen","traffic":{"ports":[{"port":80}],"stableScaleDown":"OnPromotion"}`, ``},
		{"BlueGreen with two batches", `"strategy":"BlueGreen","batches":[{"replicas":1},{"replicas":2}],"traffic":{"ports":[{"port":80}]}`, `spec.batches: Too many: 2: must have at most 1 item`},
		{"a delay with ports alone", `"scaleDownDelaySeconds":5,"traffic":{"ports":[{"port":80}]}`, `spec.scaleDownDelaySeconds: Invalid value: 5: must be 0 without a router or BlueGreen: the pods of the previous version would still be reached`},
		{"a delay with a router", `"scaleDownDelaySeconds":5,"traffic":{"ports":[{"port":80}],"ingress":{}}`, ``},
		{"one mistake is told once", `"strategy":"BlueGreen","scaleDownDelaySeconds":5,"traffic":{"ports":[{"port":0}]}`, in + ".ports[0].port: Invalid value: 0: must be a whole number from 1 to 65535"},
	} {
		_, errs := decodeSpec(specWith(t, tt.patch))
		if got := texts(errs); tt.want != got {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, tt.want, got)
		}
	}
}

func TestTrafficSettings(t *testing.T) {
	const ports, route, pair = `"ports":[{"port":80}]`, `"httpRoute":{"parentRefs":[{"name":"gw"}]}`, `"ingress":{"headers":{"X-A":"b"}}`
	switchOnly := []rollout.Batch{{Percent: 100, Weight: number(0), SoakSeconds: 7}}
	for _, tt := range []struct {
		why, patch string
		want       rollout.Settings
	}{
		{"no traffic", `"soakSeconds":7`, rollout.Settings{}},
		{"ports alone", `"traffic":{` + ports + `}`, rollout.Settings{}},
		{"a route", `"traffic":{` + ports + `,` + route + `}`, rollout.Settings{Router: rollout.RouterWeights, KeepStable: true, ScaleDownDelaySeconds: 30}},
		{"a route, no delay", `"scaleDownDelaySeconds":0,"traffic":{` + ports + `,` + route + `}`, rollout.Settings{Router: rollout.RouterWeights, KeepStable: true}},
		{"a route, stable with batches", `"traffic":{` + ports + `,"stableScaleDown":"WithBatches",` + route + `}`, rollout.Settings{Router: rollout.RouterWeights, ScaleDownDelaySeconds: 30}},
		{"Ingresses and a header", `"scaleDownDelaySeconds":5,"traffic":{` + ports + `,` + pair + `}`, rollout.Settings{Router: rollout.RouterPair, Headers: true, KeepStable: true, ScaleDownDelaySeconds: 5}},
		{"BlueGreen", `"strategy":"BlueGreen","soakSeconds":7,"batchSize":2,"traffic":{` + ports + `}`, rollout.Settings{Router: rollout.RouterSwitch, KeepStable: true, ScaleDownDelaySeconds: 30, Batches: switchOnly}},
		{"BlueGreen with a route", `"strategy":"BlueGreen","soakSeconds":7,"traffic":{` + ports + `,` + route + `}`, rollout.Settings{Router: rollout.RouterWeights, KeepStable: true, ScaleDownDelaySeconds: 30, Batches: switchOnly}},
		{"BlueGreen with a gate", `"strategy":"BlueGreen","soakSeconds":9,"batches":[{"replicas":1,"weight":50,"soakSeconds":7,"approval":true,"approvalTimeoutSeconds":60}],"traffic":{` + ports + `}`,
			rollout.Settings{Router: rollout.RouterSwitch, KeepStable: true, ScaleDownDelaySeconds: 30, Batches: []rollout.Batch{{Percent: 100, Weight: number(0), SoakSeconds: 7, Approval: true, ApprovalTimeoutSeconds: 60}}}},
	} {
		spec, errs := decodeSpec(specWith(t, tt.patch))
		if len(errs) > 0 {
			t.Errorf("%s: want no errors, got\n%s", tt.why, texts(errs))
		}
		all := spec.settings()
		got := rollout.Settings{Router: all.Router, Headers: all.Headers, KeepStable: all.KeepStable, ScaleDownDelaySeconds: all.ScaleDownDelaySeconds, Batches: all.Batches}
		if !reflect.DeepEqual(tt.want, got) {
			t.Errorf("%s: want\n%+v\ngot\n%+v", tt.why, tt.want, got)
		}
	}
}

// What the spec alone cannot tell: the kinds that the controller was given, names
// that are the release's own, and lists that the apply mode would corrupt.
func TestTrafficOfARelease(t *testing.T) {
	const cure = "dynamic apply can't keep both, run Metacontroller with --apply-strategy=server-side-apply"
	all := map[string]bool{kindService: true, kindHTTPRoute: true, kindIngress: true}
	for _, tt := range []struct {
		why, traffic string
		given        map[string]bool
		mode         history.Mode
		want         string
	}{
		{"nothing wrong", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}]}}`, all, history.Dynamic, ``},
		{"no Services", `{"ports":[{"port":80}]}`, nil, history.Dynamic,
			`spec.traffic: Forbidden: Metacontroller was not told that releases have services: apply manifests/40-compositecontroller.yaml of this version again`},
		{"no HTTPRoutes", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}]}}`, map[string]bool{kindService: true}, history.Dynamic,
			`spec.traffic.httpRoute: Forbidden: Metacontroller was not told that releases have httproutes.gateway.networking.k8s.io: install the Gateway API and apply the overlay manifests/overlays/gateway-api`},
		{"stickiness that nobody has", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"sticky":{"cookieName":"a"}}}`, all, history.ServerSide,
			`spec.traffic.httpRoute.sticky: Forbidden: needs the experimental channel of the Gateway API: install it, say so, and restart Metacontroller: kubectl annotate compositecontroller greyrelease greyrelease.example.com/channel=experimental`},
		{"no Ingresses", `{"ports":[{"port":80}],"ingress":{}}`, map[string]bool{kindService: true}, history.Dynamic,
			`spec.traffic.ingress: Forbidden: Metacontroller was not told that releases have ingresses.networking.k8s.io: apply the overlay manifests/overlays/ingress`},
		{"the preview's name", `{"serviceName":"web-preview","ports":[{"port":80}]}`, all, history.Dynamic,
			`spec.traffic.serviceName: Invalid value: "web-preview": is a name that the release gives to another Service: choose one of another form`},
		{"a revision's name", `{"serviceName":"web-0123456789","ports":[{"port":80}]}`, all, history.Dynamic,
			`spec.traffic.serviceName: Invalid value: "web-0123456789": is a name that the release gives to another Service: choose one of another form`},
		{"the name of another release's revision", `{"serviceName":"shop-0123456789","ports":[{"port":80}]}`, all, history.Dynamic, ``},
		{"one port of two protocols", `{"ports":[{"name":"a","port":53},{"name":"b","port":53,"protocol":"UDP"}]}`, all, history.Dynamic,
			`spec.traffic.ports[1].port: Invalid value: 53: two items have port 53; ` + cure},
		{"one port of two protocols, server-side", `{"ports":[{"name":"a","port":53},{"name":"b","port":53,"protocol":"UDP"}]}`, all, history.ServerSide, ``},
		{"two listeners", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw","sectionName":"a"},{"name":"gw","sectionName":"b"}]}}`, all, history.Dynamic,
			`spec.traffic.httpRoute.parentRefs[1]: Invalid value: two items have name gw; ` + cure},
		{"two gateways with one port", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"a","port":443},{"name":"b","port":443}]}}`, all, history.Dynamic,
			`spec.traffic.httpRoute.parentRefs[1]: Invalid value: two items have port 443; ` + cure},
		{"one gateway with two ports", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"a","sectionName":"x","port":443},{"name":"a","sectionName":"y","port":444}]}}`, all, history.Dynamic, ``},
		{"two listeners, server-side", `{"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw","sectionName":"a"},{"name":"gw","sectionName":"b"}]}}`, all, history.ServerSide, ``},
	} {
		spec, errs := decodeSpec(specWith(t, `"traffic":`+tt.traffic))
		if len(errs) > 0 {
			t.Fatalf("%s: want no errors of the spec, got\n%s", tt.why, texts(errs))
		}
		o := &observation{name: "web", modeKnown: true, mode: tt.mode, routes: routes{given: tt.given, controller: "greyrelease"}}
		d := &desire{spec: spec}
		o.checkTraffic(d)
		if got := texts(d.errs); tt.want != got {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, tt.want, got)
		}
	}
}
