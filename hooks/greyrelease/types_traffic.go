package greyrelease

import "k8s.io/apimachinery/pkg/util/intstr"

// Traffic is how requests reach the pods. With ports alone there are Services: one
// for each revision, named <name>-<hash>, and the root Service, which selects all
// pods of the release (with BlueGreen: those of one version). With httpRoute or
// ingress a canary gets a share of the requests; the root Service then selects the
// stable version alone.
//
// +kubebuilder:validation:XValidation:rule="!has(self.httpRoute) || !has(self.ingress)",message="cannot be combined with httpRoute: only one router can split the requests, remove one of the two",fieldPath=.ingress
// +kubebuilder:validation:XValidation:rule="(!has(self.httpRoute) && !has(self.ingress)) || !has(self.ports[0].protocol) || self.ports[0].protocol == 'TCP'",message="the first port is the one that the route leads to, so its protocol must be TCP",fieldPath=.ports
type Traffic struct {
	// Name of the root Service: a lower case DNS label of at most 63 characters that
	// begins with a letter. It cannot be a name that GreyRelease gives itself,
	// <name>-preview or <name>-<hash>. A Service of this name that exists already is
	// taken over under server-side apply and left alone, with a message, under
	// dynamic apply. Default: metadata.name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([a-z0-9-]*[a-z0-9])?$`
	ServiceName string `json:"serviceName,omitempty"`

	// Ports of the Services, 1 to 20. Routes lead to the first one. To change it
	// without a lost request add the new port, then put it first, then remove the
	// old one.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Ports []TrafficPort `json:"ports"`

	// When the stable version gives up its pods to the new one. OnPromotion keeps all
	// of them until no request is led to it any more; while a release runs there are
	// up to twice the pods. WithBatches takes them away batch by batch. Only with
	// httpRoute or ingress; BlueGreen is always OnPromotion. Default: OnPromotion.
	StableScaleDown StableScaleDown `json:"stableScaleDown,omitempty"`

	// Routes of the Gateway API: an HTTPRoute called like the release. It needs the
	// overlay gateway-api. Excludes ingress. Default: none.
	HTTPRoute *TrafficHTTPRoute `json:"httpRoute,omitempty"`

	// Ingresses with the canary annotations of ingress-nginx: one called like the
	// release and, while two versions share the requests, <name>-canary. They need the
	// overlay ingress. Excludes httpRoute. Default: none.
	Ingress *TrafficIngress `json:"ingress,omitempty"`
}

// StableScaleDown is when the stable version gives up its pods.
// +kubebuilder:validation:Enum=OnPromotion;WithBatches
type StableScaleDown string

const (
	// StableOnPromotion keeps the pods of the stable version until requests have left it.
	StableOnPromotion StableScaleDown = "OnPromotion"
	// StableWithBatches takes them away batch by batch.
	StableWithBatches StableScaleDown = "WithBatches"
)

// TrafficPort is one port of the Services.
type TrafficPort struct {
	// Name of the port: at most 63 lower case letters, digits and "-". Required when
	// there is more than one port. Default: none.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// Port of the Services, 1 to 65535.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// Port of the pods: a number from 1 to 65535, or the name of a container's port,
	// at most 15 lower case letters, digits and "-". Default: port.
	// +kubebuilder:validation:XIntOrString
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// TCP, UDP or SCTP. Two ports of one number must differ in it, and need
	// server-side apply. Default: TCP.
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol string `json:"protocol,omitempty"`

	// Protocol that runs over the port, for proxies, as in "kubernetes.io/h2c".
	// Default: none.
	// +kubebuilder:validation:MaxLength=316
	AppProtocol string `json:"appProtocol,omitempty"`
}

// TrafficHTTPRoute is what the HTTPRoute matches and where it hangs.
type TrafficHTTPRoute struct {
	// Gateways that serve the route, 1 to 32. A release waits for at least one of
	// them to accept each change, at most 30 seconds; if all refuse it, the release
	// has failed.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	ParentRefs []TrafficParentRef `json:"parentRefs"`

	// Hosts to serve, at most 16: DNS names, "*." in front for all below one.
	// Default: all hosts of the gateway.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Hostnames []string `json:"hostnames,omitempty"`

	// Beginning of the paths to serve, at most 1024 characters, with "/" in front.
	// Default: "/".
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`

	// Headers and their exact values, at most 16. Requests that carry all of them
	// reach the new version for as long as it goes out, whatever the weight. Default:
	// none.
	// +kubebuilder:validation:MaxProperties=16
	Headers map[string]string `json:"headers,omitempty"`

	// Keeps each client on the version that it was sent to first. It needs a
	// gateway that supports it and the experimental channel of the Gateway API, which
	// the CompositeController's annotation greyrelease.example.com/channel
	// must say is installed: "experimental". Default: none, each request is sent by the
	// weights.
	Sticky *TrafficSticky `json:"sticky,omitempty"`
}

// TrafficParentRef names a gateway, or one listener of it. Two that name the same
// gateway must differ in sectionName, and need server-side apply.
type TrafficParentRef struct {
	// Name of the gateway, at most 253 characters.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Namespace of the gateway. Default: that of the release.
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// Name of a listener of the gateway. Default: all listeners.
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`

	// Port of the listeners, 1 to 65535. Default: all ports.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}

// TrafficSticky is how a gateway recognises a client.
type TrafficSticky struct {
	// Name of the cookie, 1 to 128 letters, digits, "-", "_" and ".".
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	CookieName string `json:"cookieName"`
}

// TrafficIngress is what the Ingresses match and who serves them.
type TrafficIngress struct {
	// Name of the IngressClass: it must be one of ingress-nginx, because others do not
	// know its canary annotations. Default: the default class of the cluster.
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`

	// Host to serve: a DNS name, "*." in front for all below one. Default: all hosts.
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// Beginning of the paths to serve, at most 1024 characters, with "/" in front.
	// Default: "/".
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`

	// Certificate of the host. Default: none, plain HTTP.
	TLS *TrafficTLS `json:"tls,omitempty"`

	// One header and its exact value. Requests that carry it reach the new version for
	// as long as it goes out, whatever the weight. Default: none.
	// +kubebuilder:validation:MaxProperties=1
	Headers map[string]string `json:"headers,omitempty"`
}

// TrafficTLS is where a certificate is.
type TrafficTLS struct {
	// Name of the Secret that holds the certificate, in the namespace of the release.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}
