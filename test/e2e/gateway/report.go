package gateway

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Controller is the name under which the gateway reports.
const Controller = "test.example.com/gateway"

// Verdict is what the gateway says of a route.
type Verdict string

const (
	// Accept reports the truth.
	Accept Verdict = ""
	// Refuse reports Accepted=False at once, and goes on with what it served before.
	Refuse Verdict = "refuse"
	// Stale serves the route and reports Accepted=True for the generation before.
	Stale Verdict = "stale"
	// Never serves the route and reports nothing.
	Never Verdict = "never"
	// Foreign serves the route and reports nothing; another controller accepts it for
	// a parent that the route does not name.
	Foreign Verdict = "foreign"
)

// Manners are how the gateway goes about its work.
type Manners struct {
	// Delay is how long after a change of a route it is served and reported on.
	// Endpoints are followed at once.
	Delay   time.Duration
	Verdict Verdict
	// Why is the message of a refusal.
	Why string
}

// Manners are those at the moment.
func (g *Gateway) Manners() Manners {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.manners
}

// Behave changes its manners.
func (g *Gateway) Behave(m Manners) {
	g.mu.Lock()
	g.manners = m
	g.mu.Unlock()
	g.poke()
}

// report writes the status of a route.
func (g *Gateway) report(ctx context.Context, u *unstructured.Unstructured, manners Manners) error {
	g.mu.Lock()
	s := g.applied[u.GetUID()]
	g.mu.Unlock()
	if manners.Verdict == Never || manners.Verdict != Refuse && s.generation != u.GetGeneration() {
		return nil
	}
	before, _, err := unstructured.NestedSlice(u.Object, "status", "parents")
	if err != nil {
		return fmt.Errorf("cannot read status of route %s: %w", u.GetName(), err)
	}
	var parents []any
	for _, p := range before { // those of others stay
		if parent, ok := p.(map[string]any); ok && parent["controllerName"] != Controller {
			parents = append(parents, p)
		}
	}
	if manners.Verdict == Foreign {
		parents = foreign(before, u.GetGeneration())
	} else {
		for _, ref := range g.refs(u) {
			parents = append(parents, g.parent(ref, before, s, u.GetGeneration(), manners))
		}
	}
	if reflect.DeepEqual(before, parents) {
		return nil
	}
	u = u.DeepCopy()
	if err := unstructured.SetNestedSlice(u.Object, parents, "status", "parents"); err != nil {
		return fmt.Errorf("cannot set status of route %s: %w", u.GetName(), err)
	}
	_, err = g.Dynamic.Resource(HTTPRoutes).Namespace(g.Namespace).UpdateStatus(ctx, u, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the change wakes the gateway again
	}
	return err
}

// parent is the entry of one parentRef.
func (g *Gateway) parent(ref map[string]any, before []any, s served, generation int64, manners Manners) map[string]any {
	accepted := condition("Accepted", true, "Accepted", "", generation)
	resolved := condition("ResolvedRefs", true, "ResolvedRefs", "", generation)
	switch {
	case manners.Verdict == Refuse:
		accepted = condition("Accepted", false, "NotAllowedByListeners", manners.Why, generation)
	case s.wrong != nil:
		accepted = condition("Accepted", false, "UnsupportedValue", s.wrong.Error(), generation)
	case manners.Verdict == Stale:
		accepted = condition("Accepted", true, "Accepted", "", max(1, generation-1))
	}
	if len(s.broken) > 0 {
		resolved = condition("ResolvedRefs", false, "BackendNotFound", strings.Join(s.broken, ", "), generation)
	}
	conditions := []any{accepted, resolved}
	for _, p := range before {
		parent, ok := p.(map[string]any)
		if !ok || parent["controllerName"] != Controller || !reflect.DeepEqual(parent["parentRef"], any(ref)) {
			continue
		}
		if old, ok := parent["conditions"].([]any); ok {
			keepTimes(conditions, old)
		}
	}
	return map[string]any{"parentRef": ref, "controllerName": Controller, "conditions": conditions}
}

// keepTimes gives conditions whose status is what it was the time that they had.
func keepTimes(conditions, old []any) {
	for _, c := range conditions {
		for _, o := range old {
			is, _ := c.(map[string]any)
			was, _ := o.(map[string]any)
			if is["type"] == was["type"] && is["status"] == was["status"] {
				is["lastTransitionTime"] = was["lastTransitionTime"]
			}
		}
	}
}

func condition(kind string, holds bool, reason, message string, generation int64) map[string]any {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	return map[string]any{
		"type": kind, "status": string(status), "reason": reason, "message": message,
		"observedGeneration": generation, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}
}

// foreign is the entry of another controller for another Gateway; once is enough.
func foreign(before []any, generation int64) []any {
	for _, p := range before {
		parent, ok := p.(map[string]any)
		if !ok || parent["controllerName"] != "other.example.com/gateway" {
			continue
		}
		conditions, _ := parent["conditions"].([]any)
		if c, ok := conditions[0].(map[string]any); ok && c["observedGeneration"] == generation {
			return before
		}
	}
	return []any{map[string]any{
		"parentRef":      map[string]any{"group": HTTPRoutes.Group, "kind": "Gateway", "name": "another"},
		"controllerName": "other.example.com/gateway",
		"conditions":     []any{condition("Accepted", true, "Accepted", "", generation)},
	}}
}
