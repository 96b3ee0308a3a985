package greyrelease

import (
	"encoding/json"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/jsontree"
)

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		why, want, live string
		difference      difference
	}{
		{why: "defaults are others' keys", want: `{"spec":{}}`, live: `{"spec":{"dnsPolicy":"ClusterFirst"}}`},
		{why: "an empty map is not stored", want: `{"spec":{"nodeSelector":{}}}`, live: `{"spec":{}}`},
		{why: "an empty list is not stored", want: `{"spec":{"tolerations":[]}}`, live: `{"spec":{}}`},
		{why: "false is not stored", want: `{"spec":{"hostNetwork":false}}`, live: `{"spec":{}}`},
		{why: "null is absent", want: `{"spec":{"affinity":null}}`, live: `{"spec":{"affinity":{}}}`},
		{
			why:  "false behind a pointer means something: without it the token is mounted",
			want: `{"spec":{"automountServiceAccountToken":false}}`, live: `{"spec":{}}`,
			difference: difference{Changed: "spec.automountServiceAccountToken"},
		},
		{
			why:  "0 behind a pointer means something",
			want: `{"spec":{"terminationGracePeriodSeconds":0}}`, live: `{"spec":{"terminationGracePeriodSeconds":30}}`,
			difference: difference{Changed: "spec.terminationGracePeriodSeconds"},
		},
		{
			why:  "an empty object behind a pointer means something",
			want: `{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}`, live: `{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}`,
			difference: difference{Changed: "spec.volumes[0].emptyDir"},
		},
		{
			why:  "an entry of a map is kept though it is empty",
			want: `{"metadata":{"labels":{"a/b":""}}}`, live: `{"metadata":{"labels":{}}}`,
			difference: difference{Changed: "metadata.labels[a/b]"},
		},
		{
			why:  "a quantity in another spelling",
			want: `{"spec":{"containers":[{"resources":{"limits":{"cpu":"0.5","memory":"1024Mi","x/y":2}}}]}}`,
			live: `{"spec":{"containers":[{"resources":{"limits":{"cpu":"500m","memory":"1Gi","x/y":"2"}}}]}}`,
		},
		{
			why:        "another quantity",
			want:       `{"spec":{"containers":[{"resources":{"limits":{"cpu":"0.5"}}}]}}`,
			live:       `{"spec":{"containers":[{"resources":{"limits":{"cpu":"0.6"}}}]}}`,
			difference: difference{Changed: "spec.containers[0].resources.limits[cpu]"},
		},
		{
			why:        "a variable is no quantity",
			want:       `{"spec":{"containers":[{"env":[{"name":"A","value":"1"}]}]}}`,
			live:       `{"spec":{"containers":[{"env":[{"name":"A","value":"1000m"}]}]}}`,
			difference: difference{Changed: "spec.containers[0].env[0].value"},
		},
		{
			why:        "an empty variable that was given a value",
			want:       `{"spec":{"containers":[{"env":[{"name":"A","value":""}]}]}}`,
			live:       `{"spec":{"containers":[{"env":[{"name":"A","value":"x"}]}]}}`,
			difference: difference{Changed: "spec.containers[0].env[0].value"},
		},
		{
			why:        "an annotation is no quantity",
			want:       `{"metadata":{"annotations":{"cpu":"1"}}}`,
			live:       `{"metadata":{"annotations":{"cpu":"1000m"}}}`,
			difference: difference{Changed: "metadata.annotations[cpu]"},
		},
		{
			why:  "an empty enum is filled in",
			want: `{"spec":{"dnsPolicy":"","containers":[{"imagePullPolicy":""}]}}`,
			live: `{"spec":{"dnsPolicy":"ClusterFirst","containers":[{"imagePullPolicy":"Always"}]}}`,
		},
		{
			why:        "false is not filled in",
			want:       `{"spec":{"hostNetwork":false}}`,
			live:       `{"spec":{"hostNetwork":true}}`,
			difference: difference{Changed: "spec.hostNetwork"},
		},
		{
			why:        "an empty list that was filled by hand",
			want:       `{"spec":{"tolerations":[]}}`,
			live:       `{"spec":{"tolerations":[{"operator":"Exists"}]}}`,
			difference: difference{Changed: "spec.tolerations"},
		},
		{
			why:        "a container added at the front",
			want:       `{"spec":{"containers":[{"name":"a","env":[{"name":"A"}]}]}}`,
			live:       `{"spec":{"containers":[{"name":"x"},{"name":"a","env":[{"name":"A"},{"name":"B"}]}]}}`,
			difference: difference{Added: "spec.containers"},
		},
		{
			why:        "a variable added",
			want:       `{"spec":{"containers":[{"name":"a","env":[{"name":"A"}]}]}}`,
			live:       `{"spec":{"containers":[{"name":"a","env":[{"name":"A"},{"name":"B"}]}]}}`,
			difference: difference{Added: "spec.containers[0].env"},
		},
		{
			why:        "a port added under the same number",
			want:       `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"UDP"}]}]}}`,
			live:       `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":53,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"}]}]}}`,
			difference: difference{Added: "spec.containers[0].ports"},
		},
		{
			why:        "one container added, another changed",
			want:       `{"spec":{"containers":[{"name":"a","image":"i:1"}]}}`,
			live:       `{"spec":{"containers":[{"name":"a","image":"i:2"},{"name":"x"}]}}`,
			difference: difference{Changed: "spec.containers[0].image", Added: "spec.containers"},
		},
		{
			why:        "a container replaced, another added",
			want:       `{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`,
			live:       `{"spec":{"containers":[{"name":"a"},{"name":"x"},{"name":"y"}]}}`,
			difference: difference{Changed: "spec.containers[1].name", Added: "spec.containers"},
		},
		{
			why:        "variables in another order",
			want:       `{"spec":{"containers":[{"name":"a","env":[{"name":"A"},{"name":"B"}]}]}}`,
			live:       `{"spec":{"containers":[{"name":"a","env":[{"name":"B"},{"name":"A"}]}]}}`,
			difference: difference{Changed: "spec.containers[0].env[0].name"},
		},
		{
			why: "a field that is not known here, dropped while empty", want: `{"spec":{"future":""}}`, live: `{"spec":{}}`,
		},
		{
			why:        "a field that is not known here, gone",
			want:       `{"spec":{"future":{"a":1}}}`,
			live:       `{"spec":{"future":{}}}`,
			difference: difference{Changed: "spec.future.a"},
		},
		{
			why: "nothing live", want: `{"spec":{}}`, live: `null`,
			difference: difference{Changed: "."},
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			if got := covers(parse(t, json.RawMessage(tt.want)), parse(t, json.RawMessage(tt.live))); got != tt.difference {
				t.Errorf("want %+v, got %+v", tt.difference, got)
			}
		})
	}
}

// TestQuantityFields pins where a quantity can stand in a pod template.
func TestQuantityFields(t *testing.T) {
	want := []string{
		"spec.containers[].env[].valueFrom.resourceFieldRef.divisor",
		"spec.containers[].resources.limits[*]",
		"spec.containers[].resources.requests[*]",
		"spec.overhead[*]",
		"spec.resources.limits[*]",
		"spec.volumes[].downwardAPI.items[].resourceFieldRef.divisor",
		"spec.volumes[].emptyDir.sizeLimit",
		"spec.volumes[].ephemeral.volumeClaimTemplate.spec.resources.requests[*]",
		"spec.volumes[].projected.sources[].downwardAPI.items[].resourceFieldRef.divisor",
	}
	for _, path := range want {
		s := podTemplate
		for _, step := range strings.FieldsFunc(strings.NewReplacer("[*]", ".*", "[]", ".#").Replace(path), func(r rune) bool { return r == '.' }) {
			if step == "#" {
				s = s.item()
			} else {
				s = s.field(step)
			}
		}
		if s == nil || !s.quantity {
			t.Errorf("want a quantity at %s", path)
		}
	}
	if s := podTemplate.field("spec").field("containers").item().field("env").item().field("value"); s == nil || s.quantity {
		t.Errorf("want a plain value, got %+v", s)
	}
}

func FuzzCovers(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add([]byte(c.Template), []byte(c.Stored))
	}
	f.Add([]byte(`{"spec":{"containers":[{"name":"a"},null,{"name":"a"}]}}`), []byte(`{"spec":[]}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		v, err := jsontree.Parse(a)
		if err != nil {
			return
		}
		if d := covers(v, v); d != (difference{}) {
			t.Errorf("%s does not cover itself: %+v", a, d)
		}
		if w, err := jsontree.Parse(b); err == nil {
			covers(v, w)
			covers(w, v)
		}
	})
}
