package e2e

import (
	"fmt"
	"testing"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// delete deletes the release and waits until it is gone.
func (s *story) delete(propagation metav1.DeletionPropagation) {
	s.Helper()
	s.guard.keep(0)
	s.must(s.gr().Delete(s.ctx, s.name, metav1.DeleteOptions{PropagationPolicy: &propagation}))
	s.eventually("the release gone", func() (bool, string) {
		_, err := s.gr().Get(s.ctx, s.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// children counts what carries the release's label.
func (s *story) children() int {
	s.Helper()
	mine := metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=" + s.name}
	maps, err := client.CoreV1().ConfigMaps(s.namespace).List(s.ctx, mine)
	s.must(err)
	deployments, err := client.AppsV1().Deployments(s.namespace).List(s.ctx, mine)
	s.must(err)
	return len(maps.Items) + len(deployments.Items)
}

// TestDelete proves a part of LC-01, and in the foreground LC-02: nothing waits for a
// hook.
func TestDelete(t *testing.T) {
	t.Parallel()
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(propagation), func(t *testing.T) {
			t.Parallel()
			s := halfway(begin(t, "web"))
			s.delete(propagation)
			s.eventually("no children and no pods", func() (bool, string) {
				n, pods := s.children(), s.guard.allPods()
				return n == 0 && pods == 0, fmt.Sprintf("%d children, %d pods", n, pods)
			})
			s.made(map[string]int{"1.0": 4, "2.0": 2})
		})
	}
}

// TestDeleteAndRecreate does not wait for the old children to be collected.
func TestDeleteAndRecreate(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	s.install(3, nil)
	s.guard.limit(0)
	s.delete(metav1.DeletePropagationBackground)
	s.create(spec(3, "1.0", nil))
	s.settled("1.0")
	s.stays(map[string]int{"1.0": 3})
	s.guard.keep(3)
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 3})
}

// TestOrphanAndReadopt proves a part of LC-01 with the service up. It lets go of the children, and takes them back by the label
// that ties them to their owner. No pod notices.
func TestOrphanAndReadopt(t *testing.T) {
	t.Parallel()
	s := begin(t, "web")
	s.install(3, nil)
	s.delete(metav1.DeletePropagationOrphan)
	s.guard.keep(3)
	s.create(spec(3, "1.0", nil))
	if *applyStrategy == cluster.DynamicApply {
		// What is there is not ours until somebody says so.
		s.says("web-")
	}
	created, err := s.gr().Get(s.ctx, s.name, metav1.GetOptions{})
	s.must(err)
	s.kubectl("label", "deployments,configmaps", "-l", greyrelease.LabelName+"=web", "controller-uid="+string(created.GetUID()), "--overwrite")
	s.settled("1.0")
	s.stays(map[string]int{"1.0": 3})
	s.made(map[string]int{"1.0": 3})
	s.patch(object{"targetVersion": "2.0"})
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 3})
	s.made(map[string]int{"1.0": 3, "2.0": 3})
}
