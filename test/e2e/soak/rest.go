package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"greyrelease.example.com/test/e2e/cluster"
)

// rest waits until everything has come to the end that it must come to, and checks that
// then nothing more is done.
func (s *soak) rest(ctx context.Context) {
	s.rests++
	started := time.Now()
	s.journal.say("rest %d", s.rests)
	if err := s.plant.renewKubelets(); err != nil {
		s.journal.say("cannot start kwok: %v", err)
	}
	wrong := s.settle(ctx)
	if ctx.Err() != nil {
		return
	}
	took := time.Since(started)
	s.slowest = max(s.slowest, took)
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		s.breach(breach{time.Now(), name, ruleSettles, fmt.Sprintf("after %v: %s", took.Round(time.Second), wrong[name])})
	}
	s.book.settled(time.Now().Add(-delay))
	if len(wrong) == 0 {
		s.idle(ctx)
		s.poke(ctx)
		s.restart(ctx)
	}
	s.countWrites()
	s.checkService(ctx)
	s.restUsage()
	s.journal.say("rest %d: at rest after %v, %d breaches so far", s.rests, took.Round(100*time.Millisecond), len(s.breaches))
}

// settle waits until all releases are as they must be, and returns those that are not.
func (s *soak) settle(ctx context.Context) map[string]string {
	until, note := time.Now().Add(s.patience), time.Now().Add(20*time.Second)
	wrong := map[string]string{}
	for ctx.Err() == nil {
		states, err := s.look(ctx)
		if err != nil {
			wrong = map[string]string{"all": fmt.Sprintf("the API server does not answer: %v", err)}
		} else {
			wrong = s.compare(states)
		}
		if len(wrong) == 0 || time.Now().After(until) {
			return wrong
		}
		if time.Now().After(note) {
			s.journal.note("not at rest yet: %v", wrong)
			note = note.Add(20 * time.Second)
		}
		pause(ctx, time.Second)
	}
	return wrong
}

func (s *soak) compare(states map[string]*state) map[string]string {
	wrong := map[string]string{}
	for _, u := range s.users {
		if text := states[u.name].wrong(u.outcome()); text != "" {
			wrong[u.name] = text
		}
		delete(states, u.name)
	}
	for name := range states {
		wrong[name] = "want nothing of a release of that name"
	}
	return wrong
}

// quiet is how long nothing may happen. Counts of pods in a status may be held back for
// five seconds.
const quiet = 12 * time.Second

// idle checks that at rest nobody is asked and nothing is written. What was begun before
// may end first; so may Metacontroller's own look at everything, each half hour.
func (s *soak) idle(ctx context.Context) {
	seen := ""
	for range 6 {
		s.countWrites()
		before, err := s.calls(ctx)
		if err != nil {
			s.journal.say("cannot count calls: %v", err)
		}
		pause(ctx, quiet)
		writes := s.countWrites()
		after, err := s.calls(ctx)
		if ctx.Err() != nil || err == nil && after == before && len(writes) == 0 {
			return
		}
		_, text := cluster.Count(writes)
		seen = fmt.Sprintf("%v calls and writes %s", after-before, text)
		s.journal.note("not idle yet: %s", seen)
	}
	s.breach(breach{time.Now(), "all", ruleIdle, fmt.Sprintf("want nothing done for %v, got %s", quiet, seen)})
}

// poke has every release looked at: that writes nothing.
func (s *soak) poke(ctx context.Context) {
	s.countWrites()
	for _, u := range s.users {
		if err := u.patch(ctx, object{"metadata": object{"annotations": object{"poke": fmt.Sprint(s.rests)}}}); err != nil && ctx.Err() == nil {
			s.journal.say("cannot poke %s: %v", u.name, err)
		}
	}
	pause(ctx, 4*time.Second)
	if writes := s.countWrites(); len(writes) > 0 {
		s.breach(breach{time.Now(), "all", ruleIdle, fmt.Sprintf("want no write after a poke, got %v", writes)})
	}
}

// restart starts Metacontroller anew, which has it look at everything: that changes nothing.
// With dynamic apply nothing is written either; with server-side apply it has forgotten what
// it has applied, and applies all of it once more.
func (s *soak) restart(ctx context.Context) {
	before, err := s.versions(ctx)
	if err != nil {
		s.journal.say("cannot look at objects: %v", err)
		return
	}
	s.countWrites()
	for ctx.Err() == nil && !s.plant.take("metacontroller") {
		pause(ctx, 10*time.Millisecond) // somebody looks whether it runs
	}
	s.plant.End("metacontroller", false)
	err = s.plant.StartMetacontroller(ctx)
	s.plant.release("metacontroller")
	if err != nil {
		s.journal.say("cannot start Metacontroller: %v", err)
	}
	pause(ctx, 10*time.Second)
	if writes := s.countWrites(); len(writes) > 0 && s.apply == cluster.DynamicApply {
		s.breach(breach{time.Now(), "all", ruleIdle, fmt.Sprintf("want no write after a restart of Metacontroller, got %v", writes)})
	}
	after, err := s.versions(ctx)
	if err != nil {
		s.journal.say("cannot look at objects: %v", err)
		return
	}
	for name, version := range after {
		if before[name] != version {
			s.breach(breach{time.Now(), "all", ruleIdle, fmt.Sprintf("want %s as it was after a restart of Metacontroller, version %q, got %q", name, before[name], version)})
		}
	}
}

// versions are those of all objects that are watched.
func (s *soak) versions(ctx context.Context) (map[string]string, error) {
	all, _, err := s.feed.list(ctx)
	versions := map[string]string{}
	for _, c := range all {
		versions[c.kind+" "+c.name] = fmt.Sprint(c.version)
	}
	return versions, err
}

// countWrites returns what Metacontroller has written since the last time.
func (s *soak) countWrites() []cluster.Write {
	writes, err := s.audit.More()
	if err != nil {
		s.breach(breach{time.Now(), "all", ruleIdle, fmt.Sprintf("cannot tell whether anything was written: %v", err)})
	}
	writes = slices.DeleteFunc(writes, func(w cluster.Write) bool { return w.User != cluster.Metacontroller || w.Resource == "events" })
	for _, w := range writes {
		kind := w.Resource
		if w.Subresource != "" {
			kind += "/" + w.Subresource
		}
		if w.Code >= 300 {
			kind = "refused"
		}
		s.writes[kind]++
	}
	return writes
}

// calls are those of all replicas.
func (s *soak) calls(ctx context.Context) (float64, error) {
	sum := 0.0
	for _, address := range s.plant.set.Addresses() {
		service, err := serviceOf(ctx, s.plant.set.MetricsURL(address))
		if err != nil {
			return 0, err
		}
		sum += service.calls
	}
	return sum, nil
}

// checkService reads what the replicas say of themselves: of those that run by their
// metrics, of those that were killed by their logs.
func (s *soak) checkService(ctx context.Context) {
	for _, address := range s.plant.set.Addresses() {
		service, err := serviceOf(ctx, s.plant.set.MetricsURL(address))
		if err != nil {
			s.journal.say("cannot read metrics: %v", err)
			continue
		}
		if service.breaches+service.panics+service.errors > 0 {
			s.breach(breach{time.Now(), "all", ruleService, fmt.Sprintf("want no answer withheld, got %+v of the replica at %s", service, address)})
		}
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "greyrelease-*.log"))
	if err != nil {
		s.journal.say("cannot find logs: %v", err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			s.journal.say("cannot read log: %v", err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, `"level":"ERROR"`) {
				s.breach(breach{time.Now(), "all", ruleService, "want no error in a log, got " + strings.TrimSpace(line)})
				break
			}
		}
	}
}

// sample follows what the programs use.
func (s *soak) sample(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, 5*time.Second)
		s.addUsage(false)
	}
}

func (s *soak) restUsage() {
	s.addUsage(true)
	s.mu.Lock()
	text := s.steady.grows()
	s.mu.Unlock()
	if text != "" {
		s.breach(breach{time.Now(), "all", ruleService, text})
	}
}

func (s *soak) addUsage(atRest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, series := range map[int]*series{s.plant.set.Pid(s.plant.steady): &s.steady, s.plant.Pid("metacontroller"): &s.metacontroller} {
		u, err := usageOf(pid)
		if err != nil {
			continue // it is being killed
		}
		series.add(u)
		if atRest {
			series.rests = append(series.rests, u)
		}
	}
}
