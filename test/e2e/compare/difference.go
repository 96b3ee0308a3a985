package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// comparison is a story as each of the two told it, once or more often.
type comparison struct {
	double, original []*told
}

func (c *comparison) add(original bool, t *told) {
	if original {
		c.original = append(c.original, t)
		return
	}
	c.double = append(c.double, t)
}

// differences lists what no telling of the double has in common with any of the
// original. Details are those of the last two tellings.
func (c *comparison) differences() []string {
	var list []string
	for _, side := range [][]*told{c.double, c.original} {
		if len(side) == 0 {
			return []string{"not told by both"}
		}
		if t := side[len(side)-1]; t.err != nil {
			list = append(list, "could not be told: "+t.err.Error())
		}
	}
	if list != nil {
		return list
	}
	keys := map[string]bool{}
	for _, t := range slices.Concat(c.double, c.original) {
		for key := range t.writes {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		list = append(list, c.differ("writes of "+key, func(t *told) string { return strings.Join(t.writes[key], "\n") })...)
	}
	keys = map[string]bool{}
	for _, t := range slices.Concat(c.double, c.original) {
		for key := range t.end {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		list = append(list, c.differ("in the end, "+key, func(t *told) string { return t.end[key] })...)
	}
	return list
}

func (c *comparison) differ(what string, text func(*told) string) []string {
	for _, d := range c.double {
		for _, o := range c.original {
			if d.err == nil && o.err == nil && text(d) == text(o) {
				return nil
			}
		}
	}
	d, o := text(c.double[len(c.double)-1]), text(c.original[len(c.original)-1])
	return []string{fmt.Sprintf("%s (- double, + original)\n%s", what, lineDiff(d, o))}
}

// lineDiff shows two texts as one, with three lines around each change.
func lineDiff(a, b string) string {
	const around = 3
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	var lines []string
	var changed []bool
	put := func(mark, text string) {
		lines = append(lines, mark+text)
		changed = append(changed, mark != "  ")
	}
	lengths := common(left, right)
	i, j := 0, 0
	for i < len(left) || j < len(right) {
		switch {
		case i < len(left) && j < len(right) && left[i] == right[j]:
			put("  ", left[i])
			i++
			j++
		case j == len(right) || i < len(left) && lengths[i+1][j] >= lengths[i][j+1]:
			put("- ", left[i])
			i++
		default:
			put("+ ", right[j])
			j++
		}
	}
	var shown []string
	hidden := false
	for k := range lines {
		if slices.Contains(changed[max(0, k-around):min(len(lines), k+around+1)], true) {
			shown = append(shown, "    "+lines[k])
			hidden = false
			continue
		}
		if !hidden {
			shown = append(shown, "    ...")
			hidden = true
		}
	}
	return strings.Join(shown, "\n")
}

// common is, for each pair of positions, how many lines the rests have in common.
func common(left, right []string) [][]int {
	lengths := make([][]int, len(left)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(right)+1)
	}
	for i := len(left) - 1; i >= 0; i-- {
		for j := len(right) - 1; j >= 0; j-- {
			if left[i] == right[j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
				continue
			}
			lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
		}
	}
	return lengths
}

// table prints the number of writes of each story beside each other.
func table(o options, all map[string]*comparison) {
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  story\twrites of the double\tdistinct\tof the original\tdistinct\ttold\t")
	for _, st := range o.stories {
		c := all[st.name]
		if c == nil || len(c.double) == 0 || len(c.original) == 0 {
			continue
		}
		same := "same"
		if len(c.differences()) > 0 {
			same = "DIFFERENT"
		}
		d, r := c.double[len(c.double)-1], c.original[len(c.original)-1]
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%d\t%d\t%s\n", st.name, d.count, d.distinct(), r.count, r.distinct(), len(c.double), same)
	}
	w.Flush()
	if !o.verbose {
		return
	}
	for _, st := range o.stories {
		for _, t := range all[st.name].original {
			for _, key := range slices.Sorted(maps.Keys(t.writes)) {
				fmt.Fprintf(o.out, "\n-- %s: %s\n%s\n", st.name, key, strings.Join(t.writes[key], "\n"))
			}
		}
	}
}

// distinct is the number of writes that are compared.
func (t *told) distinct() int {
	n := 0
	for _, list := range t.writes {
		n += len(list)
	}
	return n
}
