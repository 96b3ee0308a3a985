package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// object is a JSON object.
type object = map[string]any

// kind is what a fleet consists of.
type kind struct {
	resource schema.GroupVersionResource
	// make returns the spec and the way to another version.
	spec func(replicas int64, version string) object
	next func(version string) string // a merge patch
	// out tells whether a version is out completely.
	out func(u *unstructured.Unstructured, version string) bool
	api string
	of  string
}

func podTemplate(image string) object {
	return object{"spec": object{"containers": []any{object{
		"name": "web", "image": image, "ports": []any{object{"containerPort": int64(80)}},
		"resources": object{"requests": object{"cpu": "10m", "memory": "16Mi"}},
	}}}}
}

// deployments are plain Deployments, with the limits that a release has by default.
var deployments = kind{
	resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
	api:      "apps/v1", of: "Deployment",
	spec: func(replicas int64, version string) object {
		template := podTemplate("nginx:" + version)
		template["metadata"] = object{"labels": object{"app": "web"}}
		return object{
			"replicas": replicas, "template": template,
			"strategy": object{"rollingUpdate": object{"maxSurge": "25%", "maxUnavailable": int64(0)}},
		}
	},
	next: func(version string) string {
		return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:%s"}]}}}}`, version)
	},
	out: func(u *unstructured.Unstructured, version string) bool {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		want, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		count := func(name string) int64 {
			n, _, _ := unstructured.NestedInt64(u.Object, "status", name)
			return n
		}
		return containers[0].(object)["image"] == "nginx:"+version && count("observedGeneration") == u.GetGeneration() &&
			count("replicas") == want && count("updatedReplicas") == want && count("availableReplicas") == want
	},
}

// releases are GreyReleases, with a plan.
func releases(plan object) kind {
	return kind{
		resource: schema.GroupVersionResource{Group: "greyrelease.example.com", Version: "v1", Resource: "greyreleases"},
		api:      "greyrelease.example.com/v1", of: "GreyRelease",
		spec: func(replicas int64, version string) object {
			spec := object{"replicas": replicas, "targetVersion": version, "template": podTemplate("nginx")}
			for name, value := range plan {
				spec[name] = value
			}
			return spec
		},
		next: func(version string) string { return fmt.Sprintf(`{"spec":{"targetVersion":"%s"}}`, version) },
		out: func(u *unstructured.Unstructured, version string) bool {
			phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
			stable, _, _ := unstructured.NestedString(u.Object, "status", "stableVersion")
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			for _, c := range conditions {
				if c := c.(object); c["type"] == "Ready" && c["status"] != "True" {
					return false
				}
			}
			return phase == "Healthy" && stable == version
		},
	}
}

// fleet are objects of one kind in a namespace of their own.
type fleet struct {
	kind
	namespace string
	size      int
	client    dynamic.ResourceInterface
}

// launch creates a fleet and waits until its first version is out.
func (b *bench) launch(ctx context.Context, k kind, namespace string, size int, replicas int64) (*fleet, error) {
	_, err := b.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot create namespace: %w", err)
	}
	f := &fleet{kind: k, namespace: namespace, size: size, client: b.dynamic.Resource(k.resource).Namespace(namespace)}
	_, err = f.until(ctx, "1.0", func(i int) error {
		spec := k.spec(replicas, "1.0")
		if k.of == "Deployment" {
			labels := object{"app": "web", "of": name(i)}
			spec["selector"] = object{"matchLabels": labels}
			spec["template"].(object)["metadata"] = object{"labels": labels}
		}
		_, err := f.client.Create(ctx, &unstructured.Unstructured{Object: object{
			"apiVersion": k.api, "kind": k.of, "metadata": object{"name": name(i)}, "spec": spec,
		}}, metav1.CreateOptions{})
		return err
	})
	return f, err
}

// update brings another version to all of them at once, and returns how long each
// took, from the moment at which the first one was touched.
func (f *fleet) update(ctx context.Context, version string) ([]time.Duration, error) {
	how := types.MergePatchType
	if f.of == "Deployment" {
		how = types.StrategicMergePatchType // a merge patch would replace the container
	}
	return f.until(ctx, version, func(i int) error {
		_, err := f.client.Patch(ctx, name(i), how, []byte(f.next(version)), metav1.PatchOptions{})
		return err
	})
}

func name(i int) string { return fmt.Sprintf("web-%03d", i) }

// until does something to each object, 20 at a time, and waits until a version of
// all of them is out. It fails if that takes longer than 30 minutes.
func (f *fleet) until(ctx context.Context, version string, act func(i int) error) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	started := time.Now()
	acted := make(chan error, 1)
	go func() { acted <- inParallel(f.size, act) }()
	done := map[string]time.Duration{}
	for len(done) < f.size {
		if err := f.follow(ctx, func(u *unstructured.Unstructured) bool {
			if _, ok := done[u.GetName()]; !ok && f.out(u, version) {
				done[u.GetName()] = time.Since(started)
			}
			return len(done) == f.size
		}); err != nil {
			return nil, fmt.Errorf("%d of %d are out after %v: %w", len(done), f.size, time.Since(started).Round(time.Second), err)
		}
	}
	if err := <-acted; err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, d := range done {
		took = append(took, d)
	}
	return took, nil
}

// follow shows each object and then each change of one, until enough says so or
// the watch ends.
func (f *fleet) follow(ctx context.Context, enough func(*unstructured.Unstructured) bool) error {
	list, err := f.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("cannot list: %w", err)
	}
	for i := range list.Items {
		if enough(&list.Items[i]) {
			return nil
		}
	}
	w, err := f.client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return fmt.Errorf("cannot watch: %w", err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return nil // the watch is too old, so that another one begins
		}
		if enough(u) {
			return nil
		}
	}
	return ctx.Err()
}

// inParallel calls act for each of n, 20 at a time.
func inParallel(n int, act func(i int) error) error {
	next := make(chan int)
	errs := make([]error, n)
	var workers sync.WaitGroup
	for range 20 {
		workers.Go(func() {
			for i := range next {
				errs[i] = act(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

// scrap deletes the namespace and waits until it is gone.
func (b *bench) scrap(ctx context.Context, f *fleet) error {
	namespaces := b.client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, f.namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("cannot delete namespace: %w", err)
	}
	for {
		_, err := namespaces.Get(ctx, f.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot look for namespace: %w", err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
