package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"
	"greyrelease.example.com/test/e2e/gateway"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rootName is the root Service of these stories: web is the one that the guard
// watches.
const rootName = "shop"

// graceful is a template whose pods take their grace period of ten seconds: a machine
// that stands still for some must not look like a proxy that was not told.
func graceful() object {
	template := object{
		"metadata": object{"annotations": object{"test/end": "slow"}},
		"spec":     spec(0, "", nil)["template"].(object)["spec"],
	}
	template["spec"].(object)["terminationGracePeriodSeconds"] = int64(10)
	return template
}

// routed is spec.traffic with an HTTPRoute and more fields.
func routed(more object) object {
	traffic := object{
		"serviceName": rootName, "ports": []any{object{"port": int64(80)}},
		"httpRoute": object{
			"parentRefs": []any{object{"name": gatewayName}},
			"headers":    object{"X-Canary": "always"},
		},
	}
	maps.Copy(traffic, more)
	return traffic
}

// approved are batches of these sizes, each of which waits for an approval.
func approved(replicas ...any) []any {
	batches := make([]any, 0, len(replicas))
	for _, n := range replicas {
		batches = append(batches, object{"replicas": n, "approval": true})
	}
	return batches
}

// release lets version 1.0 of 4 replicas go out, and has requests come to a
// Service, "" for the routes. At no time are there fewer than 4 pods. No version is
// kept for a while, which would hide that it went before its requests did.
func (sh *shop) release(service string, more object) {
	sh.Helper()
	sp := spec(4, "1.0", object{"template": graceful(), "scaleDownDelaySeconds": int64(0)})
	maps.Copy(sp, more)
	sh.create(sp)
	sh.settled("1.0")
	sh.pods(map[string]int{"1.0": 4})
	sh.guard.keep(4)
	sh.visit(service)
}

// most is what a pod can answer: twice its share of the requests of 4. More of them
// sent to fewer pods are lost.
const most = 2 * rate / 4

// TestWeights sends constant load through a whole release and a rollback, with the
// old version kept whole. The gateway is two seconds late with each change.
func TestWeights(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{Delay: 2 * time.Second}, most)
	sh.release("", object{"traffic": routed(nil), "batches": []any{
		object{"replicas": int64(1), "weight": int64(5), "approval": true},
		object{"replicas": "50%", "approval": true},
	}})
	sh.measure("1.0 alone", "1.0", 100)
	sh.patch(object{"targetVersion": "2.0"})
	sh.measure("batch 1: 1 pod, weight 5", "2.0", 5)
	sh.stays(map[string]int{"1.0": 4, "2.0": 1})
	sh.command("promote")
	sh.measure("batch 2: 50%", "2.0", 50)
	sh.command("promote")
	sh.settled("2.0")
	sh.measure("promoted", "2.0", 100)
	sh.pods(map[string]int{"2.0": 4})
	if got := sh.selects(rootName); got != "2.0" {
		t.Errorf("want the root Service to select 2.0, got %s", got)
	}

	// A version that fails in its second batch, and the way back.
	sh.patch(object{"targetVersion": "3.0"})
	sh.measure("3.0, batch 1", "3.0", 5)
	sh.refusePods("3.0")
	sh.patch(object{"progressDeadlineSeconds": int64(10)})
	sh.command("promote")
	sh.phase(greyrelease.PhaseRolledBack)
	sh.measure("rolled back", "2.0", 100)
	sh.pods(map[string]int{"2.0": 4})
	sh.close("2.0", "3.0")
	sh.made(map[string]int{"1.0": 4, "2.0": 4, "3.0": 1})
	sh.idle()
}

// TestWeightsWithBatches has the old version give way with the batches, so that
// neither has room for more than its share.
func TestWeightsWithBatches(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{Delay: time.Second}, most)
	sh.release("", object{"traffic": routed(object{"stableScaleDown": "WithBatches"}), "batches": approved("25%", "75%")})
	sh.guard.limit(4 + surge(4))
	sh.patch(object{"targetVersion": "2.0"})
	sh.measure("batch 1: 25%", "2.0", 25)
	sh.pods(map[string]int{"1.0": 3, "2.0": 1})
	sh.command("promote")
	sh.measure("batch 2: 75%", "2.0", 75)
	sh.pods(map[string]int{"1.0": 1, "2.0": 3})
	// Back, with one pod of the old version left: it gets no more than it can serve.
	sh.command("abort")
	sh.phase(greyrelease.PhaseRolledBack)
	sh.measure("aborted", "1.0", 100)
	sh.pods(map[string]int{"1.0": 4})
	sh.command("retry")
	sh.measure("batch 1 again", "2.0", 25)
	sh.command("promote")
	sh.measure("batch 2 again", "2.0", 75)
	sh.command("promote")
	sh.settled("2.0")
	sh.measure("promoted", "2.0", 100)
	sh.pods(map[string]int{"2.0": 4})
	sh.close("2.0")
	sh.idle()
}

// TestThirdVersionUnderLoad has a third version come while the second has half.
func TestThirdVersionUnderLoad(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{Delay: time.Second}, most)
	sh.release("", object{"traffic": routed(nil), "batches": approved("50%")})
	sh.patch(object{"targetVersion": "2.0"})
	sh.measure("2.0 at 50%", "2.0", 50)
	sh.patch(object{"targetVersion": "3.0"})
	sh.measure("3.0 at 50%", "3.0", 50)
	sh.pods(map[string]int{"1.0": 4, "3.0": 2})
	sh.command("promote")
	sh.settled("3.0")
	sh.measure("promoted", "3.0", 100)
	sh.pods(map[string]int{"3.0": 4})
	sh.close("2.0", "3.0")
}

// TestBlueGreen switches the root Service, and back while the old version is kept.
// The preview leads to the new version before.
func TestBlueGreen(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{}, most, rootName, "web-preview")
	sh.release(rootName, object{
		"strategy": "BlueGreen", "scaleDownDelaySeconds": int64(60), "batches": approved("100%"),
		"traffic": object{"serviceName": rootName, "ports": []any{object{"port": int64(80)}}},
	})
	sh.settle("1.0", "1.0", 100)
	sh.preview()
	sh.settle("2.0 in preview", "2.0", 0)
	sh.command("promote")
	sh.eventually("2.0 at the root", func() (bool, string) {
		r := sh.ask(rootName, "")
		return r.Version == "2.0", r.Version + r.Failure
	})
	sh.settle("switched", "2.0", 100)
	sh.stays(map[string]int{"1.0": 4, "2.0": 4})
	back := time.Now()
	sh.patch(object{"targetVersion": "1.0"})
	sh.eventually("1.0 at the root", func() (bool, string) {
		r := sh.ask(rootName, "")
		return r.Version == "1.0", r.Version + r.Failure
	})
	sh.Logf("switched back in %v", time.Since(back).Round(100*time.Millisecond))
	sh.settle("switched back", "1.0", 100)
	sh.settled("1.0")
	sh.close()
	sh.made(map[string]int{"1.0": 4, "2.0": 4})
}

// preview brings 2.0 to where it waits for approval, whole and at the preview Service.
func (sh *shop) preview() {
	sh.Helper()
	sh.patch(object{"targetVersion": "2.0"})
	sh.phase(greyrelease.PhasePaused)
	sh.pods(map[string]int{"1.0": 4, "2.0": 4})
	sh.eventually("2.0 at the preview", func() (bool, string) {
		r := sh.ask("web-preview", "")
		return r.Version == "2.0", r.Version + r.Failure
	})
}

// TestBlueGreenByRoute switches an HTTPRoute instead of a Service: all requests at
// once, the header before, and back while the old version is kept.
func TestBlueGreenByRoute(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{}, most, "web-preview")
	sh.release("", object{
		"strategy": "BlueGreen", "scaleDownDelaySeconds": int64(60), "batches": approved("100%"), "traffic": routed(nil),
	})
	sh.measure("1.0", "1.0", 100)
	sh.preview()
	sh.measure("2.0 in preview", "1.0", 100)
	sh.command("promote")
	sh.measure("switched", "2.0", 100)
	sh.stays(map[string]int{"1.0": 4, "2.0": 4})
	sh.patch(object{"targetVersion": "1.0"})
	sh.measure("switched back", "1.0", 100)
	sh.settled("1.0")
	sh.close()
	sh.made(map[string]int{"1.0": 4, "2.0": 4})
}

// TestGatewayRefuses has the gateway refuse the route of a new version: the release
// has failed, by the gateway's reason, and nobody notices.
func TestGatewayRefuses(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{}, most)
	sh.release("", object{"traffic": routed(nil), "batches": approved("50%")})
	sh.edge.Behave(gateway.Manners{Verdict: gateway.Refuse, Why: "too many routes"})
	sh.patch(object{"targetVersion": "2.0"})
	sh.says("too many routes")
	// The way back is refused as well, and does not wait for ever.
	sh.phase(greyrelease.PhaseRolledBack)
	sh.edge.Behave(gateway.Manners{})
	sh.measure("rolled back", "1.0", 100)
	sh.pods(map[string]int{"1.0": 4})
	sh.close()
}

// TestGatewayIsSilent has a gateway that serves the route and reports nothing, or
// nothing that is about it. After 30 seconds the route counts as accepted.
func TestGatewayIsSilent(t *testing.T) {
	t.Parallel()
	for _, verdict := range []gateway.Verdict{gateway.Never, gateway.Stale, gateway.Foreign} {
		t.Run(string(verdict), func(t *testing.T) {
			t.Parallel()
			sh := open(t, gateway.Manners{Verdict: verdict}, most)
			sh.release("", object{"traffic": routed(nil), "batches": approved("50%")})
			sh.patch(object{"targetVersion": "2.0"})
			sh.says("no gateway has reported on HTTPRoute web within 30 s")
			sh.command("promote")
			sh.settled("2.0")
			sh.pods(map[string]int{"2.0": 4})
			sh.close()
		})
	}
}

// TestSlowGateway is later than the 30 seconds are long. Nothing is lost, because
// nothing of the old version goes before scaleDownDelaySeconds are over, which is
// what they are for.
func TestSlowGateway(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{Delay: 35 * time.Second}, most)
	sh.release("", object{"traffic": routed(nil), "scaleDownDelaySeconds": int64(30), "batches": []any{object{"replicas": "50%"}}})
	sh.patch(object{"targetVersion": "2.0"})
	sh.phase(greyrelease.PhaseHealthy)
	sh.measure("promoted", "2.0", 100)
	sh.settled("2.0")
	sh.pods(map[string]int{"2.0": 4})
	sh.close()
}

// backends reads where the Ingresses lead: the version of the main one, that of the
// canary and its weight; "" while there is none.
func (sh *shop) backends() (main, canary, weight string) {
	sh.Helper()
	list, err := client.NetworkingV1().Ingresses(sh.namespace).List(sh.ctx, metav1.ListOptions{})
	sh.must(err)
	for _, in := range list.Items {
		version := sh.version(in.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name)
		switch in.Name {
		case "web":
			main = version
		case "web-canary":
			canary, weight = version, in.Annotations["nginx.ingress.kubernetes.io/canary-weight"]
			if in.Annotations["nginx.ingress.kubernetes.io/canary"] != "true" {
				sh.Errorf("want the annotation canary, got %v", in.Annotations)
			}
			if header := in.Annotations["nginx.ingress.kubernetes.io/canary-by-header"]; header != "X-Canary" {
				sh.Errorf("want the annotation canary-by-header X-Canary, got %q", header)
			}
			if value := in.Annotations["nginx.ingress.kubernetes.io/canary-by-header-value"]; value != "always" {
				sh.Errorf("want the annotation canary-by-header-value always, got %q", value)
			}
		default:
			sh.Errorf("want web and web-canary, got Ingress %s", in.Name)
		}
	}
	return main, canary, weight
}

// leads waits until the Ingresses lead somewhere, as in "1.0, 2.0 at 50".
func (sh *shop) leads(want string) {
	sh.Helper()
	sh.until("the Ingresses to lead to "+want, func() (bool, string) {
		got, canary, weight := sh.backends()
		if canary != "" {
			got += ", " + canary + " at " + weight
		}
		return got == want, got
	})
}

// TestIngress checks the annotations that ingress-nginx takes by their values, and
// the order in which the two Ingresses change. The controller itself comes only as a
// container image, so what it makes of them is not tried here.
func TestIngress(t *testing.T) {
	t.Parallel()
	sh := &shop{story: begin(t, "web")}
	changes := sh.follow()
	sh.create(spec(4, "1.0", object{
		"scaleDownDelaySeconds": int64(3), "batches": approved("25%", "50%"),
		"traffic": object{
			"serviceName": rootName, "ports": []any{object{"port": int64(80)}},
			"ingress": object{"className": "nginx", "host": "shop.example.com", "headers": object{"X-Canary": "always"}},
		},
	}))
	sh.settled("1.0")
	sh.guard.keep(4)
	sh.leads("1.0")
	sh.patch(object{"targetVersion": "2.0"})
	sh.leads("1.0, 2.0 at 25")
	sh.command("promote")
	sh.leads("1.0, 2.0 at 50")
	sh.command("promote")
	sh.settled("2.0")
	sh.leads("2.0")
	sh.pods(map[string]int{"2.0": 4})
	changes.before(sh, "web leads to 2.0", "web-canary is gone", "1.0 is asked for 0")

	sh.patch(object{"targetVersion": "3.0"})
	sh.leads("2.0, 3.0 at 25")
	sh.command("abort")
	sh.phase(greyrelease.PhaseRolledBack)
	sh.leads("2.0")
	sh.pods(map[string]int{"2.0": 4})
	changes.before(sh, "web-canary is gone", "3.0 is asked for 0")
	sh.idle()
}

// TestMissingOverlay has a release ask for a kind that the controller was not given:
// it is Invalid, names the overlay, and goes on when that is there. It disturbs
// everybody, so it runs before the others.
func TestMissingOverlay(t *testing.T) {
	for missing, other := range map[string]string{"gateway-api": "ingress", "ingress": "gateway-api"} {
		t.Run(missing, func(t *testing.T) {
			s := begin(t, "web")
			install := func(overlay string) {
				plane.Overlay = overlay
				s.must(plane.Install(s.ctx))
			}
			install(other)
			defer install(everyRouter)
			s.create(spec(2, "1.0", nil))
			s.settled("1.0")
			traffic := routed(nil)
			if missing == "ingress" {
				delete(traffic, "httpRoute")
				traffic["ingress"] = object{"host": "shop.example.com"}
			}
			s.patch(object{"traffic": traffic})
			s.phase(greyrelease.PhaseInvalid)
			s.says("manifests/overlays/" + missing)
			s.stays(map[string]int{"1.0": 2})
			install(everyRouter)
			s.settled("1.0")
			s.until("the root Service", func() (bool, string) {
				_, err := client.CoreV1().Services(s.namespace).Get(s.ctx, rootName, metav1.GetOptions{})
				return err == nil, fmt.Sprint(err)
			})
			s.made(map[string]int{"1.0": 2})
		})
	}
}

// route is the HTTPRoute as the API server has it.
func (sh *shop) route() *unstructured.Unstructured {
	sh.Helper()
	u, err := dyn.Resource(gateway.HTTPRoutes).Namespace(sh.namespace).Get(sh.ctx, "web", metav1.GetOptions{})
	sh.must(err)
	return u
}

// TestSticky pins clients by a cookie, which takes the experimental channel of the
// Gateway API; without word of that the spec is refused. It changes a CRD for
// everybody, so it runs before the others.
func TestSticky(t *testing.T) {
	sticky := routed(nil)
	sticky["httpRoute"].(object)["sticky"] = object{"cookieName": "shop"}
	sh := open(t, gateway.Manners{}, most)
	sh.must(plane.InstallGatewayAPI(sh.ctx, cluster.ExperimentalChannel))
	defer func() { sh.must(plane.InstallGatewayAPI(sh.ctx, cluster.StandardChannel)) }()
	const channel = "greyrelease.example.com/channel"
	_, err := plane.Kubectl(sh.ctx, "annotate", "compositecontroller", "greyrelease", channel+"=experimental")
	sh.must(err)
	plane.End("metacontroller", false)
	sh.must(plane.StartMetacontroller(sh.ctx))
	defer func() {
		_, err := plane.Kubectl(sh.ctx, "annotate", "compositecontroller", "greyrelease", channel+"-")
		sh.must(err)
	}()
	sh.release("", object{"traffic": sticky, "batches": approved("50%")})
	sh.idle()
	sh.patch(object{"targetVersion": "2.0"})
	sh.measure("batch 1", "2.0", 50)
	pinned := map[string]int{}
	for range 20 {
		first := sh.ask("", "")
		cookie, _, _ := strings.Cut(first.Set, ";")
		if cookie == "" {
			t.Fatalf("want a cookie, got none; the route is %v", sh.route().Object["spec"])
		}
		for range 20 {
			if again := sh.ask("", cookie); again.Version != first.Version {
				t.Errorf("want a client of %s to stay there, got %s", first.Version, again.Version)
			}
		}
		pinned[first.Version]++
	}
	if len(pinned) != 2 {
		t.Errorf("want clients pinned to both versions, got %v", pinned)
	}
	sh.command("promote")
	sh.settled("2.0")
	sh.pods(map[string]int{"2.0": 4})
	sh.idle()
	sh.close("2.0")
}
