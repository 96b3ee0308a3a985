package greyrelease

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// Which objects the customize hook asks for.
func TestCustomizeAsksForPods(t *testing.T) {
	const slices, pods = `{"apiVersion":"discovery.k8s.io/v1","resource":"endpointslices"`, `{"apiVersion":"v1","resource":"pods"`
	const of = `,"namespace":"default","labelSelector":{"matchLabels":{"greyrelease.example.com/name":"web"}}}`
	for _, tt := range []struct{ why, annotations, spec, want string }{
		{"not without the operator", `{}`, `{}`, ``},
		{"another value", `{"greyrelease.example.com/pods":"yes"}`, `{}`, ``},
		{"the operator wants it", `{"greyrelease.example.com/pods":"true"}`, `{}`, pods + of},
		{"with traffic", `{"greyrelease.example.com/pods":"true"}`, `{"replicas":500,"traffic":{}}`, slices + of + `,` + pods + of},
		{"traffic alone", `{}`, `{"traffic":{}}`, slices + of},
		{"too many", `{"greyrelease.example.com/pods":"true"}`, `{"replicas":501}`, ``},
		{"as a float", `{"greyrelease.example.com/pods":"true"}`, `{"replicas":5e2}`, pods + of},
		{"unreadable, so perhaps too many", `{"greyrelease.example.com/pods":"true"}`, `{"replicas":"many"}`, ``},
		{"null", `{"greyrelease.example.com/pods":"true"}`, `{"replicas":null}`, pods + of},
	} {
		req, err := DecodeCustomize([]byte(`{"controller":{"metadata":{"annotations":` + tt.annotations + `}},"parent":{"metadata":{"name":"web","namespace":"default"},"spec":` + tt.spec + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := Customize(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := answer.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"relatedResources":[` + tt.want + `]}`; want != string(got) {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, want, got)
		}
	}
}

// podRequest is a request with so many pods, each with so many bytes in every place that
// nobody reads, and in the last words of its container.
func podRequest(t *testing.T, pods, bytes int) []byte {
	t.Helper()
	fat := strings.Repeat("x", bytes)
	group := map[string]any{}
	for i := range pods {
		group[fmt.Sprint(i)] = map[string]any{
			"metadata": map[string]any{
				"name": fmt.Sprint("web-", i), "labels": map[string]any{LabelName: "web", LabelRevision: hash(2)},
				"annotations":   map[string]any{"fat": fat},
				"managedFields": []any{map[string]any{"manager": "kubelet", "fieldsV1": map[string]any{fat: map[string]any{}}}},
			},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "args": []any{fat}}}},
			"status": map[string]any{"containerStatuses": []any{map[string]any{
				"name": "app", "imageID": fat, "lastState": map[string]any{"terminated": map[string]any{"exitCode": 1}},
				"restartCount": 1, "state": map[string]any{"running": map[string]any{"startedAt": "2026-11-30T12:00:00Z"}},
			}}},
		}
	}
	text, err := json.Marshal(map[string]any{
		"parent": map[string]any{"metadata": map[string]any{"name": "web"}}, "children": map[string]any{}, "related": map[string]any{kindPod: group},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What nobody reads of a pod is never in memory, however large it is.
func TestPodsAreDecodedWithinBounds(t *testing.T) {
	decode := func(text []byte) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		req, err := DecodeSync(text)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if n := len(req.AllRelated(kindPod)); n != 100 {
			t.Fatalf("want 100 pods, got %d", n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := decode(podRequest(t, 100, 10)), decode(podRequest(t, 100, 20000))
	// 8 MB more in the request; some of it is names of fields, which the decoder reads.
	if large > small+3<<20 {
		t.Errorf("want no more memory for what is not read, got %d bytes and then %d", small, large)
	}
	if small > 100*8<<10 {
		t.Errorf("want at most 8 KiB for each pod, got %d for 100", small)
	}
}

// A reason that the API server would not take must not cost the whole status.
func TestConditionReason(t *testing.T) {
	for reason, want := range map[string]string{
		"CrashLoopBackOff": "CrashLoopBackOff", "": "Other", "no such thing": "Other", "Trailing:": "Other", "1st": "Other",
		strings.Repeat("a", 2000): "Other", "A_b,c:D9": "A_b,c:D9",
	} {
		if got := conditionReason(reason); want != got {
			t.Errorf("%.20s: want %s, got %s", reason, want, got)
		}
	}
}
