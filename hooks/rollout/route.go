package rollout

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Router says what splits requests between the versions.
type Router string

const (
	// RouterNone: nothing does. A version's share of the requests is its share of
	// the pods.
	RouterNone Router = ""
	// RouterWeights: routes with a weight for any number of versions.
	RouterWeights Router = "Weights"
	// RouterPair: routes with a weight for one version beside the main one.
	RouterPair Router = "Pair"
	// RouterSwitch: a Service that leads to one version.
	RouterSwitch Router = "Switch"
)

// Route is where requests go: what the routes of the release must carry. Like
// replicas it is written ahead: an answer renders the route of the record that
// was observed.
type Route struct {
	// Since is when a weight or the header last changed.
	Since time.Time `json:"since"`
	// Header is the revision that requests with the release's headers go to; 0
	// while there is none.
	Header int64 `json:"header,omitempty"`
	// Shares are the revisions that have requests or had, by number, ascending.
	// Their weights sum to 100.
	Shares []Share `json:"shares"`
}

// Share is one revision's part of the requests.
type Share struct {
	Revision int64 `json:"revision"`
	// Weight is its percentage of the requests.
	Weight int64 `json:"weight"`
	// Empty is when it was first observed that no request is led to it any more.
	Empty time.Time `json:"empty,omitzero"`
	// Free: it has been empty for long enough, and its pods may go.
	Free bool `json:"free,omitempty"`
}

// Traffic is what was observed of the routes.
type Traffic struct {
	// Weights are what the routes carry, by revision. A revision that they name
	// with weight 0 is in it.
	Weights map[int64]int64
	// Header is the revision that requests with the headers are led to.
	Header int64
	// Leads are the revisions that another object leads requests to: the root or
	// the preview Service, or the main Ingress beside its canary.
	Leads map[int64]bool
	// Placed: the routes carry what the record says and count as in force.
	Placed bool
	// Refused is why no parent accepts the route at its latest generation.
	Refused string
	// Endpoints are the ready endpoints of each revision's Service; nil if they
	// are not observed.
	Endpoints map[int64]int64
}

func (r *Route) validate() error {
	if r == nil {
		return nil
	}
	var sum int64
	for i, s := range r.Shares {
		if s.Revision < 1 || s.Weight < 0 || i > 0 && r.Shares[i-1].Revision >= s.Revision {
			return fmt.Errorf("route gives revision %d weight %d", s.Revision, s.Weight)
		}
		sum += s.Weight
	}
	if sum != 100 {
		return fmt.Errorf("the weights of the route sum to %d", sum)
	}
	return nil
}

func (r *Route) clone() *Route {
	if r == nil {
		return nil
	}
	c := *r
	c.Shares = slices.Clone(r.Shares)
	return &c
}

// Of is the share of a revision; the zero Share when it has none.
func (r *Route) Of(revision int64) Share {
	if r != nil {
		for _, s := range r.Shares {
			if s.Revision == revision {
				return s
			}
		}
	}
	return Share{Revision: revision}
}

// Has tells whether a revision has requests or had, and its pods are kept for them.
func (r *Route) Has(revision int64) bool {
	return r != nil && slices.ContainsFunc(r.Shares, func(s Share) bool { return s.Revision == revision })
}

func (r *Route) shares() []Share {
	if r == nil {
		return nil
	}
	return r.Shares
}

// observedRoute is the route that is observed, for a record that has none, as one
// made again; nil when there is no whole one.
func observedRoute(f *Facts, now time.Time) *Route {
	if f.Traffic == nil {
		return nil
	}
	r := &Route{Since: now, Header: f.Traffic.Header}
	weights := maps.Clone(f.Traffic.Weights)
	for i := range f.Deployments {
		if d := &f.Deployments[i]; d.asked() > 0 && weights != nil {
			weights[d.Revision] += 0 // When requests left it is not known, so they have just done it.
		}
	}
	for _, revision := range revisions(weights) {
		r.Shares = append(r.Shares, Share{Revision: revision, Weight: weights[revision]})
	}
	if r.validate() != nil {
		return nil
	}
	return r
}

// serving is the number of pods of a revision that requests can be sent to.
func (f *Facts) serving(revision int64) int64 {
	n := f.of(revision).available()
	if f.Traffic != nil && f.Traffic.Endpoints != nil {
		n = min(n, f.Traffic.Endpoints[revision])
	}
	return n
}

// leads tells whether requests are observed to be led to a revision.
func (f *Facts) leads(revision int64) bool {
	tr := f.Traffic
	return tr != nil && (tr.Weights[revision] > 0 || tr.Header == revision || tr.Leads[revision])
}

// needed is how many pods of a revision must stay for the requests that are led
// to it, by what is observed or by the record, whichever is more. Weights are
// whole percentages: one point is what rounding may have taken. All requests get
// along with floor pods.
func (r *Record) needed(revision, floor int64, f *Facts) int64 {
	if f.Traffic == nil && r.Route == nil {
		return 0
	}
	s := r.Route.Of(revision)
	weight := s.Weight
	if f.Traffic != nil {
		weight = max(weight, f.Traffic.Weights[revision])
	}
	if tr := f.Traffic; tr != nil && !tr.Placed && tr.Refused == "" && r.Route.Has(revision) {
		// Nobody knows yet by which weights requests are led.
		return math.MaxInt
	}
	switch {
	case weight >= 100:
		return max(1, floor)
	case weight > 1:
		return max(1, ceilPercent(floor, weight-1))
	case weight == 1 || f.leads(revision) || r.Route != nil && r.Route.Header == revision:
		return 1
	case r.Route.Has(revision) && !s.Free:
		return math.MaxInt
	}
	return 0
}
