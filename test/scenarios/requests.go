package scenarios

import (
	"fmt"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"
)

// entrances in the order in which they are shown.
var entrances = []string{sim.EntranceRoute, sim.EntranceHeaders, sim.EntranceRoot, sim.EntrancePreview}

// entrance is where people come in: the route, or without one the root Service.
func (s *Stage) entrance() string {
	o := s.Server.Get(s.Release)
	if o != nil && (apply.Field(o.Tree, "spec", "traffic", "httpRoute") != nil || apply.Field(o.Tree, "spec", "traffic", "ingress") != nil) {
		return sim.EntranceRoute
	}
	return sim.EntranceRoot
}

// numbers are the revisions by hash.
func (s *Stage) numbers() map[string]string {
	numbers := map[string]string{}
	for _, k := range []*sim.Kind{sim.ConfigMaps, sim.Deployments} {
		for _, o := range s.Server.List(k) {
			numbers[o.Label(revisionLabel)] = o.Label(numberLabel)
		}
	}
	return numbers
}

func (s *Stage) shares() string {
	splits := s.Splits(s.Release)
	var list []string
	for _, entrance := range entrances {
		if split := splits[entrance]; split != nil {
			list = append(list, entrance+" "+split.String(s.numbers()))
		}
	}
	if len(list) == 0 {
		return "no entrance"
	}
	return strings.Join(list, ", ")
}

// share is the percentage of the requests that a revision has, at the entrance
// that is named or where people come in.
func (s *Stage) share(arg string) string {
	entrance, number, ok := strings.Cut(arg, ".")
	if !ok {
		entrance, number = s.entrance(), arg
	}
	split := s.Splits(s.Release)[entrance]
	if split == nil {
		return "none"
	}
	for hash, percent := range split.To {
		if s.numbers()[hash] == number {
			return fmt.Sprintf("%.3g", percent)
		}
	}
	return "0"
}

// services are lines that say what each Service selects.
func (s *Stage) services() []string {
	var list []string
	for _, o := range s.Server.List(sim.Services) {
		what := "all"
		if hash := o.Text("spec", "selector", revisionLabel); hash != "" {
			what = "revision " + s.numbers()[hash]
		}
		list = append(list, fmt.Sprintf("%s selects %s", s.shortName(o), what))
	}
	return list
}

// shortName is the name of a Service, and the number of the revision where the
// name is made of its hash.
func (s *Stage) shortName(o *sim.Object) string {
	if hash := o.Label(revisionLabel); hash != "" && strings.HasSuffix(o.Name, hash) {
		return s.numbers()[hash]
	}
	return o.Name
}

// serviceName is the name of a revision's Service, or the name itself.
func (s *Stage) serviceName(word string) string {
	for _, o := range s.Server.List(sim.Services) {
		if s.shortName(o) == word {
			return o.Name
		}
	}
	return word
}

func (s *Stage) gateway(args []string) error {
	g := sim.Gateway{}
	durations := map[string]*sim.Lag{"program": &g.Program, "status": &g.Status}
	texts := map[string]*string{"refuse": &g.Refuse, "other": &g.Other}
	for _, word := range args {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case word == "silent":
			g.Silent = true
		case texts[name] != nil:
			*texts[name] = value
		case durations[name] != nil:
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			*durations[name] = fixed(d)
		default:
			return fmt.Errorf("a gateway has no %q", name)
		}
	}
	s.Gateway = g
	return nil
}
