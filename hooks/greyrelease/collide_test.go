package greyrelease

import (
	"encoding/json"
	"testing"

	"greyrelease.example.com/hooks/history"
)

const (
	serverSideCure = "dynamic apply can't keep both, run Metacontroller with --apply-strategy=server-side-apply"
	renameCure     = "remove or rename one of them"
)

func TestCollisions(t *testing.T) {
	for _, tt := range []struct {
		why, template       string
		dynamic, serverSide []string
	}{
		{
			why:      "one port for two protocols: seen to become 53/TCP twice",
			template: `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"UDP"},{"containerPort":53}]}]}}`,
			dynamic:  []string{"spec.template.spec.containers[0].ports: two items have containerPort 53; " + serverSideCure},
		},
		{
			why:        "the same port twice, once with its default written out",
			template:   `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"TCP","name":"x"},{"containerPort":53,"name":"y"}]}]}}`,
			dynamic:    []string{"spec.template.spec.containers[0].ports: two items have containerPort 53 and protocol TCP; " + renameCure},
			serverSide: []string{"spec.template.spec.containers[0].ports: two items have containerPort 53 and protocol TCP; " + renameCure},
		},
		{
			why:        "two mounts at one path",
			template:   `{"spec":{"initContainers":[{"name":"a","volumeMounts":[{"name":"v","mountPath":"/m"},{"name":"w","mountPath":"/m"}]}]}}`,
			dynamic:    []string{"spec.template.spec.initContainers[0].volumeMounts: two items have mountPath /m; " + renameCure},
			serverSide: []string{"spec.template.spec.initContainers[0].volumeMounts: two items have mountPath /m; " + renameCure},
		},
		{
			why:        "one variable twice",
			template:   `{"spec":{"containers":[{"name":"a"},{"name":"b","env":[{"name":"A","value":"1"},{"name":"B"},{"name":"A"}]}]}}`,
			dynamic:    []string{"spec.template.spec.containers[1].env: two items have name A; " + renameCure},
			serverSide: []string{"spec.template.spec.containers[1].env: two items have name A; " + renameCure},
		},
		{
			why:      "one header of a probe twice: legal in HTTP",
			template: `{"spec":{"containers":[{"name":"a","readinessProbe":{"httpGet":{"port":80,"httpHeaders":[{"name":"Accept","value":"a"},{"name":"Accept","value":"b"}]}}}]}}`,
			dynamic:  []string{"spec.template.spec.containers[0].readinessProbe.httpGet.httpHeaders: two items have name Accept; " + serverSideCure},
		},
		{
			why:      "one DNS option twice",
			template: `{"spec":{"dnsConfig":{"options":[{"name":"a"},{"name":"a"}]}}}`,
			dynamic:  []string{"spec.template.spec.dnsConfig.options: two items have name a; " + serverSideCure},
		},
		{
			why:        "spread twice in one way; dynamic apply replaces the list whole",
			template:   `{"spec":{"topologySpreadConstraints":[{"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"},{"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}}`,
			dynamic:    []string{"spec.template.spec.topologySpreadConstraints: two items have topologyKey zone and whenUnsatisfiable DoNotSchedule; " + renameCure},
			serverSide: []string{"spec.template.spec.topologySpreadConstraints: two items have topologyKey zone and whenUnsatisfiable DoNotSchedule; " + renameCure},
		},
		{why: "two tolerations alike are replaced whole", template: `{"spec":{"tolerations":[{"operator":"Exists"},{"operator":"Exists"}]}}`},
		{why: "two sources without a key in common", template: `{"spec":{"containers":[{"name":"a","envFrom":[{"configMapRef":{"name":"c"}},{"configMapRef":{"name":"c"}}]}]}}`},
		{
			why:      "a port as number and as text: the same to dynamic apply",
			template: `{"spec":{"future":[{"port":80},{"port":"80"}]}}`,
			dynamic:  []string{"spec.template.spec.future: two items have port 80; " + serverSideCure},
		},
		{
			why:      "several, in the order of the paths",
			template: `{"spec":{"dnsConfig":{"options":[{"name":"a"},{"name":"a"}]},"containers":[{"name":"a","ports":[{"containerPort":1,"protocol":"UDP"},{"containerPort":1}]}]}}`,
			dynamic: []string{
				"spec.template.spec.containers[0].ports: two items have containerPort 1; " + serverSideCure,
				"spec.template.spec.dnsConfig.options: two items have name a; " + serverSideCure,
			},
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			checkCollisions(t, tt.template, history.Dynamic, tt.dynamic)
			checkCollisions(t, tt.template, history.ServerSide, tt.serverSide)
		})
	}
}

func checkCollisions(t *testing.T, template string, mode history.Mode, want []string) {
	t.Helper()
	found := mustCollide(t, json.RawMessage(template), mode)
	if len(want) != len(found) {
		t.Fatalf("mode %d: want %q, got %v", mode, want, found)
	}
	for i, c := range found {
		if want[i] != c.String() {
			t.Errorf("mode %d: want %q, got %q", mode, want[i], c)
		}
	}
}
