package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
)

// The product's names that users know.
const (
	numberLabel    = "greyrelease.example.com/number"
	revisionLabel  = "greyrelease.example.com/revision"
	commandName    = "greyrelease.example.com/command"
	snapshotPrefix = "web-rev-"
)

// Stage is a cluster on which a story is told.
type Stage struct {
	*sim.Cluster
	Release sim.Ref

	Last       *sim.Sync // the last answered sync
	prometheus *sim.Prometheus
	printed    []string
	written    map[string]int
	metrics    map[string]string // what queries give, by how they begin
	since      period
}

// period is what is measured from a mark on.
type period struct {
	pods            map[string]bool
	lowest, highest int64
	lost            float64 // the largest share of requests that nobody answered
	writes          map[string]int
	syncs, events   int
}

// NewStage makes a cluster on which every delay is the same and every rule is
// checked. slow is how long the controllers of Kubernetes take, 0 for a moment.
// kinds are the resources that the overlays of the installation add.
func NewStage(mode sim.Mode, slow time.Duration, kinds ...string) *Stage {
	ms := time.Millisecond
	o := sim.Options{Seed: 1, Mode: mode, Controllers: fixed(max(slow, 10*ms)), Caches: fixed(5 * ms)}
	o.Children = slices.Clone(baseKinds)
	for _, name := range kinds {
		switch name {
		case sim.EndpointSlices.Resource:
			o.Customize = sim.Customize
		case sim.Pods.Resource:
			o.Customize, o.Pods = sim.Customize, true
		default:
			o.Children = append(o.Children, resources[name])
		}
	}
	s := &Stage{Release: sim.Release("web"), written: map[string]int{}, metrics: map[string]string{}}
	s.prometheus = &sim.Prometheus{Absent: true, Delay: ms, Answer: s.answer}
	o.Prometheus = s.prometheus
	c := sim.New(o, s.prometheus.Sync)
	s.Cluster = c
	s.Checks = append(sim.Invariants(c), sim.Check{Name: "story", Wrote: s.wrote, Answered: func(_ *sim.Cluster, sync *sim.Sync) error {
		s.Last = sync
		return nil
	}})
	s.mark()
	return s
}

func fixed(d time.Duration) sim.Lag { return sim.Lag{Min: d, Max: d} }

// baseKinds are those of an installation without overlays.
var baseKinds = []*sim.Kind{sim.ConfigMaps, sim.Deployments, sim.Services}

// resources are the kinds by the names that commands use.
var resources = map[string]*sim.Kind{
	"configmaps": sim.ConfigMaps, "deployments": sim.Deployments, "endpointslices": sim.EndpointSlices,
	"httproutes": sim.HTTPRoutes, "ingresses": sim.Ingresses, "pods": sim.Pods, "releases": sim.Releases, "secrets": sim.Secrets, "services": sim.Services,
}

// Play runs a story and returns what each block printed.
func (s *Stage) Play(story *Story) ([][]string, error) {
	printed := make([][]string, len(story.Blocks))
	for i, b := range story.Blocks {
		s.printed = nil
		for _, c := range b.Commands {
			if err := s.Do(c); err != nil {
				return nil, fmt.Errorf("line %d: %s: %w\n%s", c.Line, c.Text, err, strings.Join(append(s.printed, s.show()...), "\n"))
			}
		}
		printed[i] = s.printed
	}
	return printed, nil
}

// mark begins a new period.
func (s *Stage) mark() {
	p := period{pods: map[string]bool{}, writes: maps.Clone(s.written), syncs: s.Metacontroller.Syncs, events: len(s.Metacontroller.Events)}
	for _, d := range s.Server.List(sim.Deployments) {
		for _, pod := range s.Pods(d.Ref) {
			p.pods[pod.Name] = true
		}
	}
	p.lowest, p.highest = s.total(availablePods), s.total(askedPods)
	s.since = p
}

// measure is called after each event.
func (s *Stage) measure() {
	s.since.lowest = min(s.since.lowest, s.total(availablePods))
	s.since.highest = max(s.since.highest, s.total(askedPods))
	if len(s.Server.List(sim.Services)) == 0 {
		return
	}
	if split := s.Splits(s.Release)[s.entrance()]; split != nil {
		s.since.lost = max(s.since.lost, split.Lost)
	}
}

func askedPods(w *sim.Workload) int64     { return w.Asked }
func readyPods(w *sim.Workload) int64     { return w.Ready }
func availablePods(w *sim.Workload) int64 { return w.Available }

// total adds up something over all Deployments.
func (s *Stage) total(of func(*sim.Workload) int64) int64 {
	n := int64(0)
	for _, d := range s.Server.List(sim.Deployments) {
		n += of(s.Workload(d.Ref))
	}
	return n
}

// wrote counts a write of Metacontroller that changed something, by what it is
// about.
func (s *Stage) wrote(_ *sim.Cluster, _ *sim.Sync, w sim.Write) error {
	if w.Old == w.New {
		return nil
	}
	kind := w.Ref.Kind.Name
	if w.Ref.Kind == sim.Releases {
		kind = "status"
	}
	s.written[kind]++
	return nil
}

// newWrites are the writes since the mark.
func (s *Stage) newWrites() map[string]int {
	m := map[string]int{}
	for kind, n := range s.written {
		if n -= s.since.writes[kind]; n > 0 {
			m[kind] = n
		}
	}
	return m
}

// wait lets time pass until the condition holds and then to the end of that
// second, so that what belongs together has happened.
func (s *Stage) wait(d time.Duration, holds func() bool) (bool, error) {
	ok, err := s.Until(d, func() bool {
		s.measure()
		return holds()
	})
	if err != nil || !ok {
		return ok, err
	}
	return true, s.pass(s.Now().Truncate(time.Second).Add(time.Second).Sub(s.Now()))
}

// pass lets time pass.
func (s *Stage) pass(d time.Duration) error {
	_, err := s.Until(d, func() bool {
		s.measure()
		return false
	})
	return err
}

// Parent returns the release, or an error that it is not there.
func (s *Stage) Parent() (*sim.Object, error) {
	if o := s.Server.Get(s.Release); o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("there is no %s", s.Release)
}

// Deployment returns the Deployment of a revision.
func (s *Stage) Deployment(number string) (*sim.Object, error) {
	for _, d := range s.Server.List(sim.Deployments) {
		if d.Label(numberLabel) == number {
			return d, nil
		}
	}
	return nil, fmt.Errorf("there is no Deployment of revision %s", number)
}

// Snapshots lists the numbers of the snapshots that are kept in a kind.
func (s *Stage) Snapshots(in *sim.Kind) string {
	var list []string
	for _, o := range s.Server.List(in) {
		if n, ok := strings.CutPrefix(o.Name, snapshotPrefix); ok {
			list = append(list, n)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		return len(list[i]) < len(list[j]) || len(list[i]) == len(list[j]) && list[i] < list[j]
	})
	return strings.Join(list, ",")
}
