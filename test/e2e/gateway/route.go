package gateway

import (
	"encoding/json"
	"fmt"
	"slices"

	"greyrelease.example.com/test/e2e/haproxy"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// route is what is read of the spec of an HTTPRoute. What the gateway cannot do is
// read as well, so that it can be refused.
type route struct {
	Hostnames []string `json:"hostnames"`
	Rules     []rule   `json:"rules"`
}

type rule struct {
	Matches            []match      `json:"matches"`
	Filters            []any        `json:"filters"`
	BackendRefs        []backendRef `json:"backendRefs"`
	SessionPersistence *struct {
		SessionName string `json:"sessionName"`
		Type        string `json:"type"`
	} `json:"sessionPersistence"`
}

type match struct {
	Path *struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	} `json:"path"`
	Headers []struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"headers"`
	Method      *string `json:"method"`
	QueryParams []any   `json:"queryParams"`
}

type backendRef struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Port      int32  `json:"port"`
	Weight    int    `json:"weight"`
	Filters   []any  `json:"filters"`
}

// decode reads the spec of an HTTPRoute.
func decode(u *unstructured.Unstructured) (route, error) {
	var r route
	text, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("cannot read HTTPRoute %s: %w", u.GetName(), err)
	}
	return r, nil
}

// rules are those of the proxy: one for each match, in the order in which the
// Gateway API ranks them: the longer path first, then the one with more headers,
// then the earlier one.
func (r route) rules() ([]haproxy.Rule, error) {
	var rules []haproxy.Rule
	for _, from := range r.Rules {
		if len(from.Filters) > 0 {
			return nil, fmt.Errorf("filters are not supported")
		}
		matches := from.Matches
		if len(matches) == 0 {
			matches = []match{{}}
		}
		for _, m := range matches {
			to := haproxy.Rule{Hosts: r.Hostnames, Headers: map[string]string{}}
			if m.Method != nil || len(m.QueryParams) > 0 {
				return nil, fmt.Errorf("matches by method or query are not supported")
			}
			if m.Path != nil {
				if m.Path.Type != "PathPrefix" {
					return nil, fmt.Errorf("path type %s is not supported", m.Path.Type)
				}
				to.Prefix = m.Path.Value
			}
			for _, h := range m.Headers {
				if h.Type != "Exact" {
					return nil, fmt.Errorf("header type %s is not supported", h.Type)
				}
				to.Headers[h.Name] = h.Value
			}
			for _, b := range from.BackendRefs {
				if b.Group != "" || b.Kind != "Service" || b.Namespace != "" || len(b.Filters) > 0 {
					return nil, fmt.Errorf("backend %+v is not supported", b)
				}
				to.Weights = append(to.Weights, haproxy.Weight{Service: b.Name, Weight: b.Weight})
			}
			if p := from.SessionPersistence; p != nil {
				if p.Type != "Cookie" {
					return nil, fmt.Errorf("session persistence %s is not supported", p.Type)
				}
				to.Cookie = p.SessionName
			}
			rules = append(rules, to)
		}
	}
	slices.SortStableFunc(rules, func(a, b haproxy.Rule) int {
		if n := len(b.Prefix) - len(a.Prefix); n != 0 {
			return n
		}
		return len(b.Headers) - len(a.Headers)
	})
	return rules, nil
}
