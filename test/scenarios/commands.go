package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
	"greyrelease.example.com/test/sim/apply"

	"sigs.k8s.io/yaml"
)

// errWords says that a command has too few or too many words.
var errWords = errors.New("see the package's documentation for how this command is written")

// Do carries out a command.
func (s *Stage) Do(c Command) error {
	if len(c.Words) == 0 {
		return errWords
	}
	args := c.Words[1:]
	for _, group := range []func(string, []string, string) (bool, error){s.byUser, s.byCluster, s.byTime, s.byEye} {
		if known, err := group(c.Words[0], args, c.YAML); known || err != nil {
			return err
		}
	}
	return fmt.Errorf("there is no command %q", c.Words[0])
}

// byUser are the commands for what people and other programs do.
func (s *Stage) byUser(verb string, args []string, text string) (bool, error) {
	switch verb {
	case "create":
		return true, s.create(text)
	case "edit", "metadata", "object":
		tree, err := decode(text)
		switch {
		case err != nil:
			return true, err
		case verb == "object":
			return true, s.object(text)
		}
		return true, s.Edit(s.Release, map[string]any{map[string]string{"edit": "spec", "metadata": "metadata"}[verb]: tree})
	case "scale":
		return true, withInt(args, func(n int64) error { return s.Scale(s.Release, n) })
	case "command":
		return true, s.Annotate(s.Release, commandName, strings.Join(args, " "))
	case "obey":
		return true, withWord(args, s.obey)
	case "delete":
		return true, s.delete(args)
	case "patch":
		ref, _, err := s.child(args)
		if err != nil {
			return true, err
		}
		patch, err := decode(text)
		if err != nil {
			return true, err
		}
		return true, s.Edit(ref, patch)
	case "hand-scale":
		if len(args) != 2 {
			return true, errWords
		}
		d, err := s.Deployment(args[0])
		if err != nil {
			return true, err
		}
		return true, withInt(args[1:], func(n int64) error { return s.Scale(d.Ref, n) })
	case "rollout-restart":
		return true, withWord(args, func(number string) error {
			d, err := s.Deployment(number)
			if err != nil {
				return err
			}
			return s.RestartRollout(d.Ref)
		})
	case "relabel":
		return true, s.relabel()
	case "poke":
		if len(args) != 2 {
			return true, errWords
		}
		return true, withInt(args[:1], func(times int64) error {
			return withDuration(args[1:], func(d time.Duration) error { return s.poke(times, d) })
		})
	}
	return false, nil
}

// byCluster are the commands for what happens to the cluster.
func (s *Stage) byCluster(verb string, args []string, _ string) (bool, error) {
	m := s.Metacontroller
	switch verb {
	case "behave", "turn":
		return true, s.behave(verb, args)
	case "kill-pods":
		if len(args) != 2 {
			return true, errWords
		}
		return true, s.killPods(args[0], args[1])
	case "lose-node":
		return true, withInt(args, func(n int64) error { s.LoseNode(int(n)); return nil })
	case "return-node":
		return true, withInt(args, func(n int64) error { s.ReturnNode(int(n)); return nil })
	case "quota":
		return true, withInt(args, func(n int64) error { s.Quota = int(n); return nil })
	case "capacity":
		return true, withInt(args, func(n int64) error { s.Fit(int(n)); return nil })
	case "freeze":
		if len(args) != 2 || resources[args[0]] == nil {
			return true, errWords
		}
		return true, withDuration(args[1:], func(d time.Duration) error { m.Freeze(resources[args[0]], d); return nil })
	case "metric", "prometheus":
		return true, s.metric(verb, args)
	case "gateway":
		return true, s.gateway(args)
	case "thaw":
		m.Thaw()
		return true, nil
	case "faults":
		return true, s.faults(args)
	case "hook":
		return true, withWord(args, func(state string) error { m.Down = state == "down"; return nil })
	case "restart", "reload":
		if len(args) == 0 {
			args = []string{"0s"}
		}
		return true, withDuration(args, func(d time.Duration) error {
			if verb == "restart" {
				m.Restart(d)
			} else {
				m.Reload(d)
			}
			return nil
		})
	case "kinds":
		return true, s.setKinds(args)
	case "mode":
		return true, withWord(args, func(mode string) error { m.SetMode(sim.Mode(mode)); return nil })
	}
	return false, nil
}

// setKinds takes overlays away, or adds some: those are the kinds beyond the base.
func (s *Stage) setKinds(names []string) error {
	list := slices.Clone(baseKinds)
	for _, name := range names {
		if resources[name] == nil {
			return errWords
		}
		list = append(list, resources[name])
	}
	s.Metacontroller.SetChildren(list...)
	return nil
}

// byTime are the commands that let time pass.
func (s *Stage) byTime(verb string, args []string, _ string) (bool, error) {
	switch verb {
	case "run":
		return true, withDuration(args, s.pass)
	case "watch":
		return true, withDuration(args, func(d time.Duration) error {
			return s.watch(d, func() (bool, error) { return false, nil })
		})
	case "until", "watch-until":
		if len(args) < 3 || args[len(args)-2] != "within" {
			return true, errWords
		}
		terms, err := parseTerms(args[:len(args)-2])
		if err != nil {
			return true, err
		}
		d, err := time.ParseDuration(args[len(args)-1])
		if err != nil {
			return true, err
		}
		if verb == "watch-until" {
			return true, s.watchUntil(d, terms)
		}
		return true, s.until(d, terms)
	}
	return false, nil
}

// byEye are the commands that look.
func (s *Stage) byEye(verb string, args []string, _ string) (bool, error) {
	switch verb {
	case "show":
		s.printed = append(s.printed, s.show()...)
	case "line":
		s.printed = append(s.printed, s.line())
	case "conditions":
		s.printed = append(s.printed, s.conditions()...)
	case "history":
		s.printed = append(s.printed, s.history()...)
	case "writes":
		s.printed = append(s.printed, s.writes())
	case "deployments":
		for _, d := range s.byNumber() {
			s.printed = append(s.printed, fmt.Sprintf("%s revision %s track %s version %s", d.Name, d.Label(numberLabel),
				d.Label("greyrelease.example.com/track"), d.Annotation("greyrelease.example.com/version")))
		}
	case "analysis":
		s.printed = append(s.printed, s.analysis()...)
	case "services":
		s.printed = append(s.printed, s.services()...)
	case "shares":
		s.printed = append(s.printed, s.shares())
	case "mark":
		s.mark()
	case "expect":
		terms, err := parseTerms(args)
		if err != nil {
			return true, err
		}
		broken, err := s.hold(terms)
		if err == nil && broken != "" {
			err = errors.New(broken)
		}
		return true, err
	default:
		return false, nil
	}
	return true, nil
}

func decode(text string) (map[string]any, error) {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("cannot read YAML: %w", err)
	}
	return apply.Decode(data)
}

// create creates the release. What every story would repeat goes without saying.
func (s *Stage) create(text string) error {
	spec := map[string]any{
		"targetVersion": "1.0",
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": "web", "image": "nginx", "ports": []any{map[string]any{"containerPort": int64(80)}},
		}}}},
	}
	if text != "" {
		tree, err := decode(text)
		if err != nil {
			return err
		}
		maps.Copy(spec, tree)
	}
	return s.Apply(map[string]any{
		"apiVersion": sim.Releases.APIVersion(), "kind": sim.Releases.Name,
		"metadata": map[string]any{"name": s.Release.Name, "namespace": s.Release.Namespace}, "spec": spec,
	})
}

func (s *Stage) object(text string) error {
	tree, err := sim.Parse(text)
	if err != nil {
		return err
	}
	return s.Apply(tree)
}

// printedCommands finds the commands that a message tells users to copy.
var printedCommands = regexp.MustCompile(`kubectl annotate gr web -n default greyrelease\.example\.com/command='([^']+)' --overwrite`)

func (s *Stage) obey(verb string) error {
	o, err := s.Parent()
	if err != nil {
		return err
	}
	for _, m := range printedCommands.FindAllStringSubmatch(o.Text("status", "message"), -1) {
		if strings.HasPrefix(m[1], verb+" ") {
			return s.Annotate(s.Release, commandName, m[1])
		}
	}
	return fmt.Errorf("the message prints no line for %s", verb)
}

// child names an object: deployment N, snapshot N or secret N, service N or its name, httproute
// or ingress with a name, record, release, or named and the name of a Deployment. What is left of the words comes back.
func (s *Stage) child(args []string) (sim.Ref, []string, error) {
	switch {
	case len(args) >= 2 && args[0] == "deployment":
		d, err := s.Deployment(args[1])
		if err != nil {
			return sim.Ref{}, nil, err
		}
		return d.Ref, args[2:], nil
	case len(args) >= 2 && args[0] == "snapshot":
		return sim.ConfigMap(snapshotPrefix + args[1]), args[2:], nil
	case len(args) >= 2 && args[0] == "secret":
		return sim.Secret(snapshotPrefix + args[1]), args[2:], nil
	case len(args) >= 2 && args[0] == "named":
		return sim.Deployment(args[1]), args[2:], nil
	case len(args) >= 2 && args[0] == "service":
		return sim.Service(s.serviceName(args[1])), args[2:], nil
	case len(args) >= 2 && args[0] == "httproute":
		return sim.HTTPRoute(args[1]), args[2:], nil
	case len(args) >= 2 && args[0] == "ingress":
		return sim.Ingress(args[1]), args[2:], nil
	case len(args) >= 1 && args[0] == "record":
		return sim.ConfigMap("web-rollout"), args[1:], nil
	case len(args) >= 1 && args[0] == "release":
		return s.Release, args[1:], nil
	}
	return sim.Ref{}, nil, errWords
}

func (s *Stage) delete(args []string) error {
	if len(args) == 1 && args[0] == "status" {
		return s.Wipe(s.Release)
	}
	ref, rest, err := s.child(args)
	if err != nil {
		return err
	}
	propagation := sim.Background
	if len(rest) > 0 {
		propagation = rest[0]
	}
	return s.Delete(ref, propagation)
}

func (s *Stage) relabel() error {
	o, err := s.Parent()
	if err != nil {
		return err
	}
	for _, k := range []*sim.Kind{sim.ConfigMaps, sim.Deployments, sim.HTTPRoutes, sim.Ingresses, sim.Secrets, sim.Services} {
		for _, child := range s.Server.List(k) {
			if child.Controller() != nil {
				continue
			}
			patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{"controller-uid": o.UID}}}
			if err := s.Edit(child.Ref, patch); err != nil {
				return err
			}
		}
	}
	return nil
}

// poke changes an annotation of the release again and again, so that it is synced.
func (s *Stage) poke(times int64, every time.Duration) error {
	for n := range times {
		if err := s.Annotate(s.Release, "poke", fmt.Sprint(n)); err != nil {
			return err
		}
		if err := s.pass(every); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stage) behave(verb string, args []string) error {
	if len(args) < 1 {
		return errWords
	}
	b := sim.Behavior{}
	durations := map[string]*time.Duration{
		"ready": &b.Ready, "crash-after": &b.CrashAfter, "up": &b.Up, "down": &b.Down, "grace": &b.Grace,
	}
	flags := map[string]*bool{"hang": &b.Hang, "crash": &b.Crash, "image": &b.Image, "config": &b.Config, "oom": &b.OOM}
	for _, word := range args[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case flags[name] != nil:
			*flags[name] = true
		case name == "says":
			b.Says = value
		case durations[name] != nil:
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			*durations[name] = d
		default:
			return fmt.Errorf("pods have no %q", name)
		}
	}
	if verb == "turn" {
		s.Turn(args[0], b)
	} else {
		s.Behave(args[0], b)
	}
	return nil
}

func (s *Stage) killPods(number, count string) error {
	d, err := s.Deployment(number)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	if killed := s.KillPods(d.Ref, n); killed != n {
		return fmt.Errorf("there are only %d pods", killed)
	}
	return nil
}

func (s *Stage) faults(args []string) error {
	f := sim.Faults{}
	shares := map[string]*float64{"lost": &f.Lost, "answered": &f.Answered, "conflict": &f.Conflict}
	for _, word := range args {
		name, value, _ := strings.Cut(word, "=")
		share, err := strconv.ParseFloat(value, 64)
		if err != nil || shares[name] == nil {
			return errWords
		}
		*shares[name] = share
	}
	s.Metacontroller.Faults = f
	return nil
}

// answered is a time in which the hook is called and answers.
const answered = 100 * time.Millisecond

func (s *Stage) until(d time.Duration, terms []term) error {
	// What was done just before is not answered at once.
	if err := s.pass(answered); err != nil {
		return err
	}
	broken, failure := "", error(nil)
	ok, err := s.wait(d, func() bool {
		broken, failure = s.hold(terms)
		return broken == "" || failure != nil
	})
	switch {
	case err != nil:
		return err
	case failure != nil:
		return failure
	case !ok:
		return errors.New(broken)
	}
	return nil
}

func (s *Stage) watchUntil(d time.Duration, terms []term) error {
	broken := ""
	done := false
	err := s.watch(d, func() (bool, error) {
		var err error
		broken, err = s.hold(terms)
		done = broken == ""
		return done, err
	})
	if err == nil && !done {
		err = errors.New(broken)
	}
	return err
}

// watch prints a line now and whenever it is another one at the end of a second.
func (s *Stage) watch(d time.Duration, done func() (bool, error)) error {
	last := ""
	for start, end := s.Now(), s.Now().Add(d); ; {
		if state := s.state(); state != last {
			s.printed = append(s.printed, s.line())
			last = state
		}
		if stop, err := done(); err != nil || stop && s.Now().After(start) {
			return err
		}
		if !s.Now().Before(end) {
			return nil
		}
		if err := s.pass(min(time.Second, end.Sub(s.Now()))); err != nil {
			return err
		}
	}
}

func withInt(args []string, f func(int64) error) error {
	return withWord(args, func(word string) error {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return err
		}
		return f(n)
	})
}

func withDuration(args []string, f func(time.Duration) error) error {
	return withWord(args, func(word string) error {
		d, err := time.ParseDuration(word)
		if err != nil {
			return err
		}
		return f(d)
	})
}

func withWord(args []string, f func(string) error) error {
	if len(args) != 1 {
		return errWords
	}
	return f(args[0])
}
