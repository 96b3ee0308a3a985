package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// move is something that a user does, with how often relative to others. It says what it
// did, or "" if there was nothing to do it to.
type move struct {
	name  string
	often int
	do    func(*user, context.Context, *rand.Rand) (string, error)
}

var moves = []move{
	{"new version", 30, (*user).moveOn},
	{"failing version", 14, (*user).fail},
	{"earlier version", 9, (*user).goBack},
	{"rollbackTo", 8, (*user).pinOrLet},
	{"scale", 12, (*user).resize},
	{"abort", 5, (*user).abort},
	{"retry", 5, (*user).tryAgain},
	{"pause", 4, (*user).hold},
	{"settings", 3, (*user).change},
	{"invalid edit", 4, (*user).spoil},
	{"wiped status", 5, (*user).wipe},
	{"deleted record", 5, (*user).loseRecord},
	{"deleted snapshot", 3, (*user).loseSnapshot},
	{"deleted Deployment", 3, (*user).loseDeployment},
	{"deleted pod", 4, (*user).losePod},
	{"deleted release", 1, (*user).beginAgain},
}

// live makes moves until the context ends. While the gate is held by another, nobody moves.
func (u *user) live(ctx context.Context, gate *gate) {
	for ctx.Err() == nil {
		r := u.draws()
		m := draw(r, moves)
		rest := time.Duration(1000+r.IntN(27000)) * time.Millisecond
		if !gate.enter(ctx) {
			return
		}
		what, err := m.do(u, ctx, r)
		gate.leave()
		switch {
		case err != nil && ctx.Err() == nil:
			u.journal.say("%s move %d, %s: refused: %v", u.name, u.moves, m.name, err)
			u.counter.add("moves refused")
		case what == "":
			u.journal.note("%s move %d, %s: nothing to do it to", u.name, u.moves, m.name)
		default:
			u.journal.note("%s move %d, %s: %s", u.name, u.moves, m.name, what)
			u.counter.add("move " + m.name)
		}
		pause(ctx, rest)
	}
}

// draw returns one of several things, each as often as it weighs.
func draw[T interface{ weight() int }](r *rand.Rand, of []T) T {
	total := 0
	for _, one := range of {
		total += one.weight()
	}
	n, i := r.IntN(total), 0
	for n >= of[i].weight() {
		n -= of[i].weight()
		i++
	}
	return of[i]
}

func (m move) weight() int { return m.often }

func (u *user) moveOn(ctx context.Context, _ *rand.Rand) (string, error) {
	c := u.next("")
	return c.version, u.tell(ctx, c, nil)
}

// fail tells a version that can't become healthy. Where no version is out completely there
// would be nothing to go back to, and a version whose pods crash only later must meet a
// batch that soaks.
func (u *user) fail(ctx context.Context, r *rand.Rand) (string, error) {
	fate := u.fates[r.IntN(len(u.fates))]
	whole, completed := u.book.reached(u.name, time.Now())
	if u.book.statusOf(u.name).StableVersion == "" || len(completed) == 0 || !whole {
		fate = ""
	}
	c := u.next(fate)
	return c.version, u.tell(ctx, c, nil)
}

func (u *user) goBack(ctx context.Context, r *rand.Rand) (string, error) {
	u.mu.Lock()
	var good []content
	for _, c := range u.told {
		if c.fate == "" && c != u.current {
			good = append(good, c)
		}
	}
	u.mu.Unlock()
	if len(good) == 0 {
		return "", nil
	}
	good = good[max(0, len(good)-4):]
	c := good[r.IntN(len(good))]
	return c.version, u.tell(ctx, c, nil)
}

// pinOrLet pins one of the last revisions, or lets go of the one that is pinned.
func (u *user) pinOrLet(ctx context.Context, r *rand.Rand) (string, error) {
	u.mu.Lock()
	pinned, current := u.pin, u.current
	u.mu.Unlock()
	if pinned != "" {
		u.mu.Lock()
		u.pin = ""
		u.mu.Unlock()
		return "none", u.edit(ctx, object{"rollbackTo": nil, "progressDeadlineSeconds": current.deadline()})
	}
	list, err := u.snapshots(ctx)
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list[:min(6, len(list))], func(s snapshot) bool {
		c, known := u.content(s.version)
		return !known || c.fate != ""
	})
	if len(list) == 0 {
		return "", nil
	}
	s := list[r.IntN(len(list))]
	u.mu.Lock()
	u.pin = s.version
	if s.version != current.version {
		u.left[current.version] = true
	}
	u.mu.Unlock()
	return fmt.Sprintf("%d, %s", s.number, s.version), u.edit(ctx, object{"rollbackTo": s.number, "progressDeadlineSeconds": content{}.deadline()})
}

func (u *user) resize(ctx context.Context, r *rand.Rand) (string, error) {
	n := u.shape.replicas[r.IntN(len(u.shape.replicas))]
	return fmt.Sprint(n), u.scale(ctx, n)
}

// printed finds the commands that a message tells users to copy.
var printed = regexp.MustCompile(`greyrelease\.example\.com/command='([^']+)'`)

// printedCommand is the first command of a kind that the message prints, and the version
// that it is about.
func (u *user) printedCommand(verb string) (command, version string) {
	st := u.book.statusOf(u.name)
	for _, m := range printed.FindAllStringSubmatch(st.Message, -1) {
		if strings.HasPrefix(m[1], verb+" ") {
			return m[1], st.TargetVersion
		}
	}
	return "", ""
}

func (u *user) give(ctx context.Context, command string) (string, error) {
	if command == "" {
		return "", nil
	}
	return command, u.patch(ctx, object{"metadata": object{"annotations": object{greyrelease.AnnotationCommand: command}}})
}

// abort gives up what is going out, unless that is what a revision was pinned for.
func (u *user) abort(ctx context.Context, _ *rand.Rand) (string, error) {
	command, version := u.printedCommand("abort")
	u.mu.Lock()
	if u.pin != "" {
		command = ""
	}
	if command != "" {
		u.left[version] = true
	}
	u.mu.Unlock()
	return u.give(ctx, command)
}

func (u *user) tryAgain(ctx context.Context, _ *rand.Rand) (string, error) {
	command, _ := u.printedCommand("retry")
	return u.give(ctx, command)
}

// approve goes on where a release waits for somebody to look at it.
func (u *user) approve(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, 3*time.Second)
		st := u.book.statusOf(u.name)
		if st.Phase != greyrelease.PhasePaused || !strings.Contains(st.Message, "approval") {
			continue
		}
		command, _ := u.printedCommand("promote")
		if what, err := u.give(ctx, command); err == nil && what != "" {
			u.journal.note("%s: %s", u.name, what)
		}
	}
}

func (u *user) hold(ctx context.Context, r *rand.Rand) (string, error) {
	d := time.Duration(3+r.IntN(10)) * time.Second
	if err := u.edit(ctx, object{"paused": true}); err != nil {
		return "", err
	}
	pause(ctx, d)
	return d.String(), u.edit(context.WithoutCancel(ctx), object{"paused": nil})
}

// change edits what restarts no pod.
func (u *user) change(ctx context.Context, r *rand.Rand) (string, error) {
	n := int64(5 + r.IntN(10))
	return fmt.Sprintf("revisionHistoryLimit %d", n), u.edit(ctx, object{"revisionHistoryLimit": n})
}

// spoil makes the spec one that can't be followed, for a while.
func (u *user) spoil(ctx context.Context, r *rand.Rand) (string, error) {
	u.mu.Lock()
	pinned := u.pin
	u.mu.Unlock()
	if pinned != "" {
		return "", nil
	}
	d := time.Duration(2+r.IntN(8)) * time.Second
	if err := u.edit(ctx, object{"rollbackTo": int64(99999)}); err != nil {
		return "", err
	}
	pause(ctx, d)
	return "rollbackTo 99999 for " + d.String(), u.edit(context.WithoutCancel(ctx), object{"rollbackTo": nil})
}
