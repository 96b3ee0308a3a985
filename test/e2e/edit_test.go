package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/greyrelease"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestScale scales by kubectl in the middle of a release, out and in.
func TestScale(t *testing.T) {
	s := installed(t, 4, object{"batches": []any{object{"replicas": "50%", "approval": true}}})
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.guard.limit(8 + surge(8))
	s.kubectl("scale", "gr", "web", "--replicas=8")
	s.pods(map[string]int{"1.0": 4, "2.0": 4})
	s.phase(greyrelease.PhasePaused)
	s.kubectl("scale", "gr", "web", "--replicas=4")
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
}

// TestAutoscaler has a real HorizontalPodAutoscaler act on the scale subresource.
// Its bounds need no metrics.
func TestAutoscaler(t *testing.T) {
	s := installed(t, 2, object{"batches": []any{object{"replicas": "50%", "approval": true}}})
	s.guard.limit(0)
	least, utilization := int32(4), int32(80)
	scalers := client.AutoscalingV2().HorizontalPodAutoscalers(s.namespace)
	scaler, err := scalers.Create(s.ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "greyrelease.example.com/v1", Kind: "GreyRelease", Name: "web"},
			MinReplicas:    &least, MaxReplicas: 6,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
			}}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.pods(map[string]int{"1.0": 4})
	s.guard.keep(4)
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	// The autoscaler moves in mid-release: no gate is passed by that.
	least = 6
	scaler, err = scalers.Get(s.ctx, scaler.Name, metav1.GetOptions{})
	s.must(err)
	scaler.Spec.MinReplicas = &least
	_, err = scalers.Update(s.ctx, scaler, metav1.UpdateOptions{})
	s.must(err)
	s.stays(map[string]int{"1.0": 3, "2.0": 3})
	s.guard.keep(6)
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 6})
	// Its upper bound scales in.
	least = 2
	s.guard.keep(3)
	scaler, err = scalers.Get(s.ctx, scaler.Name, metav1.GetOptions{})
	s.must(err)
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = &least, 3
	_, err = scalers.Update(s.ctx, scaler, metav1.UpdateOptions{})
	s.must(err)
	s.stays(map[string]int{"2.0": 3})
}

// TestScaleToZero ends with nothing and comes back.
func TestScaleToZero(t *testing.T) {
	s := installed(t, 3, nil)
	s.guard.keep(0)
	s.kubectl("scale", "gr", "web", "--replicas=0")
	s.pods(map[string]int{})
	s.kubectl("scale", "gr", "web", "--replicas=3")
	s.pods(map[string]int{"1.0": 3})
}

// TestRefusedByTheServer proves IV-02 and IV-07 on a real server. It shows what a user reads for edits that the CRD refuses.
func TestRefusedByTheServer(t *testing.T) {
	s := installed(t, 2, nil)
	for name, c := range map[string]struct{ edit, want string }{
		"unknown field":      {`{"spec":{"batchsize":2}}`, `unknown field "spec.batchsize"`},
		"typo in template":   {`{"spec":{"template":{"spec":{"container":[]}}}}`, `unknown field "spec.template.spec.container"`},
		"bad version":        {`{"spec":{"targetVersion":"a b"}}`, `spec.targetVersion: Invalid value: "a b"`},
		"number as version":  {`{"spec":{"targetVersion":1.10}}`, `spec.targetVersion`},
		"batch of none":      {`{"spec":{"batchSize":0}}`, `spec.batchSize: Invalid value: 0: spec.batchSize in body should be greater than or equal to 1`},
		"no room":            {`{"spec":{"maxSurge":0,"maxUnavailable":0}}`, `cannot be 0 while maxUnavailable is 0`},
		"deadline too short": {`{"spec":{"minReadySeconds":700}}`, `must be greater than minReadySeconds`},
		"other app":          {`{"spec":{"appName":"other"}}`, `cannot be changed, added or removed`},
		"batches shrink":     {`{"spec":{"batches":[{"replicas":3},{"replicas":2}]}}`, `spec.batches`},
	} {
		t.Run(name, func(t *testing.T) {
			// As kubectl apply does, unknown fields are refused and not dropped.
			out, err := plane.Kubectl(s.ctx, "-n", s.namespace, "patch", "gr", "web", "--type=merge", "-p", c.edit)
			if err == nil && strings.HasPrefix(c.want, "unknown field") && strings.Contains(out, c.want) {
				return // kubectl patch warns
			}
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("want an error with %q, got %q", c.want, out)
			}
		})
	}
	// kubectl apply refuses what patch warns of.
	release := s.release(spec(2, "1.0", object{"batchsize": int64(2)}))
	release.SetNamespace(s.namespace)
	text, err := yaml.Marshal(release.Object)
	s.must(err)
	path := filepath.Join(t.TempDir(), "release.yaml")
	s.must(os.WriteFile(path, text, 0o644))
	out, err := plane.Kubectl(s.ctx, "apply", "-f", path)
	if want := `unknown field "spec.batchsize"`; err == nil || !strings.Contains(out, want) {
		t.Errorf("want an error with %q, got %q", want, out)
	}
	s.stays(map[string]int{"1.0": 2})
	s.made(map[string]int{"1.0": 2})
}

// TestRefusedByTheHook proves ST-01. It edits what only the hook can refuse: what runs is kept, and
// scaling goes on.
func TestRefusedByTheHook(t *testing.T) {
	s := installed(t, 2, nil)
	taken := object{"serviceName": "web-preview", "ports": []any{object{"port": int64(80)}}}
	s.patch(object{"traffic": taken, "targetVersion": "2.0"})
	s.phase(greyrelease.PhaseInvalid)
	s.says("spec.traffic.serviceName")
	s.stays(map[string]int{"1.0": 2})
	s.guard.limit(0)
	s.kubectl("scale", "gr", "web", "--replicas=3")
	s.pods(map[string]int{"1.0": 3})
	s.patch(object{"traffic": nil})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 3})
}

// TestUnknownRevision is pinned to a revision that never was, in mid-release: what
// exists is listed, and nothing moves.
func TestUnknownRevision(t *testing.T) {
	t.Parallel()
	s := halfway(begin(t, "web"))
	s.patch(object{"rollbackTo": int64(7)})
	s.phase(greyrelease.PhaseInvalid)
	s.says("spec.rollbackTo")
	s.says("kept are 1 (1.0), 2 (2.0)")
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.patch(object{"rollbackTo": nil})
	s.stillHalfway()
	s.finish(map[string]int{"1.0": 4, "2.0": 4})
}

// TestOnePortTwice has a container with 53/UDP and 53/TCP. Dynamic apply would make
// both the same, so it is refused there; server-side apply runs it.
func TestOnePortTwice(t *testing.T) {
	s := installed(t, 2, nil)
	template := spec(0, "", nil)["template"].(object)
	template["spec"].(object)["containers"].([]any)[0].(object)["ports"] = []any{
		object{"containerPort": int64(53), "protocol": "UDP"}, object{"containerPort": int64(53), "protocol": "TCP"},
	}
	s.patch(object{"targetVersion": "2.0", "template": template})
	if dynamicOnly() {
		s.phase(greyrelease.PhaseInvalid)
		s.says("spec.template.spec.containers[0].ports")
		s.says("--apply-strategy=server-side-apply")
		s.stays(map[string]int{"1.0": 2})
		s.patch(object{"template": spec(0, "", nil)["template"]})
		s.settled("2.0")
		s.pods(map[string]int{"2.0": 2})
		return
	}
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 2})
	s.idle()
	list, err := client.CoreV1().Pods(s.namespace).List(s.ctx, metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=web"})
	s.must(err)
	for i := range list.Items {
		ports := list.Items[i].Spec.Containers[0].Ports
		if len(ports) != 2 || ports[0].Protocol == ports[1].Protocol {
			t.Errorf("want 53/UDP and 53/TCP, got %v", ports)
		}
	}
}
