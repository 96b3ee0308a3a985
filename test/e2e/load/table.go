package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// table is what is printed in the end. Each row is shown on standard error too, as
// soon as it is known.
type table struct{ lines []string }

func newTable(o options) *table {
	t := &table{lines: []string{fmt.Sprintf("| %d CPUs, %s, flags %q | |", runtime.NumCPU(), o.apply, o.flags), "|---|---|"}}
	return t
}

func (t *table) section(name string) { t.add(fmt.Sprintf("| **%s** | |", name)) }

func (t *table) row(name string, value any) { t.add(fmt.Sprintf("| %s | %v |", name, value)) }

func (t *table) add(line string) {
	t.lines = append(t.lines, line)
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().UTC().Format(time.TimeOnly), line)
}

func (t *table) print(w io.Writer) {
	for _, line := range t.lines {
		fmt.Fprintln(w, line)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
