package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"greyrelease.example.com/hooks/greyrelease"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (u *user) wipe(ctx context.Context, _ *rand.Rand) (string, error) {
	return "done", u.patch(ctx, object{"status": nil}, "status")
}

func (u *user) loseRecord(ctx context.Context, _ *rand.Rand) (string, error) {
	name := u.name + "-rollout"
	return name, u.remove(ctx, func(ctx context.Context) error {
		return u.client.CoreV1().ConfigMaps(u.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// remove deletes something that may be gone already.
func (u *user) remove(ctx context.Context, act func(context.Context) error) error {
	return u.retry(ctx, func(ctx context.Context) error {
		err := act(ctx)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // gone, or another one of that name
		}
		return err
	})
}

// deployments are those of the release that run.
func (u *user) deployments(ctx context.Context) ([]appsv1.Deployment, error) {
	var list *appsv1.DeploymentList
	err := u.retry(ctx, func(ctx context.Context) (err error) {
		list, err = u.client.AppsV1().Deployments(u.namespace).List(ctx, metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=" + u.name})
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return d.DeletionTimestamp != nil }), nil
}

// loseSnapshot deletes the snapshot of a revision that has a Deployment: from that, nothing
// is lost. The snapshot of a revision that is pinned stays: its content is nowhere in the
// spec, so that it could not be made again, and to pin what is not kept is invalid.
func (u *user) loseSnapshot(ctx context.Context, r *rand.Rand) (string, error) {
	u.mu.Lock()
	pinned := u.pin
	u.mu.Unlock()
	if pinned != "" {
		return "", nil
	}
	list, err := u.deployments(ctx)
	if err != nil || len(list) == 0 {
		return "", err
	}
	name := u.name + "-rev-" + list[r.IntN(len(list))].Labels[greyrelease.LabelNumber]
	u.book.takes(u.name, nil, false, name)
	return name, u.remove(ctx, func(ctx context.Context) error {
		return u.client.CoreV1().ConfigMaps(u.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// loseDeployment deletes a Deployment whose snapshot is there: from that it comes back.
func (u *user) loseDeployment(ctx context.Context, r *rand.Rand) (string, error) {
	list, err := u.deployments(ctx)
	if err != nil {
		return "", err
	}
	kept, err := u.snapshots(ctx)
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(d appsv1.Deployment) bool {
		return !slices.ContainsFunc(kept, func(s snapshot) bool { return s.name == u.name+"-rev-"+d.Labels[greyrelease.LabelNumber] })
	})
	if len(list) == 0 {
		return "", nil
	}
	d := list[r.IntN(len(list))]
	pods, err := u.pods(ctx, d.Labels[greyrelease.LabelRevision])
	if err != nil {
		return "", err
	}
	u.book.takes(u.name, pods, false, d.Name)
	background := metav1.DeletePropagationBackground
	return d.Name, u.remove(ctx, func(ctx context.Context) error {
		return u.client.AppsV1().Deployments(u.namespace).Delete(ctx, d.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &d.UID}})
	})
}

// pods are those of a revision, or of all for "", that are not on their way out.
func (u *user) pods(ctx context.Context, revision string) ([]corev1.Pod, error) {
	selector := greyrelease.LabelName + "=" + u.name
	if revision != "" {
		selector += "," + greyrelease.LabelRevision + "=" + revision
	}
	var list *corev1.PodList
	err := u.retry(ctx, func(ctx context.Context) (err error) {
		list, err = u.client.CoreV1().Pods(u.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// losePod deletes a pod, as a node that is drained does.
func (u *user) losePod(ctx context.Context, r *rand.Rand) (string, error) {
	pods, err := u.pods(ctx, "")
	if err != nil || len(pods) == 0 {
		return "", err
	}
	p := pods[r.IntN(len(pods))]
	u.book.takes(u.name, []corev1.Pod{p}, true, "")
	return p.Name, u.remove(ctx, func(ctx context.Context) error {
		return u.client.CoreV1().Pods(u.namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	})
}

// beginAgain deletes the release and creates it once more, with what it had or with
// another version, while what it left is still being collected.
func (u *user) beginAgain(ctx context.Context, r *rand.Rand) (string, error) {
	same, replicas := r.IntN(2) == 0, u.shape.replicas[r.IntN(len(u.shape.replicas))]
	u.mu.Lock()
	c := u.current
	u.mu.Unlock()
	if !same || c.fate != "" {
		c = u.next("")
	}
	pods, err := u.pods(ctx, "")
	if err != nil {
		return "", err
	}
	u.book.takes(u.name, pods, false, "")
	background := metav1.DeletePropagationBackground
	if err := u.remove(ctx, func(ctx context.Context) error {
		return u.gr().Delete(ctx, u.name, metav1.DeleteOptions{PropagationPolicy: &background})
	}); err != nil {
		return "", err
	}
	if err := u.retry(ctx, func(ctx context.Context) error {
		_, err := u.gr().Get(ctx, u.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s is still there", u.name)
		}
		return err
	}); err != nil {
		return "", err
	}
	return "again with " + c.version, u.create(context.WithoutCancel(ctx), c, replicas)
}
