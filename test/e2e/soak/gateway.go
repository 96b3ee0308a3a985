package main

import (
	"context"
	"time"

	"greyrelease.example.com/test/e2e/gateway"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// accept stands for a gateway: it accepts each version of each route, a moment after it was
// stored. Requests are sent by nobody here.
func (w *world) accept(ctx context.Context) {
	routes := w.dynamic.Resource(gateway.HTTPRoutes).Namespace(w.namespace)
	for ctx.Err() == nil {
		pause(ctx, 500*time.Millisecond)
		list, err := routes.List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the API server is away
		}
		for i := range list.Items {
			u := &list.Items[i]
			if !accepted(u) {
				// An error is another attempt in the next round.
				_, _ = routes.UpdateStatus(ctx, u, metav1.UpdateOptions{})
			}
		}
	}
}

// accepted tells whether a route says that its generation is accepted, and makes it say so.
func accepted(u *unstructured.Unstructured) bool {
	parents, _, _ := unstructured.NestedSlice(u.Object, "status", "parents")
	for _, p := range parents {
		p, _ := p.(object)
		conditions, _, _ := unstructured.NestedSlice(p, "conditions")
		for _, c := range conditions {
			if c, _ := c.(object); c["observedGeneration"] == u.GetGeneration() {
				return true
			}
		}
	}
	u.Object["status"] = object{"parents": []any{object{
		"parentRef":      object{"group": gateway.HTTPRoutes.Group, "kind": "Gateway", "name": gatewayName},
		"controllerName": gateway.Controller,
		"conditions": []any{object{
			"type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
			"observedGeneration": u.GetGeneration(), "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}},
	}}}
	return false
}
