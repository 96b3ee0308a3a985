package rollout

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCommand is the length of a text that can be a command, in bytes. Of a longer
// one only so much is kept, because the record is bounded.
const maxCommand = 200

// all is the gate of a promote command that goes past every gate.
const all = -1

// order is a parsed command: "promote 4.1@5", "promote 4.1@all", "abort 4.1" or
// "retry 4.1". It names revision and attempt, and promote the gate by its size,
// so that a leftover can't act on another release, attempt or gate. A text is
// looked at once, whatever became of it; "again" at its end makes it another.
type order struct {
	verb              string
	revision, attempt int64
	gate              int64
}

func parseCommand(text string) (order, error) {
	if len(text) > maxCommand {
		return order{}, fmt.Errorf("it is longer than %d bytes", maxCommand)
	}
	verb, what, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(text), again), " ")
	what = strings.TrimSpace(what)
	if !ok || what == "" {
		return order{}, fmt.Errorf(`write "promote 4.1@5", "promote 4.1@all", "abort 4.1" or "retry 4.1": a verb, then revision and attempt`)
	}
	o := order{verb: verb}
	what, gate, hasGate := strings.Cut(what, "@")
	switch verb {
	case "promote":
		switch n, err := strconv.ParseInt(gate, 10, 64); {
		case gate == "all":
			o.gate = all
		case !hasGate || err != nil || n < 1:
			return order{}, fmt.Errorf(`promote needs the gate: "@" and its number of pods, or "@all"`)
		default:
			o.gate = n
		}
	case "abort", "retry":
		if hasGate {
			return order{}, fmt.Errorf("%s takes no gate", verb)
		}
	default:
		return order{}, fmt.Errorf("%q is no command: use promote, abort or retry", verb)
	}
	revision, attempt, ok := strings.Cut(what, ".")
	r, errR := strconv.ParseInt(revision, 10, 64)
	a, errA := strconv.ParseInt(attempt, 10, 64)
	if !ok || errR != nil || errA != nil || r < 1 || a < 1 {
		return order{}, fmt.Errorf("%q names no revision and attempt: write them as 4.1", what)
	}
	o.revision, o.attempt = r, a
	return o, nil
}

// again makes a command that was given before a new one.
const again = " again"

// Fresh is a command as it has to be written to be looked at: with "again" if
// the same text was looked at last.
func (r *Record) Fresh(command string) string {
	if r.Command != nil && r.Command.Text == command {
		return command + again
	}
	return command
}

// Promote is the command that passes the gate of size pods; size 0 means all gates.
func (r *Record) Promote(size int64) string {
	if size == 0 {
		return fmt.Sprintf("promote %d.%d@all", r.Target.Number, r.Attempt)
	}
	return fmt.Sprintf("promote %d.%d@%d", r.Target.Number, r.Attempt, size)
}

// Abort is the command that ends the attempt.
func (r *Record) Abort() string { return fmt.Sprintf("abort %d.%d", r.Target.Number, r.Attempt) }

// Retry is the command that starts another attempt.
func (r *Record) Retry() string { return fmt.Sprintf("retry %d.%d", r.Target.Number, r.Attempt) }

// Results of commands, as users read them.
const (
	executed = "Executed"
	refused  = "Refused"
)

// CommandPending tells whether text promotes the open gate and waits only for
// pods to be available, or for the pause to end.
func (r *Record) CommandPending(text string, size int64) bool {
	o, err := parseCommand(text)
	return err == nil && (r.Command == nil || r.Command.Text != text) && r.Stage == Rolling && o.verb == "promote" && r.names(o) && (o.gate == all || o.gate == size)
}

func (r *Record) names(o order) bool {
	return o.revision == r.Target.Number && o.attempt == r.Attempt
}

// obey carries out the command annotation. Promoting one gate is left to the
// gate itself, which looks at the annotation when its pods are available; all
// else happens here, once: afterwards the record's attempt, stage or text no
// longer fits the command.
func (t *transition) obey() {
	text := t.wish.Command
	if text == "" || t.spent() {
		return
	}
	o, err := parseCommand(text)
	if err != nil {
		t.refuse(err.Error())
		return
	}
	if why := t.unfit(o); why != "" {
		t.refuse(why)
		return
	}
	switch {
	case o.verb == "abort":
		t.executed()
		t.fail(ReasonAborted, "aborted by command")
	case o.verb == "retry":
		t.executed()
		t.retry()
	case o.gate == all && !t.frozen():
		t.executed()
		t.promote()
	}
}

// unfit says why a command is not for now, or "" when it is.
func (t *transition) unfit(o order) string {
	r := t.r
	if !t.wish.Valid && o.verb != "abort" {
		return "the spec is invalid: only abort works until it is mended"
	}
	if !r.names(o) {
		return fmt.Sprintf("the target is revision %d, attempt %d", r.Target.Number, r.Attempt)
	}
	switch o.verb {
	case "abort":
		switch {
		case r.Stage == Complete || r.Stage == Restoring:
			return "nothing is in progress"
		case r.Stage == RollingBack || r.Stage == RolledBack:
			return "it is rolled back already"
		case r.Stage == Held && r.Stable.Number == 0:
			return "there is no earlier version to go back to"
		}
	case "retry":
		if r.Failure == nil {
			return "nothing has failed"
		}
	case "promote":
		switch {
		case r.Stage == Promoting && o.gate == all:
			return "it is being promoted already"
		case r.Stage != Rolling:
			return "no gate is open"
		case o.gate != all && o.gate != t.step.Size:
			return fmt.Sprintf("the open gate is at %d pods", t.step.Size)
		}
	}
	return ""
}

// executed notes a command that was carried out; it goes into the history too.
func (t *transition) executed() {
	t.r.Command = &Command{Text: t.wish.Command, Result: executed, Time: t.now}
	t.r.log(Entry{
		Revision: t.r.Target.Number, Attempt: t.r.Attempt, Version: t.r.Target.Version,
		Result: ResultCommand, Reason: t.wish.Command, StartedAt: t.now, FinishedAt: t.now,
	})
}

// kept is what is kept of a command's text.
func kept(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxCommand)], "")
}

// refuse notes a command that was not carried out. It does not act later either:
// a retry that came too early must not undo the rollback to come.
func (t *transition) refuse(why string) {
	t.r.Command = &Command{Text: kept(t.wish.Command), Result: refused + ": " + why, Time: t.now}
}
