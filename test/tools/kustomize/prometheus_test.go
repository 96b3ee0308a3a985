package kustomize

import (
	"reflect"
	"slices"
	"testing"
)

// With the component the service is told of a Prometheus and may reach it, by name;
// it works beside those that secure the hooks.
func TestPrometheusComponent(t *testing.T) {
	base := build(t, manifests)
	for _, components := range [][]string{{"prometheus"}, {"tls", "token", "prometheus"}, {"prometheus", "tls"}} {
		built := own(t, "", components...)
		var deployment struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		only(t, built, "Deployment", &deployment)
		args := deployment.Spec.Template.Spec.Containers[0].Args
		if want := "--prometheus-url=http://prometheus-operated.monitoring:9090"; args[0] != "--max-buffered=128Mi" || !slices.Contains(args, want) {
			t.Errorf("%v: want %s behind the flags of the base, got %v", components, want, args)
		}
		var policy struct {
			Spec struct {
				Egress []struct {
					To    []map[string]any
					Ports []struct{ Port int }
				}
			}
		}
		only(t, built, "NetworkPolicy", &policy)
		var ports []int
		for _, rule := range policy.Spec.Egress {
			for _, port := range rule.Ports {
				ports = append(ports, port.Port)
			}
		}
		if want := []int{53, 53, 9090}; !slices.Equal(want, ports) || len(policy.Spec.Egress[1].To) != 1 {
			t.Errorf("%v: want ways out to ports %v, the last to one namespace, got %+v", components, want, policy.Spec.Egress)
		}
		for _, was := range base.Resources() {
			is, err := built.GetById(was.OrgId())
			if kind := was.GetKind(); kind == "ConfigMap" || kind == "ClusterRole" {
				if err != nil || !reflect.DeepEqual(plain(t, was.MustYaml()), plain(t, is.MustYaml())) {
					t.Errorf("%v: want %s %s as it was, got %v", components, kind, was.GetName(), err)
				}
			}
		}
	}
}
