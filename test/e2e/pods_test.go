package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/greyrelease"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// condition is the condition of that type, and whether it is there.
func (s *story) condition(kind string) (metav1.Condition, bool) {
	s.Helper()
	st, _ := s.status()
	i := slices.IndexFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return metav1.Condition{}, false
	}
	return st.Conditions[i], true
}

// explains waits for a message that matches, and writes it down.
func (s *story) explains(pattern string) {
	s.Helper()
	matches := regexp.MustCompile(pattern)
	s.until("a message like "+pattern, func() (bool, string) {
		st, current := s.status()
		if !current || !matches.MatchString(st.Message) {
			return false, st.Message
		}
		s.Logf("%s: %s", st.Phase, st.Message)
		return true, ""
	})
}

// TestPodsExplain proves HE-01 and HE-03: what is wrong with a pod is said while there
// is time, and in the message of the failure.
func TestPodsExplain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ fate, reason, words string }{
		{"image", "ImagePullBackOff", "container web: ImagePullBackOff, `rpc error: code = NotFound desc = failed to pull and unpack image \"nginx:2.0\": not found`"},
		{"config", "CreateContainerConfigError", "container web: CreateContainerConfigError, `configmap \"settings\" not found`"},
	} {
		t.Run(tt.fate, func(t *testing.T) {
			s := installed(t, 4, nil)
			s.patch(object{"targetVersion": "2.0", "template": behaving(tt.fate), "progressDeadlineSeconds": int64(8)})
			s.explains("batch 1 of .*; pod web-[a-z0-9-]+, " + regexp.QuoteMeta(tt.words))
			if c, _ := s.condition(greyrelease.ConditionPodsFailing); c.Status != metav1.ConditionTrue || c.Reason != tt.reason || !strings.Contains(c.Message, tt.words) {
				t.Errorf("want PodsFailing=True for %s with %s, got %+v", tt.reason, tt.words, c)
			}
			s.rolledBack()
			s.explains("failed: 0 of 1 pods .* within 8 s: pod web-[a-z0-9-]+, " + regexp.QuoteMeta(tt.words))
			if c, found := s.condition(greyrelease.ConditionPodsFailing); !found || c.Status != metav1.ConditionFalse {
				t.Errorf("want PodsFailing=False when they are gone, got %+v", c)
			}
		})
	}
}

// TestUnschedulable has pods that fit on no node: the scheduler's own words are said.
func TestUnschedulable(t *testing.T) {
	s := installed(t, 4, nil)
	template := behaving("ready")
	template["spec"].(object)["nodeSelector"] = object{"disk": "fast"}
	s.patch(object{"targetVersion": "2.0", "template": template, "progressDeadlineSeconds": int64(8)})
	const words = `pod web-[a-z0-9-]+: Unschedulable, "0/\d+ nodes are available: \d+ node\(s\) didn't match Pod's node affinity/selector`
	s.explains("batch 1 of .*; " + words)
	s.rolledBack()
	s.explains("within 8 s: " + words)
}

// TestCrashLoop proves HE-01: a crash loop fails the release with its third restart,
// long before the deadline.
func TestCrashLoop(t *testing.T) {
	s := installed(t, 4, nil)
	s.patch(object{"targetVersion": "2.0", "template": behaving("loop"), "progressDeadlineSeconds": int64(3600)})
	s.rolledBack()
	s.explains(`pod web-[a-z0-9-]+, container web: CrashLoopBackOff, [34] restarts, exit code 137 \(OOMKilled\), it said "reading the catalogue"; health.maxRestarts is 3; rolled back to 1.0`)
	if c, _ := s.condition(greyrelease.ConditionRolledBack); c.Status != metav1.ConditionTrue || c.Reason != "CrashLoop" {
		t.Errorf("want RolledBack=True for CrashLoop, got %+v", c)
	}
}

// TestCrashLoopTriedAgain has a crash loop held and tried again: the pod of before is
// still there, and its restarts don't end the new attempt.
func TestCrashLoopTriedAgain(t *testing.T) {
	s := installed(t, 2, object{"autoRollback": false, "health": object{"maxRestarts": int64(2)}})
	s.patch(object{"targetVersion": "2.0", "template": behaving("loop")})
	s.phase(greyrelease.PhaseDegraded)
	s.explains("health.maxRestarts is 2; it is held where it is")
	// Pods made less than 5 s before the retry are taken for new ones, because clocks differ.
	s.until("more restarts", func() (bool, string) {
		c, _ := s.condition(greyrelease.ConditionPodsFailing)
		return strings.Contains(c.Message, "0+ restarts"), c.Message
	})
	s.command("retry")
	s.explains(`batch 1 of .*abort 2\.2.*CrashLoopBackOff, \d+0\+ restarts`)
	s.patch(object{"progressDeadlineSeconds": int64(5)})
	s.explains("failed: 0 of 1 pods .* within 5 s: pod .* restarts")
}

// TestStableCrashes proves HE-08: pods of the stable version crash again and again, and
// the good version goes out all the same.
func TestStableCrashes(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	s.create(spec(2, "1.0", object{"template": behaving("ready")}))
	s.settled("1.0")
	// 2 pods of 2.0 become available and crash 3 s later, which fails nothing once it is
	// out, and then 3.0 replaces it.
	s.guard.keep(0)
	s.patch(object{"targetVersion": "2.0", "template": behaving("late")})
	s.settled("2.0")
	s.explains(`is released; .*pod web-[a-z0-9-]+, container web: CrashLoopBackOff, 5\+ restarts, exit code 1 \(Error\)`)
	s.patch(object{"targetVersion": "3.0", "template": behaving("ready")})
	s.settled("3.0")
	s.pods(map[string]int{"3.0": 2})
	if st, _ := s.status(); len(st.History) != 3 || st.History[1].Result != "Completed" || st.History[2].Result != "Completed" {
		t.Errorf("want three completed releases, got %+v", st.History)
	}
}
