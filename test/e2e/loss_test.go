package e2e

import (
	"fmt"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// halfway begins a story of 4 replicas that waits for the approval of its first
// batch: two pods of 1.0, two of 2.0.
func halfway(s *story) *story {
	s.Helper()
	s.install(4, object{"batches": []any{object{"replicas": int64(2), "approval": true}}})
	s.patch(object{"targetVersion": "2.0"})
	s.phase(greyrelease.PhasePaused)
	s.stillHalfway()
	return s
}

func (s *story) stillHalfway() {
	s.Helper()
	s.pods(map[string]int{"1.0": 2, "2.0": 2})
	s.phase(greyrelease.PhasePaused)
}

// finish approves, and checks how many pods were ever created.
func (s *story) finish(created map[string]int) {
	s.Helper()
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
	s.made(created)
}

// TestRecordDeleted takes away what the release remembers, and what it reports.
func TestRecordDeleted(t *testing.T) {
	t.Parallel()
	s := halfway(begin(t, "web"))
	old, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, "web-rollout", metav1.GetOptions{})
	s.must(err)
	s.kubectl("delete", "configmap", "web-rollout")
	s.until("another record", func() (bool, string) {
		now, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, "web-rollout", metav1.GetOptions{})
		return err == nil && now.UID != old.UID, fmt.Sprint(err)
	})
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.stillHalfway()

	s.merge(object{"status": nil}, "status")
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.stillHalfway()
	s.finish(map[string]int{"1.0": 4, "2.0": 4})
}

// TestSnapshotsDeleted proves a part of SN-08: nothing that runs depends on them.
func TestSnapshotsDeleted(t *testing.T) {
	t.Parallel()
	s := halfway(begin(t, "web"))
	for _, name := range []string{"web-rev-1", "web-rev-2"} {
		s.kubectl("delete", "configmap", name)
		s.stays(map[string]int{"1.0": 2, "2.0": 2})
	}
	// That of the target comes back under its number.
	s.until("the snapshot of the target", func() (bool, string) {
		_, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, "web-rev-2", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	s.stillHalfway()
	s.finish(map[string]int{"1.0": 4, "2.0": 4})
}

// TestDeploymentsDeleted proves LC-11. It takes away pods as well, so there is no promise until they
// are back.
func TestDeploymentsDeleted(t *testing.T) {
	t.Parallel()
	s := halfway(begin(t, "web"))
	s.guard.keep(0)
	s.guard.limit(0)
	for track, version := range map[string]string{"canary": "2.0", "stable": "1.0"} {
		before := s.guard.createdPods()[version]
		out := s.kubectl("delete", "deployment", "-l", greyrelease.LabelTrack+"="+track)
		if !strings.Contains(out, "deleted") {
			t.Fatalf("want a Deployment of %s deleted, got %q", track, out)
		}
		s.until("two other pods of "+version, func() (bool, string) {
			n := s.guard.createdPods()[version]
			return n >= before+2, fmt.Sprintf("%d more", n-before)
		})
		s.stillHalfway()
	}
	s.guard.keep(4)
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 4})
}

// TestForeignRecord proves AM-13 for a ConfigMap: it finds somebody's ConfigMap under the name of the record.
func TestForeignRecord(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	foreign, err := client.CoreV1().ConfigMaps(s.namespace).Create(s.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web-rollout"}, Data: map[string]string{"mine": "yes"},
	}, metav1.CreateOptions{})
	s.must(err)
	s.create(spec(2, "1.0", nil))
	if *applyStrategy == cluster.DynamicApply {
		s.says("web-rollout")
		now, err := client.CoreV1().ConfigMaps(s.namespace).Get(s.ctx, "web-rollout", metav1.GetOptions{})
		s.must(err)
		if now.ResourceVersion != foreign.ResourceVersion {
			t.Errorf("want the foreign ConfigMap untouched, got %v", now)
		}
		s.kubectl("delete", "configmap", "web-rollout")
	}
	// Server-side mode takes it over, and leaves what is not ours in it.
	s.settled("1.0")
	s.pods(map[string]int{"1.0": 2})
	s.made(map[string]int{"1.0": 2})
}

// TestForeignDeployment proves AM-13: somebody's Deployment has the name of a child.
// It is never changed, the message names it, and once it is gone the release goes out.
func TestForeignDeployment(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	// The name is made of the content, so another release tells it.
	other := s.release(spec(1, "1.0", nil))
	other.SetName("other")
	_, err := s.gr().Create(s.ctx, other, metav1.CreateOptions{})
	s.must(err)
	name := ""
	s.eventually("the Deployment of another release", func() (bool, string) {
		list, err := client.AppsV1().Deployments(s.namespace).List(s.ctx, metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=other"})
		s.must(err)
		if len(list.Items) == 1 {
			name = strings.Replace(list.Items[0].Name, "other-", "web-", 1)
		}
		return name != "", fmt.Sprintf("%d", len(list.Items))
	})
	foreign := plain(1, "9.0")
	foreign.Name = name
	foreign, err = client.AppsV1().Deployments(s.namespace).Create(s.ctx, foreign, metav1.CreateOptions{})
	s.must(err)
	s.create(spec(2, "1.0", nil))
	s.says(name)
	s.stays(map[string]int{})
	now, err := client.AppsV1().Deployments(s.namespace).Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	if now.UID != foreign.UID || now.Generation != foreign.Generation || len(now.OwnerReferences) > 0 || now.Labels[greyrelease.LabelName] != "" {
		t.Errorf("want the foreign Deployment untouched, got %v", now)
	}
	s.kubectl("delete", "deployment", name)
	s.settled("1.0")
	s.pods(map[string]int{"1.0": 2})
}

// TestLongestName proves NM-01. It releases under a name of 52 characters.
func TestLongestName(t *testing.T) {
	t.Parallel()
	s := begin(t, "n"+strings.Repeat("0123456789", 5)+"z")
	s.install(2, nil)
	s.patch(object{"targetVersion": strings.Repeat("v", 128)})
	s.settled(strings.Repeat("v", 128))
	s.pods(map[string]int{strings.Repeat("v", 128): 2})
	tooLong := s.release(spec(1, "1.0", nil))
	tooLong.SetName(s.name + "z")
	if _, err := s.gr().Create(s.ctx, tooLong, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "at most 52") {
		t.Errorf("want a refusal that says at most 52, got %v", err)
	}
}

// TestOneAppTwoReleases proves TR-09 across releases: it has two releases share the label app: neither touches the
// pods of the other.
func TestOneAppTwoReleases(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	s.install(2, object{"appName": "shop"})
	other := s.release(spec(3, "7.0", object{"appName": "shop"}))
	other.SetName("web-2")
	_, err := s.gr().Create(s.ctx, other, metav1.CreateOptions{})
	s.must(err)
	s.until("5 ready pods of the app", func() (bool, string) {
		list, err := client.CoreV1().Pods(s.namespace).List(s.ctx, metav1.ListOptions{LabelSelector: "app=shop"})
		s.must(err)
		n := 0
		for i := range list.Items {
			if cluster.Ready(&list.Items[i]) {
				n++
			}
		}
		return n == 5, fmt.Sprint(n)
	})
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 2})
	s.must(s.gr().Delete(s.ctx, "web-2", metav1.DeleteOptions{}))
	s.stays(map[string]int{"2.0": 2})
	s.made(map[string]int{"1.0": 2, "2.0": 2})
}
