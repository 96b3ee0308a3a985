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
	"k8s.io/apimachinery/pkg/util/intstr"
)

// tale is a history that the book is told, a second for each change.
type tale struct {
	*testing.T
	book     *book
	now      time.Time
	breaches []breach
	uid      types.UID
}

// begin tells of a release of 4 replicas of version 1 that are all out.
func begin(t *testing.T) *tale {
	t.Helper()
	tl := &tale{T: t, now: time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC), uid: "release"}
	tl.book = newBook(false, func(b breach) { tl.breaches = append(tl.breaches, b) })
	tl.release(1, 4, 1)
	tl.snapshot("web-rev-1")
	tl.deployment("1", 4)
	for i := range 4 {
		tl.pod("1", i, true)
	}
	tl.clean()
	return tl
}

func (t *tale) see(name string, object any, gone bool) {
	t.now = t.now.Add(time.Second)
	t.book.see(change{name: name, at: t.now, object: object, gone: gone})
}

func (t *tale) release(generation int64, replicas int32, observed int64) {
	t.see("web", &greyrelease.GreyRelease{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: t.uid, Generation: generation},
		Spec:       greyrelease.GreyReleaseSpec{Replicas: &replicas},
		Status:     &greyrelease.GreyReleaseStatus{ObservedGeneration: observed},
	}, false)
}

func labels(version string) map[string]string {
	return map[string]string{greyrelease.LabelName: "web", greyrelease.LabelRevision: "hash" + version, greyrelease.LabelNumber: version}
}

func (t *tale) snapshot(name string) {
	t.see(name, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels("1")}}, false)
}

func (t *tale) asked(version string, replicas int32) *appsv1.Deployment {
	yes := true
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "web-hash" + version, UID: types.UID("deployment" + version), Labels: labels(version),
		Annotations:     map[string]string{greyrelease.AnnotationVersion: version},
		OwnerReferences: []metav1.OwnerReference{{UID: t.uid, Controller: &yes}},
	}}
	d.Spec.Replicas = &replicas
	return d
}

func (t *tale) deployment(version string, replicas int32) {
	t.see("deployment", t.asked(version, replicas), false)
}

func aPod(version string, i int, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%s-%d", version, i), UID: types.UID(fmt.Sprintf("pod-%s-%d", version, i)), Labels: labels(version)}}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func (t *tale) pod(version string, i int, ready bool) { t.see("pod", aPod(version, i, ready), false) }

func (t *tale) lose(i int) { t.see("pod", aPod("1", i, false), true) }

func (t *tale) tick() {
	t.now = t.now.Add(time.Second)
	t.book.tick(t.now)
}

// clean wants no promise broken so far.
func (t *tale) clean() {
	t.Helper()
	for _, b := range t.breaches {
		t.Errorf("want nothing, got %s", b)
	}
}

// broken wants one promise broken, of a rule and with a text.
func (t *tale) broken(rule, text string) {
	t.Helper()
	if len(t.breaches) != 1 || t.breaches[0].rule != rule || !strings.Contains(t.breaches[0].text, text) {
		t.Errorf("want one breach of %q that says %q, got %v", rule, text, t.breaches)
	}
}

// batch tells of a batch of one pod that keeps all promises.
func (t *tale) batch() {
	t.snapshot("web-rev-2")
	t.deployment("2", 1)
	t.pod("2", 0, false)
	t.pod("2", 0, true)
	t.deployment("1", 3)
	t.lose(0)
	t.tick()
}

func TestGoodBatch(t *testing.T) {
	tl := begin(t)
	tl.batch()
	tl.clean()
	counts, margins := tl.book.sum()
	if counts.completions != 1 || margins["web"] != 0 || counts.pods != 5 {
		t.Errorf("want 1 version out, a margin of 0 and 5 pods, got %+v and %v", counts, margins)
	}
}

func TestTakeDownTooEarly(t *testing.T) {
	tl := begin(t)
	tl.snapshot("web-rev-2")
	tl.deployment("2", 1)
	tl.pod("2", 0, false)
	tl.deployment("1", 3)
	tl.broken(ruleTakeDown, "want at least 4 of 4 available pods left, got 3")
}

func TestPodGoesWithoutTakeDown(t *testing.T) {
	tl := begin(t)
	tl.lose(0)
	tl.broken(ruleFloor, "want at least 4 available, got 3")
}

func TestCrashIsNobodysTakeDown(t *testing.T) {
	tl := begin(t)
	tl.pod("1", 0, false)
	tl.clean()
	// It lifts the promise only until that is met again.
	tl.pod("1", 0, true)
	tl.lose(1)
	tl.broken(ruleFloor, "got 3")
}

// TestAnswerOlderThanALoss: Metacontroller was cut off when a Deployment was deleted, and
// carries out what was right before. It may take as many pods too many, and no more.
func TestAnswerOlderThanALoss(t *testing.T) {
	for took, rule := range map[int32]string{1: "", 2: ruleTakeDown} {
		tl := begin(t)
		tl.snapshot("web-rev-2")
		tl.deployment("2", 1)
		tl.pod("2", 0, false)
		tl.pod("2", 0, true)
		tl.book.begin(tl.now, false)
		tl.book.takes("web", []corev1.Pod{*aPod("2", 0, true)}, false, "web-hash2")
		tl.see("deployment", tl.asked("2", 1), true)
		tl.see("pod", aPod("2", 0, false), true)
		tl.now = tl.now.Add(40 * time.Second)
		tl.deployment("1", 4-took)
		if rule == "" {
			tl.lose(0)
			tl.clean()
		} else {
			tl.broken(rule, "got 2")
		}
	}
}

// TestReadyOnItsWayOut: a pod that becomes ready when its Deployment was scaled to 0 already
// is nothing that could be kept.
func TestReadyOnItsWayOut(t *testing.T) {
	tl := begin(t)
	tl.release(2, 5, 2)
	tl.now = tl.now.Add(linger)
	tl.tick()
	tl.snapshot("web-rev-2")
	tl.deployment("2", 1)
	tl.pod("2", 0, false)
	tl.deployment("2", 0)
	tl.pod("2", 0, true)
	tl.see("pod", aPod("2", 0, false), true)
	tl.clean()
}

func TestTooManyAskedFor(t *testing.T) {
	tl := begin(t)
	tl.snapshot("web-rev-2")
	tl.deployment("2", 2)
	tl.broken(ruleCeiling, "want at most 5 pods asked for, got 6")
}

func TestPodInThePlaceOfAnother(t *testing.T) {
	tl := begin(t)
	tl.batch()
	tl.pod("2", 7, false)
	tl.tick()
	tl.broken(ruleRestart, "raised by 1 in all, and 2")
}

func TestPodMadeInDoubt(t *testing.T) {
	tl := begin(t)
	tl.book.begin(tl.now, true)
	tl.pod("1", 7, true)
	tl.book.end(tl.now, true)
	tl.tick()
	tl.clean()
	// Afterwards all are counted again.
	tl.now = tl.now.Add(time.Minute)
	tl.tick()
	tl.pod("1", 8, true)
	tl.tick()
	tl.broken(ruleRestart, "raised by 0 in all, and 1")
}

func TestTemplateChanged(t *testing.T) {
	tl := begin(t)
	d := tl.asked("1", 4)
	d.Spec.Template.Spec.NodeName = "other"
	tl.see("deployment", d, false)
	tl.broken(ruleTemplate, "other")
}

func TestDeploymentBeforeItsSnapshot(t *testing.T) {
	tl := begin(t)
	tl.deployment("2", 1)
	tl.broken(ruleSnapshot, "want web-rev-2")
}

func TestDeploymentDropped(t *testing.T) {
	tl := begin(t)
	tl.batch()
	tl.see("deployment", tl.asked("1", 3), true)
	// It takes pods away as well.
	if len(tl.breaches) != 2 || tl.breaches[1].rule != ruleDropped {
		t.Errorf("want a Deployment dropped, got %v", tl.breaches)
	}
}

func TestHandDeletesDeployment(t *testing.T) {
	tl := begin(t)
	tl.book.takes("web", nil, false, "web-hash1")
	tl.see("deployment", tl.asked("1", 4), true)
	for i := range 4 {
		tl.lose(i)
	}
	d := tl.asked("1", 4)
	d.UID = "another"
	tl.see("deployment", d, false)
	for i := range 4 {
		tl.pod("1", 10+i, true)
	}
	tl.tick()
	tl.clean()
	// The promise holds again.
	tl.lose(10)
	tl.broken(ruleFloor, "got 3")
}

func TestHandDeletesPod(t *testing.T) {
	tl := begin(t)
	tl.book.takes("web", []corev1.Pod{*aPod("1", 0, true)}, true, "")
	tl.lose(0)
	tl.pod("1", 7, true)
	tl.tick()
	tl.clean()
	tl.pod("1", 8, true)
	tl.tick()
	tl.broken(ruleRestart, "")
}

// TestHandIsFaster: a pod is deleted before the book has heard of it.
func TestHandIsFaster(t *testing.T) {
	tl := begin(t)
	tl.release(2, 5, 2)
	tl.deployment("1", 5)
	tl.book.takes("web", []corev1.Pod{*aPod("1", 4, true)}, true, "")
	tl.pod("1", 4, true)
	tl.lose(4)
	tl.pod("1", 5, true)
	tl.tick()
	tl.clean()
}

func TestScaledByUser(t *testing.T) {
	tl := begin(t)
	// Out: until there are as many, the old floor holds.
	tl.release(2, 8, 1)
	tl.deployment("1", 8)
	tl.release(2, 8, 2)
	tl.now = tl.now.Add(linger)
	tl.tick()
	for i := range 4 {
		tl.pod("1", 4+i, true)
	}
	tl.clean()
	// In: what is taken down was asked for.
	tl.release(3, 2, 3)
	tl.deployment("1", 2)
	for i := range 6 {
		tl.lose(i)
	}
	tl.clean()
	// But not one more.
	tl.lose(6)
	tl.broken(ruleFloor, "want at least 2 available, got 1")
}

func TestDeletedAndCreatedAgain(t *testing.T) {
	tl := begin(t)
	tl.book.takes("web", nil, false, "")
	tl.see("web", &greyrelease.GreyRelease{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: tl.uid}}, true)
	tl.uid = "second"
	tl.release(1, 4, 0)
	for i := range 4 {
		tl.lose(i)
	}
	tl.clean()
	tl.snapshot("web-rev-1")
	d := tl.asked("1", 4)
	d.UID = "second deployment"
	tl.see("deployment", d, false)
	for i := range 4 {
		tl.pod("1", 10+i, true)
	}
	tl.clean()
	tl.lose(10)
	tl.broken(ruleFloor, "got 3")
}

func TestGap(t *testing.T) {
	all := func(tl *tale, asked int32, pods int) []change {
		replicas := int32(4)
		list := []change{
			{object: &greyrelease.GreyRelease{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: tl.uid, Generation: 1}, Spec: greyrelease.GreyReleaseSpec{Replicas: &replicas}}},
			{object: tl.asked("1", asked)},
		}
		for i := range pods {
			list = append(list, change{object: aPod("1", i, true)})
		}
		return list
	}
	t.Run("nothing happened", func(t *testing.T) {
		tl := begin(t)
		tl.book.reset(all(tl, 4, 4), tl.now)
		tl.clean()
	})
	t.Run("pods are missing", func(t *testing.T) {
		tl := begin(t)
		tl.book.reset(all(tl, 3, 3), tl.now)
		tl.broken(ruleFloor, "want at least 4 available, got 3 after a gap")
	})
	t.Run("too many are asked for", func(t *testing.T) {
		tl := begin(t)
		tl.book.reset(all(tl, 6, 4), tl.now)
		tl.broken(ruleCeiling, "after a gap")
	})
}

func TestRoute(t *testing.T) {
	tl := begin(t)
	tl.batch()
	tl.see("route", &route{labels: labels("1"), rules: []map[string]int{{"web-hash1": 50, "web-hash2": 50}}}, false)
	tl.clean()
	tl.see("route", &route{labels: labels("1"), rules: []map[string]int{{"web-hash1": 60, "web-hash2": 50}}}, false)
	tl.broken(ruleRoute, "sum to 100")
}

func TestPodsTakenFromRequests(t *testing.T) {
	tl := begin(t)
	tl.batch()
	tl.see("route", &route{labels: labels("1"), rules: []map[string]int{{"web-hash1": 75, "web-hash2": 25}}}, false)
	tl.deployment("1", 4)
	tl.pod("1", 8, true)
	tl.deployment("2", 0)
	tl.broken(ruleRoute, "web-hash2 went to 0 and has weight 25")
}

func TestServerSideIsNotJudgedInTrouble(t *testing.T) {
	tl := begin(t)
	tl.book.blindly = true
	tl.snapshot("web-rev-2")
	tl.book.begin(tl.now, false)
	tl.deployment("2", 2)
	tl.book.end(tl.now, false)
	tl.clean()
	tl.deployment("2", 0)
	tl.now = tl.now.Add(time.Minute)
	tl.deployment("2", 2)
	tl.broken(ruleCeiling, "")
}

func TestLimits(t *testing.T) {
	number := func(n int32) *intstr.IntOrString { v := intstr.FromInt32(n); return &v }
	share := func(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }
	replicas := int32(10)
	for _, c := range []struct {
		why                string
		surge, unavailable *intstr.IntOrString
		want               limits
	}{
		{"defaults", nil, nil, limits{10, 10, 13}},
		{"numbers", number(1), number(2), limits{10, 8, 11}},
		{"shares: surge rounds up, unavailable down", share("15%"), share("15%"), limits{10, 9, 12}},
		{"both come to nothing", number(0), share("5%"), limits{10, 9, 10}},
		{"more than there are", number(0), number(20), limits{10, 0, 10}},
	} {
		if got := limitsOf(&greyrelease.GreyReleaseSpec{Replicas: &replicas, MaxSurge: c.surge, MaxUnavailable: c.unavailable}); got != c.want {
			t.Errorf("%s: want %+v, got %+v", c.why, c.want, got)
		}
	}
}
