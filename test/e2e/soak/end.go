package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/e2e/cluster"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// state is what there is of one release, read from the API server at once.
type state struct {
	release     *greyrelease.GreyRelease // nil if there is none
	deployments []appsv1.Deployment
	sets        []appsv1.ReplicaSet
	pods        []corev1.Pod
	configMaps  []corev1.ConfigMap
}

// look reads the state of all releases, by name. What has the label of a release that is
// not there is found under its name.
func (w *world) look(ctx context.Context) (map[string]*state, error) {
	states := map[string]*state{}
	of := func(labels map[string]string) *state {
		name := labels[greyrelease.LabelName]
		if states[name] == nil {
			states[name] = &state{}
		}
		return states[name]
	}
	all := metav1.ListOptions{LabelSelector: greyrelease.LabelName}
	list, err := w.gr().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		o := &greyrelease.GreyRelease{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, o); err != nil {
			return nil, err
		}
		of(map[string]string{greyrelease.LabelName: o.Name}).release = o
	}
	deployments, err := w.client.AppsV1().Deployments(w.namespace).List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range deployments.Items {
		s := of(o.Labels)
		s.deployments = append(s.deployments, o)
	}
	sets, err := w.client.AppsV1().ReplicaSets(w.namespace).List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range sets.Items {
		s := of(o.Labels)
		s.sets = append(s.sets, o)
	}
	pods, err := w.client.CoreV1().Pods(w.namespace).List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range pods.Items {
		s := of(o.Labels)
		s.pods = append(s.pods, o)
	}
	configMaps, err := w.client.CoreV1().ConfigMaps(w.namespace).List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range configMaps.Items {
		s := of(o.Labels)
		s.configMaps = append(s.configMaps, o)
	}
	return states, nil
}

// wrong compares a state with what must have come of the user's wishes, and returns the
// first difference or "".
func (s *state) wrong(want outcome) string {
	if s == nil || s.release == nil {
		return "there is no release"
	}
	replicas := want.replicas
	if s.release.Spec.Replicas == nil || int(*s.release.Spec.Replicas) != replicas {
		return fmt.Sprintf("want %d replicas in the spec, got %v", replicas, s.release.Spec.Replicas)
	}
	if s.release.Status == nil || s.release.Status.ObservedGeneration != s.release.Generation {
		return fmt.Sprintf("want a status for generation %d, got %+v", s.release.Generation, s.release.Status)
	}
	serving, text := s.serving(want)
	for _, check := range []func() string{
		func() string { return text },
		func() string { return s.wrongDeployments(serving, replicas) },
		func() string { return s.wrongPods(serving, replicas) },
		func() string { return s.wrongConfigMaps(want) },
		func() string { return s.wrongStatus(serving, replicas) },
		s.wrongOwners,
	} {
		if text := check(); text != "" {
			return text
		}
	}
	return ""
}

// serving is the version that must have all pods.
func (s *state) serving(want outcome) (version, wrong string) {
	st := s.release.Status
	if st.Phase == greyrelease.PhaseHealthy {
		if !want.healthy {
			return "", fmt.Sprintf("want %s rolled back, got Healthy: %s", want.version, st.Message)
		}
		return want.version, ""
	}
	if st.Phase != greyrelease.PhaseRolledBack {
		return "", fmt.Sprintf("want an end, got %s: %s", st.Phase, st.Message)
	}
	if !want.rolledBack {
		return "", fmt.Sprintf("want %s out, got RolledBack: %s", want.version, st.Message)
	}
	if st.StableVersion == want.version || !slices.Contains(want.completed, st.StableVersion) {
		return "", fmt.Sprintf("want to be back at one of %v, got %s", want.completed, st.StableVersion)
	}
	return st.StableVersion, ""
}

// wrongDeployments: one has all pods, and each has exactly one ReplicaSet: a second one is
// a template that was changed.
func (s *state) wrongDeployments(serving string, replicas int) string {
	found := false
	for i := range s.deployments {
		d := asDeployment(&s.deployments[i])
		want := 0
		if d.version == serving {
			want, found = replicas, true
			if n := int(s.deployments[i].Status.AvailableReplicas); n != replicas {
				return fmt.Sprintf("want %d pods of %s available, got %d", replicas, d.name, n)
			}
		}
		if d.asked != want {
			return fmt.Sprintf("want %d pods of %s, %s, asked for, got %d", want, d.name, d.version, d.asked)
		}
		sets := 0
		for _, set := range s.sets {
			if by := metav1.GetControllerOf(&set); by != nil && by.UID == s.deployments[i].UID {
				sets++
			}
		}
		if sets > 1 {
			return fmt.Sprintf("want one ReplicaSet of %s, got %d", d.name, sets)
		}
	}
	if !found && replicas > 0 {
		return fmt.Sprintf("want a Deployment of %s, got none", serving)
	}
	return ""
}

func (s *state) wrongPods(serving string, replicas int) string {
	ready := 0
	for i := range s.pods {
		image := s.pods[i].Spec.Containers[0].Image
		if cluster.Ready(&s.pods[i]) && image[strings.LastIndex(image, ":")+1:] == serving {
			ready++
		}
	}
	if ready != replicas || len(s.pods) != replicas {
		return fmt.Sprintf("want %d ready pods of %s and no others, got %d and %d in all", replicas, serving, ready, len(s.pods))
	}
	return ""
}

// wrongConfigMaps: the target's snapshot is there and says what the spec says, and so is
// the record; nothing is kept that is too old.
func (s *state) wrongConfigMaps(want outcome) string {
	record, target := false, false
	numbers := 0
	for i := range s.configMaps {
		c := &s.configMaps[i]
		number, err := strconv.ParseInt(c.Labels[greyrelease.LabelNumber], 10, 64)
		if err != nil {
			record = record || c.Name == s.release.Name+"-rollout"
			continue
		}
		numbers++
		if c.Immutable == nil || !*c.Immutable {
			return fmt.Sprintf("want %s immutable", c.Name)
		}
		if number != s.release.Status.TargetRevision {
			continue
		}
		target = true
		var spec greyrelease.GreyReleaseSpec
		if err := json.Unmarshal([]byte(c.Data["spec.json"]), &spec); err != nil {
			return fmt.Sprintf("want a spec in %s: %v", c.Name, err)
		}
		if spec.TargetVersion != want.version {
			return fmt.Sprintf("want %s in %s, got %s", want.version, c.Name, spec.TargetVersion)
		}
	}
	if !record || !target {
		return fmt.Sprintf("want a record and the snapshot of revision %d, got %t and %t", s.release.Status.TargetRevision, record, target)
	}
	limit := 10
	if n := s.release.Spec.RevisionHistoryLimit; n != nil {
		limit = int(*n)
	}
	// Those that have a Deployment are kept beside the limit.
	if most := limit + 3 + len(s.deployments); numbers > most {
		return fmt.Sprintf("want at most %d snapshots, got %d", most, numbers)
	}
	return ""
}

// wrongStatus: it says what there is.
func (s *state) wrongStatus(serving string, replicas int) string {
	st := s.release.Status
	updated := replicas
	if st.Phase == greyrelease.PhaseRolledBack {
		updated = 0
	}
	got := [4]int64{st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpdatedReplicas}
	want := [4]int64{int64(replicas), int64(replicas), int64(replicas), int64(updated)}
	if got != want {
		return fmt.Sprintf("want %v pods in all, ready, available and updated in the status, got %v", want, got)
	}
	if st.StableVersion != serving {
		return fmt.Sprintf("want stable version %s in the status, got %s", serving, st.StableVersion)
	}
	ready := metav1.ConditionFalse
	for _, c := range st.Conditions {
		if c.Type == greyrelease.ConditionReady {
			ready = c.Status
		}
	}
	if (ready == metav1.ConditionTrue) != (st.Phase == greyrelease.PhaseHealthy) {
		return fmt.Sprintf("want Ready to go with phase %s, got %s", st.Phase, ready)
	}
	return ""
}

// wrongOwners: nothing is left of a release that was deleted.
func (s *state) wrongOwners() string {
	var owners []metav1.ObjectMeta
	for _, d := range s.deployments {
		owners = append(owners, d.ObjectMeta)
	}
	for _, c := range s.configMaps {
		owners = append(owners, c.ObjectMeta)
	}
	for i := range owners {
		if by := metav1.GetControllerOf(&owners[i]); by == nil || by.UID != s.release.UID {
			return fmt.Sprintf("want %s owned by the release, got %v", owners[i].Name, by)
		}
	}
	for i := range s.sets {
		by := metav1.GetControllerOf(&s.sets[i])
		if by == nil || !slices.ContainsFunc(s.deployments, func(d appsv1.Deployment) bool { return d.UID == by.UID }) {
			return fmt.Sprintf("want ReplicaSet %s owned by a Deployment that is there, got %v", s.sets[i].Name, by)
		}
	}
	return ""
}
