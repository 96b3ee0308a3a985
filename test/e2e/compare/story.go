package main

import (
	"context"
	"sync"

	"greyrelease.example.com/test/e2e/cluster"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// story is something that users and programs do to a cluster, one after the other.
// Between two steps everything comes to rest, so that what Metacontroller sees at
// a step is the same each time.
type story struct {
	name string
	tell func(*teller)
	// alone is for stories that disturb everybody.
	alone bool
}

// resources are the kinds that stories touch and that are compared.
var resources = map[string]schema.GroupVersionResource{
	"configmaps":   {Version: "v1", Resource: "configmaps"},
	"deployments":  {Group: "apps", Version: "v1", Resource: "deployments"},
	"greyreleases": {Group: "greyrelease.example.com", Version: "v1", Resource: "greyreleases"},
	"mirrors":      {Group: mirrorGroup, Version: "v1", Resource: "mirrors"},
	"oldmirrors":   {Group: mirrorGroup, Version: "v1", Resource: "oldmirrors"},
	"pods":         {Version: "v1", Resource: "pods"},
	"secrets":      {Version: "v1", Resource: "secrets"},
	"services":     {Version: "v1", Resource: "services"},
}

// stage is what all stories share.
type stage struct {
	plane *cluster.Cluster
	dyn   dynamic.Interface
	log   *auditLog
	hook  *mirrorHook
	real  string // path of the Metacontroller to compare with
}

// told is one telling of a story: what Metacontroller wrote, by object, and what
// there was in the end.
type told struct {
	writes map[string][]string
	end    map[string]string
	count  int // of writes, before any of them are taken as one
	err    error
}

// tell tells stories in namespaces of their own, some at a time.
func (s *stage) tell(ctx context.Context, stories []story, prefix string, atOnce int) map[string]*told {
	results := map[string]*told{}
	var mu sync.Mutex
	one := func(st story) {
		result := s.tellOne(ctx, st, prefix+"-"+st.name)
		mu.Lock()
		defer mu.Unlock()
		results[st.name] = result
	}
	slots := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for _, st := range stories {
		if st.alone {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			one(st)
		})
	}
	group.Wait()
	for _, st := range stories {
		if st.alone {
			one(st)
		}
	}
	return results
}

func (s *stage) tellOne(ctx context.Context, st story, namespace string) *told {
	t := &teller{stage: s, ctx: ctx, namespace: namespace}
	namespaces := s.dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	_, err := namespaces.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}, metav1.CreateOptions{})
	t.must("create namespace", err)
	if t.err == nil {
		st.tell(t)
	}
	result := &told{err: t.err}
	if t.err == nil {
		result.writes, result.count, err = s.log.of(namespace, t.rests)
		t.must("read audit log", err)
		result.end = t.endState()
		result.err = t.err
	}
	s.letGo(ctx, namespace)
	background := metav1.DeletePropagationBackground
	if err := namespaces.Delete(ctx, namespace, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil && result.err == nil {
		result.err = err
	}
	return result
}

// letGo removes finalizers: nobody is left who would.
func (s *stage) letGo(ctx context.Context, namespace string) {
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	for _, gvr := range resources {
		list, err := s.dyn.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the namespace then says that it does not end
		}
		for _, u := range list.Items {
			if len(u.GetFinalizers()) > 0 {
				_, _ = s.dyn.Resource(gvr).Namespace(namespace).Patch(ctx, u.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
			}
		}
	}
}
