package sim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// kubelet is who writes pods and their statuses. A finalizer of that name holds a
// pod that is being deleted until it is gone, in place of the grace period.
const kubelet = "kubelet"

// showPod plans that the API server is told of a pod: what happens to it shows after
// a moment. Only where pods are looked at are they in the store.
func (c *Cluster) showPod(p *Pod) {
	if !c.options.Pods || p.show != nil {
		return
	}
	p.show = c.clock.after(c.lag(c.options.Controllers), func() {
		p.show = nil
		if err := c.writePod(p); err != nil {
			c.logf("cannot write pod %s: %v", p.Name, err)
			c.showPod(p)
		}
	})
}

func (c *Cluster) writePod(p *Pod) error {
	ref := Ref{Pods, p.set.namespace, p.Name}
	o := c.Server.Get(ref)
	switch {
	case o == nil && p.gone:
		return nil
	case o == nil:
		_, err := c.Server.Create(kubelet, c.podTree(p, kubelet))
		return err
	case p.Terminating && !o.Deleting():
		if err := c.Server.Delete(kubelet, ref, o.UID, Background); err != nil {
			return err
		}
	}
	finalizers := []any{kubelet}
	if p.gone {
		finalizers = nil
	}
	_, err := c.Server.Update(kubelet, c.podTree(p, finalizers...), "")
	return err
}

// podTree is a pod as far as anybody looks at it.
func (c *Cluster) podTree(p *Pod, finalizers ...any) map[string]any {
	scheduled := map[string]any{"type": "PodScheduled", "status": "True"}
	status := map[string]any{"phase": "Pending", "conditions": []any{scheduled}}
	if p.node == nil {
		scheduled["status"], scheduled["reason"] = "False", "Unschedulable"
		scheduled["message"] = fmt.Sprintf("0/%d nodes are available: %d Insufficient cpu. preemption: no victims found.", len(c.nodes), len(c.nodes))
	} else {
		if !p.Image() {
			status["phase"] = "Running"
		}
		status["containerStatuses"] = []any{c.containerStatus(p)}
	}
	tree := map[string]any{
		"apiVersion": Pods.APIVersion(), "kind": Pods.Name,
		"metadata": map[string]any{"name": p.Name, "namespace": p.set.namespace, "labels": apply.CloneMap(p.set.labels)},
		"status":   status,
	}
	if len(finalizers) > 0 {
		tree["metadata"].(map[string]any)["finalizers"] = finalizers
	}
	return tree
}

func (c *Cluster) containerStatus(p *Pod) map[string]any {
	container := apply.List(p.set.template, "spec", "containers")[0]
	name, image := apply.Text(container, "name"), apply.Text(container, "image")
	// Of a lost node nobody says anything new about its containers.
	status := map[string]any{"name": name, "ready": p.Ready || !p.node.up && p.Reason == "", "restartCount": int64(p.Restarts(c.clock.now))}
	waiting := map[string]any{"reason": p.Reason}
	switch p.Reason {
	case "":
		status["state"] = map[string]any{"running": map[string]any{}}
		return status
	case "ImagePullBackOff":
		waiting["message"] = fmt.Sprintf("Back-off pulling image %q: ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image %q: not found", image, image)
	case "CreateContainerConfigError":
		waiting["message"] = `configmap "web" not found`
	case "CrashLoopBackOff":
		waiting["message"] = fmt.Sprintf("back-off %v restarting failed container", p.backOff())
		ended := map[string]any{"exitCode": int64(1), "reason": "Error"}
		if p.behavior.OOM {
			ended["exitCode"], ended["reason"] = int64(137), "OOMKilled"
		}
		if p.behavior.Says != "" {
			ended["message"] = strings.ReplaceAll(p.behavior.Says, "#", fmt.Sprint(p.restarts))
		}
		status["lastState"] = map[string]any{"terminated": ended}
	}
	status["state"] = map[string]any{"waiting": waiting}
	return status
}

// Image tells whether the pod waits for its image.
func (p *Pod) Image() bool { return p.Reason == "ImagePullBackOff" }

// backOff is how long the container waits for its next start.
func (p *Pod) backOff() time.Duration { return min(10*time.Second<<min(p.restarts, 5), 5*time.Minute) }

// crash begins a crash loop: the container is restarted after 10 s, 20 s, 40 s and so
// on, at last every five minutes.
func (c *Cluster) crash(p *Pod) {
	p.Reason, p.crashed, p.restarts = "CrashLoopBackOff", c.clock.now, 0
	if c.options.Pods {
		c.restartLater(p)
	}
}

func (c *Cluster) restartLater(p *Pod) {
	p.restart.stop()
	p.restart = c.clock.after(p.backOff(), func() {
		if p.gone || p.Terminating || p.Reason != "CrashLoopBackOff" || !p.node.up {
			return
		}
		p.restarts++
		c.showPod(p)
		c.restartLater(p)
	})
}

// sinceCrash is when the crash loop of a pod began, or when it was made.
func (p *Pod) sinceCrash() time.Time {
	if cmp.Or(p.crashed.IsZero(), p.crashed.Before(p.Created)) {
		return p.Created
	}
	return p.crashed
}
