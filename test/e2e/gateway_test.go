package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/e2e/gateway"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// deploy makes a Deployment and a Service of one version by hand.
func (sh *shop) deploy(version string, replicas int32) string {
	sh.Helper()
	name := "web-" + strings.ReplaceAll(version, ".", "-")
	labels := map[string]string{"app": name}
	grace := int64(3)
	_, err := client.AppsV1().Deployments(sh.namespace).Create(sh.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"test/end": "slow"}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers:                    []corev1.Container{{Name: "web", Image: "nginx:" + version}},
				},
			},
		},
	}, metav1.CreateOptions{})
	sh.must(err)
	_, err = client.CoreV1().Services(sh.namespace).Create(sh.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	sh.must(err)
	sh.eventually(name+" available", func() (bool, string) {
		d, err := client.AppsV1().Deployments(sh.namespace).Get(sh.ctx, name, metav1.GetOptions{})
		sh.must(err)
		return d.Status.AvailableReplicas == replicas, fmt.Sprint(d.Status.AvailableReplicas)
	})
	return name
}

// lead makes the route, or changes it, so that a version has a weight and requests
// with the header.
func (sh *shop) lead(old, updated string, weight int64) {
	sh.Helper()
	backend := func(name string, weight int64) object {
		return object{"name": name, "port": int64(80), "weight": weight}
	}
	routes := dyn.Resource(gateway.HTTPRoutes).Namespace(sh.namespace)
	u := &unstructured.Unstructured{Object: object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": object{"name": "web"},
		"spec": object{
			"parentRefs": []any{object{"name": gatewayName}},
			"rules": []any{
				object{
					"matches":     []any{object{"headers": []any{object{"name": "X-Canary", "value": "always"}}}},
					"backendRefs": []any{backend(updated, 100)},
				},
				object{"backendRefs": []any{backend(old, 100-weight), backend(updated, weight)}},
			},
		},
	}}
	_, err := routes.Apply(sh.ctx, "web", u, metav1.ApplyOptions{FieldManager: "tester", Force: true})
	sh.must(err)
}

// accepted waits until the gateway has reported on the latest generation of the
// route, and returns the condition Accepted.
func (sh *shop) accepted() (status, message string) {
	sh.Helper()
	sh.eventually("a report on the route", func() (bool, string) {
		u, err := dyn.Resource(gateway.HTTPRoutes).Namespace(sh.namespace).Get(sh.ctx, "web", metav1.GetOptions{})
		sh.must(err)
		parents, _, err := unstructured.NestedSlice(u.Object, "status", "parents")
		sh.must(err)
		for _, p := range parents {
			c, _ := p.(object)["conditions"].([]any)[0].(object)
			if p.(object)["controllerName"] == gateway.Controller && c["observedGeneration"] == u.GetGeneration() {
				status, _ = c["status"].(string)
				message, _ = c["message"].(string)
				return true, ""
			}
		}
		return false, fmt.Sprint(parents)
	})
	return status, message
}

// TestGateway proves the gateway, the proxy and the servers of the pods themselves,
// with objects made by hand: weights are exact whatever the number of endpoints, pods
// that are replaced lose no request, and one that is taken before its weight does.
func TestGateway(t *testing.T) {
	t.Parallel()
	sh := open(t, gateway.Manners{}, 0)
	old, updated := sh.deploy("1.0", 4), sh.deploy("2.0", 1)
	sh.lead(old, updated, 0)
	if got, _ := sh.accepted(); got != "True" {
		t.Errorf("want the route accepted, got %s", got)
	}
	sh.visit("")
	sh.lead(old, updated, 30)
	sh.measure("30%, one endpoint to four", "2.0", 30)
	sh.kubectl("scale", "deployment/"+old, "--replicas=2")
	sh.kubectl("scale", "deployment/"+updated, "--replicas=3")
	sh.measure("30%, three to two", "2.0", 30)

	sh.edge.Behave(gateway.Manners{Verdict: gateway.Refuse, Why: "not here"})
	sh.lead(old, updated, 90)
	if got, why := sh.accepted(); got != "False" || why != "not here" {
		t.Errorf("want the route refused: not here, got %s: %s", got, why)
	}
	sh.measure("30%, while refused", "2.0", 30)
	sh.edge.Behave(gateway.Manners{Delay: 4 * time.Second})
	sh.lead(old, updated, 100)
	sent := time.Now()
	sh.accepted()
	if took := time.Since(sent); took < 3*time.Second {
		t.Errorf("want the gateway to take 4 s, got %v", took)
	}
	sh.kubectl("scale", "deployment/"+old, "--replicas=0")
	sh.measure("100%", "2.0", 100)
	sh.close("2.0")

	// And the other way round requests are lost: the test could see it.
	sh.kubectl("scale", "deployment/"+updated, "--replicas=0")
	sh.eventually("requests lost", func() (bool, string) { failure := sh.ask("", "").Failure; return failure != "", failure })
}
