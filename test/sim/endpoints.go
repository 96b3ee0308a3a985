package sim

import (
	"fmt"
	"slices"
	"strings"

	"greyrelease.example.com/test/sim/apply"
)

// serviceName is the label by which an EndpointSlice names its Service.
const serviceName = "kubernetes.io/service-name"

// endpoints is what the endpoint controller knows of one Service.
type endpoints struct {
	ref   Ref
	uid   string
	ready []*Pod // as last written into the EndpointSlice
	wake  *event // the sync that is planned
}

// onService is the endpoint controller's watch on Services.
func (c *Cluster) onService(e Event) {
	if e.Ref().Kind != Services {
		return
	}
	if e.New == nil {
		// The slice goes when the garbage collector finds it.
		if s := c.services[e.Old.Ref]; s != nil && s.uid == e.Old.UID {
			s.wake.stop()
			delete(c.services, e.Old.Ref)
		}
		return
	}
	s := c.services[e.New.Ref]
	if s == nil || s.uid != e.New.UID {
		s = &endpoints{ref: e.New.Ref, uid: e.New.UID}
		c.services[s.ref] = s
	}
	if e.Old == nil || !apply.Equal(e.Old.Tree["spec"], e.New.Tree["spec"]) || !apply.Equal(apply.Field(e.Old.Tree, "metadata", "labels"), apply.Field(e.New.Tree, "metadata", "labels")) {
		c.wakeEndpoints(s)
	}
}

// podMoved is the endpoint controller's watch on pods: one of the set is ready,
// is not ready any more, or is gone.
func (c *Cluster) podMoved(set *replicaSet) {
	if len(c.services) == 0 {
		return
	}
	c.roads++
	for _, s := range c.allEndpoints() {
		o := c.Server.Get(s.ref)
		if s.ref.Namespace == set.namespace && o != nil && matches(apply.Object(o.Tree, "spec", "selector"), set.labels) {
			c.wakeEndpoints(s)
		}
	}
}

// allEndpoints is sorted, so that delays are drawn in one order.
func (c *Cluster) allEndpoints() []*endpoints {
	list := make([]*endpoints, 0, len(c.services))
	for _, s := range c.services {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *endpoints) int { return strings.Compare(a.ref.Key(), b.ref.Key()) })
	return list
}

func (c *Cluster) wakeEndpoints(s *endpoints) {
	if s.wake == nil {
		s.wake = c.clock.after(c.lag(c.options.Controllers), func() {
			s.wake = nil
			c.syncEndpoints(s)
		})
	}
}

// syncEndpoints writes the one EndpointSlice that a Service has here. Pods that
// are not ready or on their way out are in it and say so.
func (c *Cluster) syncEndpoints(s *endpoints) {
	o := c.Server.Get(s.ref)
	if o == nil || o.UID != s.uid || o.Deleting() {
		return
	}
	var ready []*Pod
	list := []any{}
	for _, p := range c.selected(o) {
		if p.node == nil {
			continue
		}
		if p.Ready {
			ready = append(ready, p)
		}
		list = append(list, map[string]any{
			"addresses":  []any{p.address()},
			"conditions": map[string]any{"ready": p.Ready, "serving": p.Ready, "terminating": p.Terminating},
			"nodeName":   p.node.name,
			"targetRef":  map[string]any{"kind": "Pod", "name": p.Name, "namespace": s.ref.Namespace},
		})
	}
	labels := apply.CloneMap(apply.Object(o.Tree, "metadata", "labels"))
	if labels == nil {
		labels = map[string]any{}
	}
	labels[serviceName] = o.Name
	labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io"
	slice := map[string]any{
		"apiVersion": EndpointSlices.APIVersion(), "kind": EndpointSlices.Name, "addressType": "IPv4",
		"metadata": map[string]any{
			"name": fmt.Sprintf("%s-%s", o.Name, o.UID[len(o.UID)-5:]), "namespace": o.Namespace, "labels": labels,
			"ownerReferences": []any{map[string]any{
				"apiVersion": "v1", "kind": Services.Name, "name": o.Name, "uid": o.UID, "controller": true, "blockOwnerDeletion": true,
			}},
		},
		"endpoints": list,
		"ports":     slicePorts(o),
	}
	if err := c.writeSlice(slice); err != nil {
		c.logf("cannot write endpoints of %s: %v", s.ref, err)
		c.wakeEndpoints(s)
		return
	}
	s.ready = ready
	c.roads++
	c.logf("service %s has %d ready endpoints of %d", o.Name, len(ready), len(list))
}

func (c *Cluster) writeSlice(slice map[string]any) error {
	ref, err := refOf(slice)
	if err != nil {
		return err
	}
	if c.Server.Get(ref) == nil {
		_, err = c.Server.Create(controllerManager, slice)
	} else {
		_, err = c.Server.Update(controllerManager, slice, "")
	}
	return err
}

// slicePorts are the ports of a Service as its slice has them: of the pods.
func slicePorts(service *Object) []any {
	var list []any
	for _, p := range apply.List(service.Tree, "spec", "ports") {
		port := map[string]any{"name": apply.Text(p, "name"), "protocol": apply.Text(p, "protocol"), "port": number(p, "port")}
		if n := number(p, "targetPort"); n > 0 {
			port["port"] = n
		}
		list = append(list, port)
	}
	return list
}

// selected are the pods that a Service selects, in the order in which they were made.
func (c *Cluster) selected(service *Object) []*Pod {
	selector := apply.Object(service.Tree, "spec", "selector")
	var list []*Pod
	for _, s := range c.sets() {
		if s.namespace == service.Namespace && matches(selector, s.labels) {
			list = append(list, s.pods...)
		}
	}
	return list
}

// address is the pod's, made from its number.
func (p *Pod) address() string {
	return fmt.Sprintf("10.%d.%d.%d", p.number>>16&255, p.number>>8&255, p.number&255)
}
