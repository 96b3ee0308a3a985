package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// term is one expectation: a field, how it is compared, and with what.
type term struct{ field, op, want string }

// operators, longer ones first.
var operators = []string{"!=", ">=", "<=", "!~", "=", "~"}

func parseTerm(word string) (term, error) {
	if word == "quiet" {
		return term{"quiet", "=", "true"}, nil
	}
	at := len(word)
	found := ""
	for _, op := range operators {
		if i := strings.Index(word, op); i > 0 && (i < at || i == at && len(op) > len(found)) {
			at, found = i, op
		}
	}
	if found == "" {
		return term{}, fmt.Errorf("%q is no expectation", word)
	}
	return term{word[:at], found, word[at+len(found):]}, nil
}

func parseTerms(words []string) ([]term, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("what is expected?")
	}
	var list []term
	for _, w := range words {
		t, err := parseTerm(w)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// hold tells whether all terms do, and if not, which does not.
func (s *Stage) hold(terms []term) (string, error) {
	for _, t := range terms {
		got, err := s.value(t.field)
		if err != nil {
			return "", err
		}
		ok, err := t.compare(got)
		if err != nil {
			return "", err
		}
		if !ok {
			return fmt.Sprintf("want %s%s%s, got %q", t.field, t.op, t.want, got), nil
		}
	}
	return "", nil
}

func (t term) compare(got string) (bool, error) {
	switch t.op {
	case "=":
		return got == t.want, nil
	case "!=":
		return got != t.want, nil
	case "~":
		return strings.Contains(got, t.want), nil
	case "!~":
		return !strings.Contains(got, t.want), nil
	}
	a, errA := strconv.ParseInt(got, 10, 64)
	b, errB := strconv.ParseInt(t.want, 10, 64)
	if errA != nil || errB != nil {
		return false, fmt.Errorf("%q and %q are not two numbers", got, t.want)
	}
	return t.op == ">=" && a >= b || t.op == "<=" && a <= b, nil
}

// statusFields are the fields of status that a story can look at by name.
var statusFields = []string{
	"phase", "message", "targetVersion", "targetRevision", "stableVersion", "stableRevision", "currentBatch",
	"totalBatches", "progress", "canaryWeight", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
}

// value returns what a field is now, as text.
func (s *Stage) value(field string) (string, error) {
	name, arg, _ := strings.Cut(field, ".")
	o := s.Server.Get(s.Release)
	switch {
	case slices.Contains(statusFields, field):
		if o == nil {
			return "", nil
		}
		if v := apply.Field(o.Tree, "status", field); v != nil {
			return fmt.Sprint(v), nil
		}
		return "", nil
	case name == "asked":
		return s.count(arg, askedPods), nil
	case name == "ready":
		return s.count(arg, readyPods), nil
	case name == "available":
		return s.count(arg, availablePods), nil
	case name == "share":
		return s.share(arg), nil
	case name == "new-pods":
		return s.newPods(arg), nil
	case name == "condition" || name == "reason":
		return s.condition(o, arg, map[string]string{"condition": "status", "reason": "reason"}[name]), nil
	}
	return s.measured(field, o)
}

// measured are the fields that are about a period or about what exists.
func (s *Stage) measured(field string, o *sim.Object) (string, error) {
	switch field {
	case "lowest":
		return fmt.Sprint(s.since.lowest), nil
	case "highest":
		return fmt.Sprint(s.since.highest), nil
	case "writes":
		n := 0
		for _, k := range s.newWrites() {
			n += k
		}
		return fmt.Sprint(n), nil
	case "lost":
		return fmt.Sprintf("%.3g", s.since.lost), nil
	case "services":
		var list []string
		for _, o := range s.Server.List(sim.Services) {
			list = append(list, s.shortName(o))
		}
		return strings.Join(list, ","), nil
	case "events":
		return fmt.Sprint(len(s.Metacontroller.Events) - s.since.events), nil
	case "syncs":
		return fmt.Sprint(s.Metacontroller.Syncs - s.since.syncs), nil
	case "snapshots":
		return s.Snapshots(sim.ConfigMaps), nil
	case "secrets":
		return s.Snapshots(sim.Secrets), nil
	case "deployments":
		var list []string
		for _, d := range s.byNumber() {
			list = append(list, d.Label(numberLabel))
		}
		return strings.Join(list, ","), nil
	case "quiet":
		return fmt.Sprint(s.Quiet()), nil
	case "last-command":
		if o == nil {
			return "", nil
		}
		return o.Text("status", "lastCommand", "text") + ": " + o.Text("status", "lastCommand", "result"), nil
	}
	return "", fmt.Errorf("there is no field %q", field)
}

// count is a number of pods, of a revision or of all.
func (s *Stage) count(revision string, of func(*sim.Workload) int64) string {
	if revision == "" {
		return fmt.Sprint(s.total(of))
	}
	d, err := s.Deployment(revision)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(of(s.Workload(d.Ref)))
}

// newPods counts a revision's pods that were made since the mark.
func (s *Stage) newPods(revision string) string {
	d, err := s.Deployment(revision)
	if err != nil {
		return "none"
	}
	n := 0
	for _, p := range s.Pods(d.Ref) {
		if !s.since.pods[p.Name] {
			n++
		}
	}
	return fmt.Sprint(n)
}

func (s *Stage) condition(o *sim.Object, kind, field string) string {
	if o == nil {
		return ""
	}
	for _, c := range apply.List(o.Tree, "status", "conditions") {
		if apply.Text(c, "type") == kind {
			return apply.Text(c, field)
		}
	}
	return ""
}
