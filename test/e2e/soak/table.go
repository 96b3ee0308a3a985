package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// table is the summary.
func (s *soak) table(took time.Duration) string {
	counts, margins := s.book.sum()
	done := s.counter.all()
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	row("what", "result")
	fmt.Fprintln(&b, "|---|---|")
	row("duration", "%v, seed %d, %s", took.Round(time.Second), s.seed, s.apply)
	row("releases", "%d, %s", s.releases, strings.Join(names(s.users), ", "))
	row("moves", "%d", sum(done, "move "))
	for _, kind := range kinds(done, "move ") {
		row("— "+strings.TrimPrefix(kind, "move "), "%d", done[kind])
	}
	row("moves refused", "%d", done["moves refused"])
	row("versions out", "%d", counts.out)
	row("rollbacks", "%d", counts.rolledBack)
	row("faults", "%d", sum(done, "fault "))
	for _, kind := range kinds(done, "fault ") {
		row("— "+strings.TrimPrefix(kind, "fault "), "%d", done[kind])
	}
	for _, kind := range kinds(done, "restart of ") {
		row("— "+kind+" that had ended by itself", "%d", done[kind])
	}
	row("rests, the slowest to come", "%d, %v", s.rests, s.slowest.Round(100*time.Millisecond))
	row("pods made", "%d", counts.pods)
	row("changes of size judged", "%d", counts.judged)
	row("take-downs explained by pods that had just been lost", "%d", counts.excused)
	row("breaches not judged, as apply was server-side and there was trouble", "%d", counts.blind)
	row("changes that came after later ones", "%d", s.feed.late)
	row("times all objects were listed anew", "%d", max(0, counts.gaps-1))
	for _, name := range slices.Sorted(maps.Keys(margins)) {
		margin := "never reached"
		if margins[name] != never {
			margin = fmt.Sprint(margins[name])
		}
		row("lowest available above the floor, "+name, "%s", margin)
	}
	total := 0
	var writes []string
	for _, kind := range slices.Sorted(maps.Keys(s.writes)) {
		total += s.writes[kind]
		writes = append(writes, fmt.Sprintf("%s %d", kind, s.writes[kind]))
	}
	row("writes of Metacontroller", "%d: %s", total, strings.Join(writes, ", "))
	for _, one := range []struct {
		name string
		*series
	}{{"a replica of the service", &s.steady}, {"Metacontroller", &s.metacontroller}} {
		row("memory of "+one.name+", first, last, peak", "%d, %d, %d MiB", one.first.memory>>10, one.last.memory>>10, one.peak.memory>>10)
		row("open files of "+one.name+", first, last, peak", "%d, %d, %d", one.first.files, one.last.files, one.peak.files)
		row("memory of "+one.name+" at rest", "%v MiB", atRest(one.rests))
	}
	row("promises broken", "%d", len(s.breaches))
	for _, one := range s.breaches {
		fmt.Fprintf(&b, "\n%s\n", one)
	}
	return b.String()
}

func names(users []*user) []string {
	var list []string
	for _, u := range users {
		list = append(list, u.name)
	}
	return list
}

func atRest(rests []usage) []int {
	var list []int
	for _, u := range rests {
		list = append(list, u.memory>>10)
	}
	return list
}

func kinds(done map[string]int, prefix string) []string {
	var list []string
	for kind := range done {
		if strings.HasPrefix(kind, prefix) {
			list = append(list, kind)
		}
	}
	slices.Sort(list)
	return list
}

func sum(done map[string]int, prefix string) int {
	n := 0
	for _, kind := range kinds(done, prefix) {
		n += done[kind]
	}
	return n
}
