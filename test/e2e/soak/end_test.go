package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// owned is the metadata of a child.
func owned(name, version string, owner types.UID) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: name, UID: types.UID("uid of " + name), Labels: labels(version),
		Annotations:     map[string]string{greyrelease.AnnotationVersion: version},
		OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &yes}},
	}
}

// atRestWith is a release of 2 replicas of version 1 after version 2 failed, or before it
// was told.
func atRestWith(phase greyrelease.Phase) *state {
	replicas, yes := int32(2), true
	ready, target := metav1.ConditionTrue, int64(1)
	updated, spec := int64(2), "1"
	if phase == greyrelease.PhaseRolledBack {
		ready, target, updated, spec = metav1.ConditionFalse, 2, 0, "2"
	}
	s := &state{release: &greyrelease.GreyRelease{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "release", Generation: 3},
		Spec:       greyrelease.GreyReleaseSpec{Replicas: &replicas, TargetVersion: spec},
		Status: &greyrelease.GreyReleaseStatus{
			ObservedGeneration: 3, Phase: phase, TargetRevision: target, StableVersion: "1", StableRevision: 1,
			Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, UpdatedReplicas: updated,
			Conditions: []metav1.Condition{{Type: greyrelease.ConditionReady, Status: ready}},
		},
	}}
	d := appsv1.Deployment{ObjectMeta: owned("web-hash1", "1", "release")}
	d.Spec.Replicas, d.Status.AvailableReplicas = &replicas, 2
	s.deployments = []appsv1.Deployment{d}
	s.sets = []appsv1.ReplicaSet{{ObjectMeta: owned("web-hash1-set", "1", d.UID)}}
	for i := range 2 {
		p := aPod("1", i, true)
		p.Spec.Containers = []corev1.Container{{Image: "nginx:1"}}
		s.pods = append(s.pods, *p)
	}
	record := owned("web-rollout", "1", "release")
	delete(record.Labels, greyrelease.LabelNumber)
	snapshot := corev1.ConfigMap{
		ObjectMeta: owned(fmt.Sprintf("web-rev-%d", target), fmt.Sprint(target), "release"), Immutable: &yes,
		Data: map[string]string{"spec.json": `{"targetVersion":"` + spec + `"}`},
	}
	s.configMaps = []corev1.ConfigMap{{ObjectMeta: record}, snapshot}
	return s
}

func TestEnd(t *testing.T) {
	healthy := outcome{replicas: 2, version: "1", healthy: true}
	failed := outcome{replicas: 2, version: "2", rolledBack: true, completed: []string{"1"}}
	for _, c := range []struct {
		why    string
		phase  greyrelease.Phase
		want   outcome
		change func(*state)
		wrong  string
	}{
		{"as wanted", greyrelease.PhaseHealthy, healthy, func(*state) {}, ""},
		{"back as wanted", greyrelease.PhaseRolledBack, failed, func(*state) {}, ""},
		{"a good version is given up", greyrelease.PhaseRolledBack, outcome{replicas: 2, version: "2", healthy: true, completed: []string{"1"}}, func(*state) {}, "want 2 out, got RolledBack"},
		{"a bad version is out", greyrelease.PhaseHealthy, failed, func(*state) {}, "want 2 rolled back, got Healthy"},
		{"back at what was never out", greyrelease.PhaseRolledBack, failed, func(s *state) { s.release.Status.StableVersion = "0" }, "want to be back at one of [1]"},
		{"not at an end", greyrelease.PhaseHealthy, healthy, func(s *state) { s.release.Status.Phase = greyrelease.PhasePromoting }, "want an end, got Promoting"},
		{"the spec was not seen", greyrelease.PhaseHealthy, healthy, func(s *state) { s.release.Generation++ }, "want a status for generation 4"},
		{"another size", greyrelease.PhaseHealthy, outcome{replicas: 3, version: "1", healthy: true}, func(*state) {}, "want 3 replicas in the spec"},
		{"no Deployment", greyrelease.PhaseHealthy, healthy, func(s *state) { s.deployments = nil }, "want a Deployment of 1"},
		{"another one has pods", greyrelease.PhaseHealthy, healthy, func(s *state) {
			d := s.deployments[0].DeepCopy()
			d.Name, d.UID = "web-hash2", "other"
			d.Annotations[greyrelease.AnnotationVersion] = "2"
			s.deployments = append(s.deployments, *d)
		}, "want 0 pods of web-hash2"},
		{"a template was changed", greyrelease.PhaseHealthy, healthy, func(s *state) { s.sets = append(s.sets, s.sets[0]) }, "want one ReplicaSet of web-hash1, got 2"},
		{"a pod is not ready", greyrelease.PhaseHealthy, healthy, func(s *state) { s.pods[0].Status.Conditions = nil }, "got 1 and 2 in all"},
		{"a pod is left", greyrelease.PhaseHealthy, healthy, func(s *state) { s.pods = append(s.pods, s.pods[0]) }, "got 3 and 3 in all"},
		{"no record", greyrelease.PhaseHealthy, healthy, func(s *state) { s.configMaps = s.configMaps[1:] }, "want a record"},
		{"no snapshot", greyrelease.PhaseHealthy, healthy, func(s *state) { s.configMaps = s.configMaps[:1] }, "got true and false"},
		{"a snapshot of something else", greyrelease.PhaseHealthy, healthy, func(s *state) { s.configMaps[1].Data["spec.json"] = `{"targetVersion":"9"}` }, "want 1 in web-rev-1, got 9"},
		{"a snapshot that can be changed", greyrelease.PhaseHealthy, healthy, func(s *state) { s.configMaps[1].Immutable = nil }, "want web-rev-1 immutable"},
		{"too many snapshots", greyrelease.PhaseHealthy, healthy, func(s *state) {
			limit := int32(0)
			s.release.Spec.RevisionHistoryLimit = &limit
			for range 5 {
				s.configMaps = append(s.configMaps, s.configMaps[1])
			}
		}, "want at most 4 snapshots, got 6"},
		{"the status counts wrong", greyrelease.PhaseHealthy, healthy, func(s *state) { s.release.Status.ReadyReplicas = 1 }, "in the status, got [2 1 2 2]"},
		{"the status names another version", greyrelease.PhaseHealthy, healthy, func(s *state) { s.release.Status.StableVersion = "9" }, "want stable version 1"},
		{"not Ready", greyrelease.PhaseHealthy, healthy, func(s *state) { s.release.Status.Conditions = nil }, "want Ready to go with phase Healthy"},
		{"a child of an earlier release", greyrelease.PhaseHealthy, healthy, func(s *state) { s.configMaps[1].OwnerReferences[0].UID = "other" }, "want web-rev-1 owned by the release"},
		{"a ReplicaSet of nobody", greyrelease.PhaseHealthy, healthy, func(s *state) { s.sets[0].OwnerReferences[0].UID = "other" }, "want ReplicaSet web-hash1-set owned"},
		{"no release", greyrelease.PhaseHealthy, healthy, func(s *state) { s.release = nil }, "there is no release"},
	} {
		s := atRestWith(c.phase)
		c.change(s)
		got := s.wrong(c.want)
		if (c.wrong == "") != (got == "") || !strings.Contains(got, c.wrong) {
			t.Errorf("%s: want %q, got %q", c.why, c.wrong, got)
		}
	}
}

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		why   string
		rests []usage
		grows bool
	}{
		{"too few to tell", []usage{{20 << 10, 10}, {90 << 10, 10}}, false},
		{"up and down", []usage{{20 << 10, 10}, {40 << 10, 12}, {60 << 10, 11}, {25 << 10, 10}, {30 << 10, 12}, {28 << 10, 11}}, false},
		{"memory goes up", []usage{{20 << 10, 10}, {24 << 10, 10}, {30 << 10, 10}, {40 << 10, 10}, {50 << 10, 10}, {60 << 10, 10}}, true},
		{"files are left open", []usage{{20 << 10, 10}, {20 << 10, 20}, {20 << 10, 40}, {20 << 10, 60}, {20 << 10, 80}, {20 << 10, 100}}, true},
	} {
		s := series{rests: c.rests}
		if got := s.grows(); (got != "") != c.grows {
			t.Errorf("%s: want growth %t, got %q", c.why, c.grows, got)
		}
	}
}

// A run that saw nothing is no good one.
func TestBlind(t *testing.T) {
	s := &soak{world: &world{book: newBook(false, nil)}}
	if s.blind() == nil {
		t.Error("want an error of a run without a rest")
	}
	s.slowest = time.Second
	if s.blind() == nil {
		t.Error("want an error of a run that judged nothing")
	}
	s.breaches = []breach{{}}
	if err := s.blind(); err != nil {
		t.Errorf("want a run with breaches to end as one, got %v", err)
	}
	s.breaches, s.book.counts.judged = nil, 1
	if err := s.blind(); err != nil {
		t.Errorf("want no error, got %v", err)
	}
}
