package sim

import (
	"fmt"

	"greyrelease.example.com/test/sim/apply"

	utilyaml "sigs.k8s.io/yaml"
)

// user is the client and field manager that people are.
const user = "kubectl"

// Release names a GreyRelease in the namespace default.
func Release(name string) Ref { return Ref{Releases, "default", name} }

// Deployment names a Deployment in the namespace default.
func Deployment(name string) Ref { return Ref{Deployments, "default", name} }

// ConfigMap names a ConfigMap in the namespace default.
func ConfigMap(name string) Ref { return Ref{ConfigMaps, "default", name} }

// Secret names a Secret in the namespace default.
func Secret(name string) Ref { return Ref{Secrets, "default", name} }

// Service names a Service in the namespace default.
func Service(name string) Ref { return Ref{Services, "default", name} }

// HTTPRoute names an HTTPRoute in the namespace default.
func HTTPRoute(name string) Ref { return Ref{HTTPRoutes, "default", name} }

// Ingress names an Ingress in the namespace default.
func Ingress(name string) Ref { return Ref{Ingresses, "default", name} }

// Parse reads an object from YAML. A namespace that is absent is "default".
func Parse(text string) (map[string]any, error) {
	data, err := utilyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("cannot read YAML: %w", err)
	}
	tree, err := apply.Decode(data)
	if err != nil {
		return nil, err
	}
	if meta := apply.Object(tree, "metadata"); meta != nil && meta["namespace"] == nil {
		meta["namespace"] = "default"
	}
	return tree, nil
}

// Apply creates an object, or replaces the spec and data of the one there is.
func (c *Cluster) Apply(tree map[string]any) error {
	ref, err := refOf(tree)
	if err != nil {
		return err
	}
	c.logf("user applies %s", ref)
	c.editing(ref)
	old := c.Server.Get(ref)
	if old == nil {
		_, err = c.Server.Create(user, tree)
		return err
	}
	next := old.Tree
	for _, name := range []string{"spec", "data", "binaryData", "immutable"} {
		next = with(next, name, tree[name])
	}
	_, err = c.Server.Update(user, next, "")
	return err
}

// Edit merges a JSON merge patch into an object.
func (c *Cluster) Edit(ref Ref, patch map[string]any) error {
	c.logf("user edits %s: %v", ref, patch)
	c.editing(ref)
	_, err := c.Server.Patch(user, ref, patch, "")
	return err
}

// Scale sets replicas through the scale subresource.
func (c *Cluster) Scale(ref Ref, replicas int64) error {
	c.logf("user scales %s to %d", ref, replicas)
	c.touched(ref)
	_, err := c.Server.Patch(user, ref, map[string]any{"spec": map[string]any{"replicas": replicas}}, "scale")
	return err
}

// Annotate sets an annotation; an empty value removes it.
func (c *Cluster) Annotate(ref Ref, name, value string) error {
	c.logf("user annotates %s: %s=%s", ref, name, value)
	c.editing(ref)
	var v any
	if value != "" {
		v = value
	}
	_, err := c.Server.Patch(user, ref, map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: v}}}, "")
	return err
}

// Delete deletes an object. propagation is Background, Foreground or Orphan.
func (c *Cluster) Delete(ref Ref, propagation string) error {
	c.logf("user deletes %s", ref)
	c.touched(ref)
	return c.Server.Delete(user, ref, "", propagation)
}

// Wipe removes the status of an object.
func (c *Cluster) Wipe(ref Ref) error {
	c.logf("user wipes the status of %s", ref)
	o := c.Server.Get(ref)
	if o == nil {
		return fmt.Errorf("%s not found", ref)
	}
	_, err := c.Server.Update(user, with(o.Tree, "status", nil), "status")
	return err
}

// RestartRollout does what kubectl rollout restart does to a Deployment.
func (c *Cluster) RestartRollout(ref Ref) error {
	return c.Edit(ref, map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": stamp(c.clock.now)},
	}}}})
}

// touched notes that somebody laid hands on a child.
func (c *Cluster) touched(ref Ref) {
	if ref.Kind != Releases {
		c.lastHand = c.clock.now
	}
}

// editing notes that somebody changes more of a child than its size.
func (c *Cluster) editing(ref Ref) {
	c.touched(ref)
	if o := c.Server.Get(ref); o != nil {
		c.edited[o.UID] = true
	}
}
