package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// world is what users and trouble work on.
type world struct {
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
	book      *book
	journal   *journal
	counter   *tally
}

// tally counts what was done, by kind.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (t *tally) add(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[kind]++
}

func (t *tally) all() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	copied := map[string]int{}
	for kind, n := range t.n {
		copied[kind] = n
	}
	return copied
}

// user works on one release. What it wants is known, so what must come of it is as well.
type user struct {
	*world
	shape
	name string
	seed uint64
	moves,
	numbered int

	mu       sync.Mutex
	current  content
	pin      string // the version of the revision that is pinned
	replicas int
	told     []content // in this life of the release
	// left are versions that may have been given up by a command or by a pin: they count
	// as failed until something else is wanted, and which of both came first is chance.
	left map[string]bool
}

func newUser(w *world, s shape, name string, seed uint64) *user {
	return &user{world: w, shape: s, name: name, seed: seed, left: map[string]bool{}}
}

// outcome is what must come of what a user wants.
type outcome struct {
	replicas int
	scaled   bool // by somebody else, so that the spec counts
	// version is the one that must be out; others that may be are not.
	version string
	// healthy and rolledBack say which ends are right.
	healthy, rolledBack bool
	// completed are those that were out once: only to them is there a way back.
	completed []string
}

func (u *user) outcome() outcome {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, completed := u.book.reached(u.name, time.Now())
	o := outcome{replicas: u.replicas, scaled: u.scaler, version: u.current.version, healthy: true, completed: completed}
	switch {
	case u.pin != "":
		o.version = u.pin
	case u.current.fate != "":
		o.healthy, o.rolledBack = false, true
	case u.left[u.current.version]:
		o.rolledBack = true
	}
	return o
}

// gr is the client of releases.
func (w *world) gr() dynamic.ResourceInterface {
	return w.dynamic.Resource(releases).Namespace(w.namespace)
}

// retry does something until it is done or refused: the API server comes and goes.
func (w *world) retry(ctx context.Context, act func(ctx context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := act(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
			return err
		}
		pause(ctx, 300*time.Millisecond)
	}
}

// patch merges into the release.
func (u *user) patch(ctx context.Context, change object, subresources ...string) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return u.retry(ctx, func(ctx context.Context) error {
		_, err := u.gr().Patch(ctx, u.name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
		return err
	})
}

func (u *user) edit(ctx context.Context, spec object) error {
	return u.patch(ctx, object{"spec": spec})
}

// create makes the release, which may be there already if an answer got lost.
func (u *user) create(ctx context.Context, c content, replicas int) error {
	u.mu.Lock()
	u.current, u.pin, u.replicas = c, "", replicas
	u.told, u.left = []content{c}, map[string]bool{}
	u.mu.Unlock()
	o := &unstructured.Unstructured{Object: object{
		"apiVersion": "greyrelease.example.com/v1", "kind": "GreyRelease",
		"metadata": object{"name": u.name}, "spec": u.shape.create(c, replicas),
	}}
	if err := u.retry(ctx, func(ctx context.Context) error {
		_, err := u.gr().Create(ctx, o, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	if u.scaler {
		return u.scale(ctx, replicas)
	}
	return nil
}

// scale changes the replicas, or has the autoscaler do it.
func (u *user) scale(ctx context.Context, replicas int) error {
	u.mu.Lock()
	u.replicas = replicas
	u.mu.Unlock()
	if !u.scaler {
		return u.edit(ctx, object{"replicas": int64(replicas)})
	}
	n, utilization := int32(replicas), int32(80)
	scalers := u.client.AutoscalingV2().HorizontalPodAutoscalers(u.namespace)
	return u.retry(ctx, func(ctx context.Context) error {
		scaler, err := scalers.Get(ctx, u.name, metav1.GetOptions{})
		if err == nil {
			scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = &n, n
			_, err = scalers.Update(ctx, scaler, metav1.UpdateOptions{})
			return err
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		_, err = scalers.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: u.name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "greyrelease.example.com/v1", Kind: "GreyRelease", Name: u.name},
				MinReplicas:    &n, MaxReplicas: n,
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
					Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
				}}},
			},
		}, metav1.CreateOptions{})
		return err
	})
}

// tell wants another content.
func (u *user) tell(ctx context.Context, c content, more object) error {
	u.mu.Lock()
	u.current, u.pin = c, ""
	if !slices.Contains(u.told, c) {
		u.told = append(u.told, c)
	}
	u.mu.Unlock()
	spec := c.wanted()
	for name, value := range more {
		spec[name] = value
	}
	return u.edit(ctx, spec)
}

// next is a version that there was not before.
func (u *user) next(fate string) content {
	u.numbered++
	version := fmt.Sprintf("%d.0", u.numbered)
	if fate != "" {
		version += "-" + fate
	}
	return content{version, fate}
}

// draws is the chance of one move: which one it is depends on the seed and its number
// alone, whatever the moves before it have found.
func (u *user) draws() *rand.Rand {
	u.moves++
	name := uint64(0)
	for _, b := range []byte(u.name) {
		name = name*131 + uint64(b)
	}
	return rand.New(rand.NewPCG(u.seed, name<<20+uint64(u.moves)))
}

// snapshot is one of the release's revisions.
type snapshot struct {
	name, version string
	number        int64
}

// snapshots are those of this life of the release, the newest first.
func (u *user) snapshots(ctx context.Context) ([]snapshot, error) {
	var list *corev1.ConfigMapList
	var owner *unstructured.Unstructured
	err := u.retry(ctx, func(ctx context.Context) (err error) {
		if owner, err = u.gr().Get(ctx, u.name, metav1.GetOptions{}); err != nil {
			return err
		}
		list, err = u.client.CoreV1().ConfigMaps(u.namespace).List(ctx, metav1.ListOptions{LabelSelector: greyrelease.LabelName + "=" + u.name})
		return err
	})
	if err != nil {
		return nil, err
	}
	var found []snapshot
	for i := range list.Items {
		c := &list.Items[i]
		number, err := strconv.ParseInt(c.Labels[greyrelease.LabelNumber], 10, 64)
		if by := metav1.GetControllerOf(c); err != nil || by == nil || by.UID != owner.GetUID() || !strings.Contains(c.Name, "-rev-") {
			continue
		}
		found = append(found, snapshot{c.Name, c.Annotations[greyrelease.AnnotationVersion], number})
	}
	slices.SortFunc(found, func(a, b snapshot) int { return int(b.number - a.number) })
	return found, nil
}

// content is what a version of this life was told with.
func (u *user) content(version string) (content, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.IndexFunc(u.told, func(c content) bool { return c.version == version })
	if i < 0 {
		return content{}, false
	}
	return u.told[i], true
}
