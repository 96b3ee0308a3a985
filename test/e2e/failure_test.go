package e2e

import (
	"context"
	"slices"
	"testing"

	"greyrelease.example.com/hooks/greyrelease"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rolledBack checks that the failed version 2.0 is away, that none of the 4 pods of
// 1.0 was ever lost, and that a poke does not try 2.0 again.
func (s *story) rolledBack() {
	s.Helper()
	const replicas = 4
	s.phase(greyrelease.PhaseRolledBack)
	s.pods(map[string]int{"1.0": replicas})
	s.until("the pods of 2.0 gone", func() (bool, string) {
		n := s.guard.allPods()
		return n == replicas, resource.NewQuantity(int64(n), resource.DecimalSI).String() + " pods"
	})
	if sizes, _ := s.guard.asks("2.0"); len(sizes) == 0 || sizes[len(sizes)-1] != 0 {
		s.Errorf("want 2.0 asked for 0 in the end, got %v", sizes)
	}
	if got := s.guard.createdPods()["1.0"]; got != replicas {
		s.Errorf("want %d pods of 1.0 ever created, got %d", replicas, got)
	}
	s.idle()
	if sizes, _ := s.guard.asks("2.0"); sizes[len(sizes)-1] != 0 {
		s.Errorf("want 2.0 not tried again, got %v", sizes)
	}
}

// TestAutomaticRollback proves RB-01 and RB-03: what fails goes back and is not
// tried again, and the next version goes out.
func TestAutomaticRollback(t *testing.T) {
	t.Parallel()
	for fate, why := range map[string]string{
		"crash": "the container crashes again and again",
		"image": "the image does not exist",
		"hang":  "the container runs and is never ready",
	} {
		t.Run(fate, func(t *testing.T) {
			t.Log(why)
			s := installed(t, 4, nil)
			s.patch(object{"targetVersion": "2.0", "template": behaving(fate), "progressDeadlineSeconds": int64(5)})
			s.rolledBack()
			// The next version goes out, and clears the failure.
			s.patch(object{"targetVersion": "3.0", "template": object{"metadata": nil}, "progressDeadlineSeconds": nil})
			s.settled("3.0")
			s.pods(map[string]int{"3.0": 4})
		})
	}
}

// TestCrashInSoak has pods that become available, and crash before the soak is over.
func TestCrashInSoak(t *testing.T) {
	s := installed(t, 4, object{"progressDeadlineSeconds": int64(15), "batches": []any{object{"replicas": int64(2), "soakSeconds": int64(600)}}})
	// Two pods are 2.0's to lose.
	s.guard.keep(2)
	s.patch(object{"targetVersion": "2.0", "template": behaving("late")})
	s.phase(greyrelease.PhaseRolledBack)
	s.pods(map[string]int{"1.0": 4})
	s.made(map[string]int{"1.0": 6, "2.0": 2})
}

// TestFlappingPods proves HE-01 on real conditions: pods that come and go never soak,
// and never get the deadline anew. They are taken back.
func TestFlappingPods(t *testing.T) {
	s := installed(t, 4, object{"batches": []any{object{"replicas": int64(1), "soakSeconds": int64(10)}}})
	// One pod is 2.0's to lose.
	s.guard.keep(3)
	s.patch(object{"targetVersion": "2.0", "template": behaving("flap"), "progressDeadlineSeconds": int64(15)})
	s.phase(greyrelease.PhaseRolledBack)
	s.pods(map[string]int{"1.0": 4})
	s.guard.keep(4)
	s.stays(map[string]int{"1.0": 4})
	if sizes, _ := s.guard.asks("2.0"); slices.Max(sizes) != 1 {
		t.Errorf("want 2.0 never asked for more than 1, got %v", sizes)
	}
}

// TestFailureHeld proves UX-03. It has autoRollback off: the pods stay as they are, for somebody to
// look at, until the command says otherwise.
func TestFailureHeld(t *testing.T) {
	s := installed(t, 4, object{"autoRollback": false})
	s.patch(object{"targetVersion": "2.0", "template": behaving("hang"), "progressDeadlineSeconds": int64(5)})
	s.phase(greyrelease.PhaseDegraded)
	s.stays(map[string]int{"1.0": 4})
	if sizes, _ := s.guard.asks("2.0"); sizes[len(sizes)-1] != 1 {
		t.Errorf("want the pod of 2.0 kept, got sizes %v", sizes)
	}
	s.command("abort")
	s.rolledBack()
}

// TestFailureInLaterBatch proves RB-09. It fails when stable pods have gone already: they come back
// and the promise holds all the way.
func TestFailureInLaterBatch(t *testing.T) {
	s := installed(t, 4, object{"batches": []any{
		object{"replicas": int64(2), "approval": true}, object{"replicas": int64(3)},
	}})
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.refusePods("2.0")
	s.patch(object{"progressDeadlineSeconds": int64(5)})
	s.command("promote")
	s.phase(greyrelease.PhaseRolledBack)
	s.pods(map[string]int{"1.0": 4})
	s.made(map[string]int{"1.0": 6, "2.0": 2})
}

func (s *story) quota(pods int64) {
	s.Helper()
	quotas := client.CoreV1().ResourceQuotas(s.namespace)
	hard := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)}
	_, err := quotas.Create(s.ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	s.must(err)
	s.until("the quota to count", func() (bool, string) {
		quota, err := quotas.Get(s.ctx, "pods", metav1.GetOptions{})
		s.must(err)
		return len(quota.Status.Used) > 0, "nothing counted"
	})
}

// TestQuota proves HE-07: there is no room for a single pod more, and the message
// says so.
func TestQuota(t *testing.T) {
	s := installed(t, 4, nil)
	s.quota(4)
	s.patch(object{"targetVersion": "2.0", "progressDeadlineSeconds": int64(8)})
	s.says("exceeded quota")
	s.rolledBack()
	s.made(map[string]int{"1.0": 4})
}

// TestAdmissionPolicy has the pods of one version refused by the cluster.
func TestAdmissionPolicy(t *testing.T) {
	s := installed(t, 4, nil)
	s.refusePods("2.0")
	s.patch(object{"targetVersion": "2.0", "progressDeadlineSeconds": int64(8)})
	s.says("2.0 is not allowed here")
	s.rolledBack()
	s.made(map[string]int{"1.0": 4})
}

// refusePods has an admission policy refuse the pods of a version.
func (s *story) refusePods(version string) {
	s.Helper()
	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	name := s.namespace
	_, err := policies.Create(s.ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: `object.spec.containers.all(c, !c.image.endsWith(":` + version + `"))`,
				Message:    version + " is not allowed here",
			}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() {
		// The context of the test has ended by now.
		if err := policies.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	})
	_, err = bindings.Create(s.ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources:    &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	// A policy works from a moment after it was made.
	s.until("the policy to refuse", func() (bool, string) {
		_, err := client.CoreV1().Pods(s.namespace).Create(s.ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "nginx:" + version}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, "no error"
	})
}

// TestFirstInstallFails has no earlier version to go back to.
func TestFirstInstallFails(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	s.create(spec(2, "1.0", object{"template": behaving("crash"), "progressDeadlineSeconds": int64(5)}))
	s.phase(greyrelease.PhaseDegraded)
	s.patch(object{"targetVersion": "2.0", "template": object{"metadata": nil}, "progressDeadlineSeconds": nil})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 2})
	if sizes, _ := s.guard.asks("1.0"); !slices.Contains(sizes, 2) {
		t.Errorf("want 1.0 tried with 2 pods, got %v", sizes)
	}
}
