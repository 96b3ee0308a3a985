package main

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/sim"
)

// teller tells the stories: it gives commands, lets time pass, shows what
// happens and holds it against what is promised.
type teller struct {
	ctx     context.Context
	root    string // folder of the module
	screen  *screen
	calls   *calls
	fast    bool
	cluster *sim.Cluster

	now     picture
	changed time.Time // when the picture changed last, in the cluster's time
	// promised is the number of pods to be available at any time; 0 before the
	// first version is out.
	promised, limit int64
	fewest, most    int64
	broken          error
}

func newTeller(ctx context.Context, root string, screen *screen, calls *calls, fast bool) *teller {
	t := &teller{ctx: ctx, root: root, screen: screen, calls: calls, fast: fast}
	t.cluster = sim.New(sim.Options{Seed: 1, Pace: t.pace}, calls.hook)
	t.cluster.Behave("1.27.5", sim.Behavior{Ready: 2 * time.Second, Grace: time.Second})
	t.cluster.Behave("1.28.0", sim.Behavior{Ready: 4 * time.Second, Grace: time.Second})
	t.cluster.Behave("0.0.0", sim.Behavior{Image: true, Grace: time.Second})
	return t
}

// stories is the whole show.
func (t *teller) stories() error {
	t.screen.title("A first version: nothing runs yet, so all pods start at once.")
	if err := t.first(); err != nil {
		return err
	}
	t.screen.title("A good version: one pod first, for a person to approve, then batch by batch.")
	if err := t.good(); err != nil {
		return err
	}
	t.screen.title("A broken version: it does not exist, and after two minutes it is rolled back.")
	if err := t.bad(); err != nil {
		return err
	}
	t.screen.leave()
	return nil
}

func (t *teller) first() error {
	if err := t.do("kubectl apply -f examples/01-first-release.yaml"); err != nil {
		return err
	}
	if err := t.await(time.Minute, "1.27.5 is out", func() bool { return t.now.phase == greyrelease.PhaseHealthy }); err != nil {
		return err
	}
	// maxUnavailable is 0, and maxSurge 25% of 10 is 3.
	t.promised, t.limit = 10, 13
	t.fewest, t.most = t.now.available(), t.now.pods()
	return t.expect("1.27.5", "1.27.5")
}

// printed finds the command that goes on in a message.
var printed = regexp.MustCompile(`waiting for approval[^:]*: (kubectl annotate .*? --overwrite)`)

func (t *teller) good() error {
	err := t.do(`kubectl patch gr web --type merge -p '{"spec": {"targetVersion": "1.28.0", ` +
		`"batches": [{"replicas": 1, "approval": true}, {"replicas": "40%"}, {"replicas": "70%"}]}}'`)
	if err != nil {
		return err
	}
	var command string
	err = t.await(5*time.Minute, "the first batch waits for approval", func() bool {
		if found := printed.FindStringSubmatch(t.now.message); found != nil {
			command = found[1]
		}
		return command != ""
	})
	if err != nil {
		return err
	}
	if err := t.read(); err != nil {
		return err
	}
	if err := t.do(command); err != nil {
		return err
	}
	err = t.await(10*time.Minute, "1.28.0 is out", func() bool {
		return t.now.phase == greyrelease.PhaseHealthy && t.now.stable == "1.28.0"
	})
	if err != nil {
		return err
	}
	return t.expect("1.28.0", "1.28.0")
}

func (t *teller) bad() error {
	if err := t.do(`kubectl patch gr web --type merge -p '{"spec": {"targetVersion": "0.0.0"}}'`); err != nil {
		return err
	}
	err := t.await(10*time.Minute, "0.0.0 is rolled back", func() bool { return t.now.phase == greyrelease.PhaseRolledBack })
	if err != nil {
		return err
	}
	return t.expect("0.0.0", "1.28.0")
}

// do shows a command and carries it out.
func (t *teller) do(line string) error {
	t.screen.command(t.cluster.Now(), line)
	if err := t.read(); err != nil {
		return err
	}
	return kubectl(t.cluster, t.root, line)
}

// read gives people time to read.
func (t *teller) read() error {
	if t.fast {
		return t.ctx.Err()
	}
	select {
	case <-time.After(1200 * time.Millisecond):
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

// await lets time pass until something holds, but at most for d.
func (t *teller) await(d time.Duration, what string, holds func() bool) error {
	ok, err := t.cluster.Until(d, func() bool {
		t.look()
		return t.ctx.Err() != nil || t.calls.failure != nil || t.broken != nil || holds()
	})
	switch {
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case t.calls.failure != nil:
		return t.calls.failure
	case t.broken != nil:
		return t.broken
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("after %s it does not hold that %s: the phase is %s: %s", d, what, t.now.phase, t.now.message)
	}
	return nil
}

// expect waits for the last pods to come or go and compares.
func (t *teller) expect(target, stable string) error {
	if err := t.await(time.Minute, "no pod comes or goes any more", func() bool { return t.now.still() }); err != nil {
		return err
	}
	p := t.now
	if p.target != target || p.stable != stable {
		return fmt.Errorf("target and stable should be %s and %s and are %s and %s", target, stable, p.target, p.stable)
	}
	for _, row := range p.rows {
		want := int64(0)
		if row.version == stable {
			want = t.promised
		}
		if row.pods() != want || row.available != want || row.leaving != 0 {
			return fmt.Errorf("version %s should have %d pods, all available: it has %d, %d available and %d leaving",
				row.version, want, row.pods(), row.available, row.leaving)
		}
	}
	return nil
}

// look takes a picture, shows it if it is a new one, and checks what is promised.
func (t *teller) look() {
	p := take(t.cluster)
	if p.same(t.now) {
		return
	}
	t.now, t.changed = p, t.cluster.Now()
	t.screen.show(p)
	if t.promised == 0 {
		return
	}
	t.fewest, t.most = min(t.fewest, p.available()), max(t.most, p.pods())
	if t.broken == nil && (t.fewest < t.promised || t.most > t.limit) {
		t.broken = fmt.Errorf("at %s %d pods are available and %d there, promised are at least %d and at most %d",
			p.at.Format(time.TimeOnly), p.available(), p.pods(), t.promised, t.limit)
	}
}

// How many times faster than ours the cluster's time passes, and how long after a
// change it still counts as something that happens.
const (
	busy, idle = 5, 25
	busyTime   = 3 * time.Second
)

// pace waits before the cluster's time moves on.
func (t *teller) pace(until time.Time) {
	const frame, moment = 40 * time.Millisecond, 200 * time.Millisecond
	if until.Sub(t.changed) > moment {
		t.screen.settle()
	}
	for at := t.cluster.Now(); !t.fast && t.ctx.Err() == nil && at.Before(until); {
		speed := busy
		if at.Sub(t.changed) > busyTime {
			speed = idle
		}
		step := min(until.Sub(at), time.Duration(speed)*frame)
		select {
		case <-time.After(step / time.Duration(speed)):
		case <-t.ctx.Done():
		}
		at = at.Add(step)
		t.screen.tick(t.now, at)
	}
}
