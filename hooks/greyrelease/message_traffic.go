package greyrelease

import (
	"fmt"
	"time"

	"greyrelease.example.com/hooks/rollout"
)

// routeNotes tell what the release waits for at the routes, and where requests go
// that go elsewhere than one would think.
func (a *answer) routeNotes(r *rollout.Record) []string {
	t := a.facts.Traffic
	if t == nil {
		return nil
	}
	var out []string
	switch {
	case t.Refused != "":
		out = append(out, fmt.Sprintf("HTTPRoute %s is not accepted: %s", a.name, t.Refused))
	case !t.Placed && r.Route != nil && a.waitsForRoute(r):
		out = append(out, a.routeWait(r))
	}
	if s := a.services[previewName(a.name)]; s != nil && a.selects(s) == r.Target.Number && r.Stage != rollout.Complete {
		out = append(out, fmt.Sprintf("the new version is at Service %s", previewName(a.name)))
	}
	return append(out, a.keptNotes(r)...)
}

// waitsForRoute tells whether a route is late enough to be worth a word; it takes a
// moment to be written.
func (a *answer) waitsForRoute(r *rollout.Record) bool {
	left := movingSeconds*time.Second - a.now.Sub(r.Route.Since)
	if left <= 0 || left > movingSeconds*time.Second {
		return true
	}
	if seconds := int64(left / time.Second); a.routeWake == 0 || seconds < a.routeWake {
		a.routeWake = max(1, seconds)
	}
	return false
}

// routeWait says what of the route is not there yet.
func (a *answer) routeWait(r *rollout.Record) string {
	weight := r.Route.Of(r.Target.Number).Weight
	switch a.settings().Router {
	case rollout.RouterWeights:
		if a.httpRoute.carries(a.wantHTTPRoute()) {
			return fmt.Sprintf("waiting until HTTPRoute %s, which carries weight %d, is accepted by a gateway", a.name, weight)
		}
		return fmt.Sprintf("waiting until HTTPRoute %s carries weight %d and is accepted", a.name, weight)
	case rollout.RouterPair:
		return fmt.Sprintf("waiting until the Ingresses of %s carry weight %d", a.name, weight)
	case rollout.RouterSwitch:
		for _, share := range r.Route.Shares {
			if share.Weight == 100 {
				return fmt.Sprintf("waiting until Service %s selects %s", a.rootName(), name(a.revision(share.Revision)))
			}
		}
	case rollout.RouterNone:
	}
	return "waiting until requests are led as they should be"
}

// keptNotes tell how long previous versions are kept after their last request.
func (a *answer) keptNotes(r *rollout.Record) []string {
	if r.Stage != rollout.Complete {
		return nil
	}
	delay := time.Duration(a.settings().ScaleDownDelaySeconds) * time.Second
	var out []string
	for _, share := range routeShares(r) {
		if share.Revision == r.Target.Number || share.Empty.IsZero() || share.Free || delay == 0 {
			continue
		}
		what := "the previous version"
		if v := a.revision(share.Revision); v.Version != "" {
			what = name(v)
		}
		out = append(out, fmt.Sprintf("%s is kept until %s", what, clock(share.Empty.Add(delay))))
	}
	return out
}
