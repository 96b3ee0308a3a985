package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// Behavior is how the pods of a version behave. The zero value is a pod that is
// ready at once.
type Behavior struct {
	Ready time.Duration // from its start until it is ready
	Hang  bool          // never ready
	Crash bool          // never ready, restarts again and again
	Image bool          // its image cannot be pulled

	Config bool   // its container cannot be created
	OOM    bool   // where it crashes, it is for want of memory
	Says   string // what it leaves as its termination message where it crashes; each # is the number of restarts

	CrashAfter time.Duration // crashes for good so long after it was ready; 0 never
	Up, Down   time.Duration // ready for Up, not ready for Down, and so on; 0 never
	Grace      time.Duration // lingers so long once it is deleted
}

// Pod is a pod.
type Pod struct {
	Name        string
	Created     time.Time
	Ready       bool
	ReadySince  time.Time
	Terminating bool
	Reason      string // why it is not running: "Pending", "CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError"

	number   int64
	node     *node
	set      *replicaSet
	behavior Behavior
	timer    *event
	gone     bool

	crashed  time.Time // when its crash loop began
	restarts int       // in it, where pods are looked at
	restart  *event    // the next one
	show     *event    // the write to the API server that is planned
}

type node struct {
	name string
	up   bool
}

// Restarts is how often the container of a crashing pod has been restarted: after
// 10 s, 20 s, 40 s and so on, at last every five minutes.
func (p *Pod) Restarts(now time.Time) int {
	if p.Reason != "CrashLoopBackOff" {
		return 0
	}
	n, at, wait := 0, p.sinceCrash(), 10*time.Second
	for at = at.Add(wait); !at.After(now); at = at.Add(wait) {
		n++
		wait = min(2*wait, 5*time.Minute)
	}
	return n
}

// Behave sets how pods of a version that start from now on behave. The version
// is the tag or digest of one of their images.
func (c *Cluster) Behave(version string, b Behavior) { c.behaviors[version] = b }

// Turn does what Behave does and makes the existing pods of the version start
// anew in that way.
func (c *Cluster) Turn(version string, b Behavior) {
	c.Behave(version, b)
	for _, s := range c.sets() {
		if !slices.Contains(versions(s.template), version) {
			continue
		}
		for _, p := range s.pods {
			if !p.Terminating && p.node != nil {
				c.lose(p)
				p.behavior = b
				c.start(p)
			}
		}
	}
}

// versions are the tags and digests of a template's images.
func versions(template map[string]any) []string {
	var list []string
	for _, container := range apply.List(template, "spec", "containers") {
		image := apply.Text(container, "image")
		if i := strings.IndexByte(image, '@'); i >= 0 {
			list = append(list, image[i+1:])
			continue
		}
		if _, tag, ok := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":"); ok {
			list = append(list, tag)
		}
	}
	return list
}

func (c *Cluster) behaviorOf(template map[string]any) Behavior {
	for _, version := range versions(template) {
		if b, ok := c.behaviors[version]; ok {
			return b
		}
	}
	return Behavior{}
}

// makePod creates a pod of a set, or says why it is refused.
func (c *Cluster) makePod(s *replicaSet) error {
	c.pods++
	name := fmt.Sprintf("%s-%05d", s.name, c.pods)
	if used := c.podsIn(s.namespace); c.Quota > 0 && used >= c.Quota {
		return fmt.Errorf("pods %q is forbidden: exceeded quota: pods, requested: pods=1, used: pods=%d, limited: pods=%d", name, used, c.Quota)
	}
	p := &Pod{Name: name, number: c.pods, Created: c.clock.now, Reason: "Pending", set: s, behavior: c.behaviorOf(s.template)}
	s.pods = append(s.pods, p)
	c.logf("pod %s created", p.Name)
	c.showPod(p)
	c.schedule()
	return nil
}

func (c *Cluster) podsIn(namespace string) int {
	n := 0
	for _, s := range c.sets() {
		if s.namespace == namespace {
			n += len(s.pods)
		}
	}
	return n
}

// schedule binds pending pods to nodes, oldest first, while there is room.
func (c *Cluster) schedule() {
	var pending []*Pod
	bound := 0
	for _, s := range c.sets() {
		for _, p := range s.pods {
			if p.node != nil {
				bound++
			} else if !p.Terminating {
				pending = append(pending, p)
			}
		}
	}
	slices.SortFunc(pending, func(a, b *Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	var up []*node
	for _, n := range c.nodes {
		if n.up {
			up = append(up, n)
		}
	}
	for _, p := range pending {
		if len(up) == 0 || c.Capacity > 0 && bound >= c.Capacity {
			return
		}
		bound++
		p.node = up[c.chance.IntN(len(up))]
		c.podMoved(p.set)
		c.start(p)
	}
}

// start begins the life of a pod on its node.
func (c *Cluster) start(p *Pod) {
	p.timer.stop()
	p.Reason = ""
	c.showPod(p)
	b := p.behavior
	switch {
	case b.Image:
		p.Reason = "ImagePullBackOff"
	case b.Config:
		p.Reason = "CreateContainerConfigError"
	case b.Crash:
		c.crash(p)
	case !b.Hang:
		p.timer = c.clock.after(b.Ready, func() { c.becomeReady(p) })
	}
}

func (c *Cluster) becomeReady(p *Pod) {
	if p.gone || p.Terminating || !p.node.up {
		return
	}
	p.Ready, p.ReadySince, p.Reason = true, c.clock.now, ""
	c.logf("pod %s ready", p.Name)
	c.wakeSet(p.set)
	c.podMoved(p.set)
	c.showPod(p)
	switch b := p.behavior; {
	case b.CrashAfter > 0:
		p.timer = c.clock.after(b.CrashAfter, func() {
			c.lose(p)
			c.crash(p)
			c.showPod(p)
		})
	case b.Up > 0:
		p.timer = c.clock.after(b.Up, func() {
			c.lose(p)
			p.timer = c.clock.after(b.Down, func() { c.becomeReady(p) })
		})
	}
}

// lose makes a pod unready through no doing of the release.
func (c *Cluster) lose(p *Pod) {
	p.timer.stop()
	if p.gone || p.Terminating || !p.Ready {
		return
	}
	p.Ready = false
	c.lastLoss = c.clock.now
	c.logf("pod %s not ready", p.Name)
	c.showPod(p)
	c.wakeSet(p.set)
	c.podMoved(p.set)
}

// terminate begins the end of a pod. From now on it does not count.
func (c *Cluster) terminate(p *Pod) {
	if p.gone || p.Terminating {
		return
	}
	p.timer.stop()
	p.Terminating = true
	p.Ready = false
	c.logf("pod %s terminating", p.Name)
	c.showPod(p)
	grace := p.behavior.Grace
	if p.node == nil {
		grace = 0
	}
	p.timer = c.clock.after(grace, func() { c.vanish(p) })
	c.wakeSet(p.set)
	c.podMoved(p.set)
}

// vanish removes a pod, unless its node is lost: then nobody confirms its end.
func (c *Cluster) vanish(p *Pod) {
	if p.gone || p.node != nil && !p.node.up {
		return
	}
	p.gone = true
	c.showPod(p)
	p.set.pods = slices.DeleteFunc(p.set.pods, func(q *Pod) bool { return q == p })
	c.schedule()
	c.wakeSet(p.set)
	c.podMoved(p.set)
}

// LoseNode takes a node away: its pods are not ready at once and are replaced
// after Eviction. It returns the number of pods that were on it.
func (c *Cluster) LoseNode(i int) int {
	n := c.nodes[i%len(c.nodes)]
	if !n.up {
		return 0
	}
	n.up = false
	c.logf("%s lost", n.name)
	on := c.on(n)
	for _, p := range on {
		c.lose(p)
	}
	c.clock.after(c.Eviction, func() {
		if n.up {
			return
		}
		for _, p := range c.on(n) {
			c.terminate(p)
		}
	})
	return len(on)
}

// Fit makes room for so many pods on the nodes, 0 for any number. Pods that wait for
// it start.
func (c *Cluster) Fit(pods int) {
	c.Capacity = pods
	c.schedule()
}

// ReturnNode brings a lost node back; the pods that are left on it start again.
func (c *Cluster) ReturnNode(i int) {
	n := c.nodes[i%len(c.nodes)]
	if n.up {
		return
	}
	n.up = true
	c.logf("%s is back", n.name)
	for _, p := range c.on(n) {
		if p.Terminating {
			c.vanish(p)
		} else {
			c.start(p)
		}
	}
	c.schedule()
}

func (c *Cluster) on(n *node) []*Pod {
	var list []*Pod
	for _, s := range c.sets() {
		for _, p := range s.pods {
			if p.node == n {
				list = append(list, p)
			}
		}
	}
	return list
}
