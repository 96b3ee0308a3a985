package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// teller tells one story in a namespace. After an error it does nothing more.
type teller struct {
	*stage
	ctx       context.Context
	namespace string
	rests     []rest
	err       error
}

func (t *teller) must(what string, err error) {
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("cannot %s: %w", what, err)
	}
}

func (t *teller) on(resource string) dynamic.ResourceInterface {
	gvr, ok := resources[resource]
	if !ok {
		panic("unknown resource " + resource)
	}
	return t.dyn.Resource(gvr).Namespace(t.namespace)
}

// create creates an object that is written in YAML.
func (t *teller) create(resource, manifest string) {
	if t.err != nil {
		return
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, "\t", " ")), &u.Object); err != nil {
		t.must("read manifest", err)
		return
	}
	_, err := t.on(resource).Create(t.ctx, u, metav1.CreateOptions{FieldManager: "teller"})
	t.must("create "+resource, err)
}

// patch merges YAML into an object.
func (t *teller) patch(resource, name, patch string, subresources ...string) {
	if t.err != nil {
		return
	}
	text, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(patch, "\t", " ")))
	if err != nil {
		t.must("read patch", err)
		return
	}
	_, err = t.on(resource).Patch(t.ctx, name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: "teller"}, subresources...)
	t.must("patch "+resource+" "+name, err)
}

// replace puts a spec in the place of an object's.
func (t *teller) replace(resource, name, spec string) {
	if t.err != nil {
		return
	}
	text, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(spec, "\t", " ")))
	if err != nil {
		t.must("read spec", err)
		return
	}
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec", "value": %s}]`, text)
	_, err = t.on(resource).Patch(t.ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "teller"})
	t.must("replace the spec of "+resource+" "+name, err)
}

func (t *teller) delete(resource, name string, propagation metav1.DeletionPropagation) {
	if t.err != nil {
		return
	}
	t.must("delete "+resource+" "+name, t.on(resource).Delete(t.ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation}))
}

func (t *teller) get(resource, name string) *unstructured.Unstructured {
	if t.err != nil {
		return &unstructured.Unstructured{}
	}
	u, err := t.on(resource).Get(t.ctx, name, metav1.GetOptions{})
	t.must("get "+resource+" "+name, err)
	if err != nil {
		return &unstructured.Unstructured{}
	}
	return u
}

// relabel ties all objects of a kind to the parent, as the documentation tells
// people whose release was restored.
func (t *teller) relabel(resource, parentResource, parent string) {
	uid := t.get(parentResource, parent).GetUID()
	if t.err != nil {
		return
	}
	list, err := t.on(resource).List(t.ctx, metav1.ListOptions{LabelSelector: "controller-uid"})
	t.must("list "+resource, err)
	if err != nil {
		return
	}
	for _, u := range list.Items {
		t.patch(resource, u.GetName(), fmt.Sprintf(`{"metadata":{"labels":{"controller-uid":%q}}}`, uid))
	}
}

// named returns the name of the newest Deployment of a version.
func (t *teller) named(version string) string {
	if t.err != nil {
		return ""
	}
	list, err := t.on("deployments").List(t.ctx, metav1.ListOptions{})
	t.must("list deployments", err)
	if err != nil {
		return ""
	}
	for _, u := range list.Items {
		if u.GetAnnotations()["greyrelease.example.com/version"] == version {
			return u.GetName()
		}
	}
	t.must("find a Deployment", fmt.Errorf("there is none of version %s", version))
	return ""
}

// command does what the message of the release says.
func (t *teller) command(verb string) {
	if t.err != nil {
		return
	}
	message, _, err := unstructured.NestedString(t.get("greyreleases", "web").Object, "status", "message")
	t.must("read message", err)
	found := regexp.MustCompile(`greyrelease.example.com/command='(` + verb + ` [^']*)'`).FindStringSubmatch(message)
	if found == nil {
		t.must("run the command", fmt.Errorf("message has none to %s: %s", verb, message))
		return
	}
	value, err := json.Marshal(found[1])
	t.must("encode command", err)
	t.patch("greyreleases", "web", fmt.Sprintf(`{"metadata":{"annotations":{"greyrelease.example.com/command":%s}}}`, value))
}

// patience is how long it may take to come to rest.
const patience = 2 * time.Minute

// rest waits until Metacontroller has written nothing in the namespace for some
// time. The service holds counts of pods back for up to two seconds, which take
// longer on a busy machine.
func (t *teller) rest() { t.silent(5 * time.Second) }

func (t *teller) silent(silence time.Duration) {
	if t.err != nil {
		return
	}
	deadline := time.Now().Add(patience)
	last, since := -1, time.Now()
	for time.Since(since) < silence {
		n, err := t.log.count(t.namespace)
		t.must("read audit log", err)
		moving, err := t.moving()
		t.must("look at pods", err)
		if t.err != nil {
			return
		}
		if n != last || moving != "" {
			last, since = n, time.Now()
		}
		if time.Now().After(deadline) {
			t.must("come to rest", fmt.Errorf("after %d writes there still is movement: %s", n, moving))
			return
		}
		select {
		case <-t.ctx.Done():
			t.must("rest", t.ctx.Err())
			return
		case <-time.After(150 * time.Millisecond):
		}
	}
	there, err := t.parents()
	t.must("look at parents", err)
	t.rests = append(t.rests, rest{last, there})
}

// rest is when everything was at rest: after how many writes, and which parents were
// there then.
type rest struct {
	writes int
	there  map[string]bool
}

func (t *teller) parents() (map[string]bool, error) {
	there := map[string]bool{}
	for _, resource := range []string{"greyreleases", "mirrors", "oldmirrors"} {
		list, err := t.on(resource).List(t.ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, u := range list.Items {
			there[resource+" "+u.GetName()] = true
		}
	}
	return there, nil
}

// moving names something in the namespace that Kubernetes is still busy with: on a
// busy machine, that nobody writes for a while is not enough to be at rest.
func (t *teller) moving() (string, error) {
	deployments, err := t.on("deployments").List(t.ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, u := range deployments.Items {
		seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		wanted, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		pods, _, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
		going, _, _ := unstructured.NestedInt64(u.Object, "status", "terminatingReplicas")
		if seen != u.GetGeneration() || pods != wanted || going != 0 {
			return "Deployment " + u.GetName(), nil
		}
	}
	pods, err := t.on("pods").List(t.ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, u := range pods.Items {
		statuses, _, _ := unstructured.NestedSlice(u.Object, "status", "containerStatuses")
		if len(statuses) == 0 || u.GetDeletionTimestamp() != nil {
			return "Pod " + u.GetName(), nil
		}
	}
	return "", nil
}
