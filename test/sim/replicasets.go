package sim

import (
	"cmp"
	"slices"
	"time"
)

// replicaSet is a ReplicaSet with its pods. It is no object in the store: nobody
// outside the Deployment controller looks at it.
type replicaSet struct {
	name, namespace string
	uid             string         // of the Deployment
	template        map[string]any // without the hash label
	labels          map[string]any
	revision        int64
	created         time.Time

	replicas int64 // asked for
	minReady time.Duration
	desired  int64 // replicas of the Deployment when it was scaled last
	most     int64 // desired and surge then
	workload *workload

	pods     []*Pod
	status   setStatus
	failure  string // why pods could not be created
	failures int
	wake     *event // the sync that is planned
	alarm    *event // the sync at which a ready pod becomes available
	deleted  bool
}

// setStatus is the status of a ReplicaSet, as last written.
type setStatus struct {
	replicas, ready, available, terminating int64
	failure                                 string
}

// wakeSet plans a sync of the set unless one is planned.
func (c *Cluster) wakeSet(s *replicaSet) {
	if s.wake == nil {
		s.wake = c.clock.after(c.lag(c.options.Controllers), func() {
			s.wake = nil
			c.syncSet(s)
		})
	}
}

// syncSet creates and deletes pods and writes the status of the set.
func (c *Cluster) syncSet(s *replicaSet) {
	active := s.active()
	missing := s.replicas - int64(len(active))
	if s.deleted {
		missing = -int64(len(active))
	}
	if missing <= 0 {
		s.failure, s.failures = "", 0
	}
	for ; missing > 0; missing-- {
		if err := c.makePod(s); err != nil {
			s.failure = err.Error()
			s.failures++
			retry := min(time.Second<<min(s.failures-1, 6), time.Minute)
			c.clock.after(retry, func() { c.wakeSet(s) })
			break
		}
		s.failure, s.failures = "", 0
	}
	if missing < 0 {
		slices.SortFunc(active, firstToGo)
		for _, p := range active[:-missing] {
			c.terminate(p)
		}
	}
	c.writeSetStatus(s)
}

// firstToGo orders pods as a ReplicaSet takes them down: those without a node,
// those that are not ready, those that have been ready for the shortest time,
// the youngest.
func firstToGo(a, b *Pod) int {
	return cmp.Or(
		-compareBool(a.node == nil, b.node == nil),
		compareBool(a.Ready, b.Ready),
		-compareReady(a, b),
		-a.Created.Compare(b.Created),
		-cmp.Compare(a.Name, b.Name),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func compareReady(a, b *Pod) int {
	if !a.Ready {
		return 0
	}
	return a.ReadySince.Compare(b.ReadySince)
}

func (c *Cluster) writeSetStatus(s *replicaSet) {
	status := setStatus{failure: s.failure}
	var soonest time.Time
	for _, p := range s.pods {
		switch {
		case p.Terminating:
			status.terminating++
			continue
		case p.Ready && c.available(p):
			status.available++
		case p.Ready:
			if at := p.ReadySince.Add(s.minReady); soonest.IsZero() || at.Before(soonest) {
				soonest = at
			}
		}
		status.replicas++
		if p.Ready {
			status.ready++
		}
	}
	s.alarm.stop()
	if !soonest.IsZero() {
		s.alarm = c.clock.after(soonest.Sub(c.clock.now), func() { c.wakeSet(s) })
	}
	if status == s.status {
		return
	}
	s.status = status
	if s.workload != nil {
		c.wakeWorkload(s.workload)
	}
}

// available tells whether a pod has been ready for long enough.
func (c *Cluster) available(p *Pod) bool {
	return p.Ready && c.Since(p.ReadySince) >= p.set.minReady
}

// active are the pods that are not on their way out.
func (s *replicaSet) active() []*Pod {
	list := make([]*Pod, 0, len(s.pods))
	for _, p := range s.pods {
		if !p.Terminating {
			list = append(list, p)
		}
	}
	return list
}

// sets returns all sets in the order in which they were made.
func (c *Cluster) sets() []*replicaSet {
	var list []*replicaSet
	for _, w := range c.workloads {
		list = append(list, w.sets...)
	}
	list = append(list, c.orphans...)
	slices.SortFunc(list, func(a, b *replicaSet) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return list
}
