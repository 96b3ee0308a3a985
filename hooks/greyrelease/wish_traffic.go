package greyrelease

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"greyrelease.example.com/hooks/history"
)

// checkTraffic checks what spec.traffic needs besides itself: kinds that the
// controller was given, a name that is free, lists that the apply mode keeps.
func (o *observation) checkTraffic(d *desire) {
	t := d.spec.Traffic
	if t == nil {
		return
	}
	path := field.NewPath("spec", "traffic")
	o.needKind(d, path, kindService, "services", "apply manifests/40-compositecontroller.yaml of this version again")
	if t.HTTPRoute != nil {
		o.needKind(d, path.Child("httpRoute"), kindHTTPRoute, "httproutes."+gatewayGroup,
			"install the Gateway API and apply the overlay manifests/overlays/gateway-api")
	}
	if t.HTTPRoute != nil && t.HTTPRoute.Cookie != "" && !o.experimental {
		// The standard channel does not know the field: server-side apply is refused
		// for ever, and dynamic apply would write it on every sync.
		d.errs = append(d.errs, field.Forbidden(path.Child("httpRoute", "sticky"), fmt.Sprintf(
			"needs the experimental channel of the Gateway API: install it, say so, and restart Metacontroller: kubectl annotate compositecontroller %s %s=%s",
			o.controller, AnnotationChannel, channelExperimental)))
	}
	if t.Ingress != nil {
		o.needKind(d, path.Child("ingress"), kindIngress, "ingresses.networking.k8s.io", "apply the overlay manifests/overlays/ingress")
	}
	if given := t.ServiceName; given == previewName(o.name) || revisionServicePattern.MatchString(strings.TrimPrefix(given, o.name)) && strings.HasPrefix(given, o.name) {
		d.errs = append(d.errs, field.Invalid(path.Child("serviceName"), given, "is a name that the release gives to another Service: choose one of another form"))
	}
	if o.modeKnown && o.mode == history.Dynamic {
		t.checkMerge(path, &d.errs)
	}
}

var revisionServicePattern = regexp.MustCompile(`^-[0-9a-f]{10}$`)

func (o *observation) needKind(d *desire, path *field.Path, kind, resource, cure string) {
	if !o.given[kind] {
		d.errs = append(d.errs, field.Forbidden(path, fmt.Sprintf("Metacontroller was not told that releases have %s: %s", resource, cure)))
	}
}

// checkMerge refuses lists that dynamic apply would corrupt: it merges the items of
// a list by the first of a few names that all of them have. For ports of a Service
// that is port. For references to gateways it is port if all have one, else name.
func (t *traffic) checkMerge(path *field.Path, errs *field.ErrorList) {
	const cure = "dynamic apply can't keep both, run Metacontroller with --apply-strategy=server-side-apply"
	ports := map[int64]bool{}
	for i, p := range t.Ports {
		if ports[p.Port] {
			*errs = append(*errs, field.Invalid(path.Child("ports").Index(i).Child("port"), p.Port, fmt.Sprintf("two items have port %d; %s", p.Port, cure)))
		}
		ports[p.Port] = true
	}
	if t.HTTPRoute == nil {
		return
	}
	refs := t.HTTPRoute.ParentRefs
	byPort := true
	for _, r := range refs {
		byPort = byPort && r.Port != 0
	}
	seen := map[string]bool{}
	for i, r := range refs {
		key := "name " + r.Name
		if byPort {
			key = fmt.Sprintf("port %d", r.Port)
		}
		if seen[key] {
			*errs = append(*errs, field.Invalid(path.Child("httpRoute", "parentRefs").Index(i), field.OmitValueType{}, "two items have "+key+"; "+cure))
		}
		seen[key] = true
	}
}
