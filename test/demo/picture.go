package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/sim"
)

// picture is a release and its pods at one instant: the status that a user sees
// and the pods as they really are.
type picture struct {
	at time.Time
	status
	rows []row
}

// status is what kubectl shows of the release.
type status struct {
	name           string
	phase          greyrelease.Phase
	target, stable string
	batch          string
	weight         int64
	ready          int64
	message        string
}

// row is one version's pods.
type row struct {
	version string
	number  int64
	// available, starting and leaving are numbers of pods; those that leave are
	// not counted anywhere else.
	available, starting, leaving int64
	// reason is why pods do not start, "" if they do.
	reason string
}

func (r row) pods() int64 { return r.available + r.starting }

// take looks at the one release of the cluster.
func take(c *sim.Cluster) picture {
	p := picture{at: c.Now()}
	for _, o := range c.Server.List(sim.Releases) {
		var release greyrelease.GreyRelease
		if err := json.Unmarshal(o.JSON(), &release); err != nil {
			p.message = err.Error()
			return p
		}
		p.name = release.Name
		if s := release.Status; s != nil {
			p.phase, p.message, p.batch = s.Phase, s.Message, s.Progress
			p.target, p.stable, p.weight, p.ready = s.TargetVersion, s.StableVersion, s.CanaryWeight, s.ReadyReplicas
		}
	}
	for _, o := range c.Server.List(sim.Deployments) {
		w := c.Workload(o.Ref)
		r := row{
			version:   o.Annotation(greyrelease.AnnotationVersion),
			available: w.Available, starting: w.Pods - w.Available, leaving: w.Terminating,
		}
		r.number, _ = strconv.ParseInt(o.Label(greyrelease.LabelNumber), 10, 64)
		for _, pod := range c.Pods(o.Ref) {
			if !pod.Terminating && !pod.Ready {
				r.reason = pod.Reason
			}
		}
		p.rows = append(p.rows, r)
	}
	slices.SortFunc(p.rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	return p
}

// same tells whether two pictures differ in nothing but their time.
func (p picture) same(other picture) bool {
	return p.status == other.status && slices.Equal(p.rows, other.rows)
}

// available is the number of available pods of all versions.
func (p picture) available() int64 {
	var n int64
	for _, r := range p.rows {
		n += r.available
	}
	return n
}

// pods is the number of pods of all versions but those that leave.
func (p picture) pods() int64 {
	var n int64
	for _, r := range p.rows {
		n += r.pods()
	}
	return n
}

// still tells whether no pod is on its way, and the status says so.
func (p picture) still() bool {
	return p.ready == p.available() && !slices.ContainsFunc(p.rows, func(r row) bool { return r.starting+r.leaving > 0 })
}
