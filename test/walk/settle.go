package walk

import (
	"fmt"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
)

// patience is how long a release may take, in virtual time, once the trouble is
// over. The longest way is 25 batches of one pod that needs 420 s and then soaks
// for 60 s: 3 h 20 min.
const patience = 6 * time.Hour

// helplessness is how long nobody mends what no release can get over by itself.
const helplessness = 30 * time.Minute

// settle ends all trouble, does what the release waits for, and checks that it
// comes to a good end: the right pods, and not a write more.
func (w *world) settle() error {
	if err := w.calmDown(); err != nil {
		return err
	}
	w.entered = w.Now()
	end := w.Now().Add(patience)
	for !w.final() {
		if w.Now().After(end) {
			return fmt.Errorf("not at an end after %v: %s: %s", patience, w.text("phase"), w.text("message"))
		}
		if _, err := w.Until(time.Minute, func() bool { return w.final() || w.Quiet() }); err != nil {
			return err
		}
		if err := w.unblock(); err != nil {
			return err
		}
	}
	if err := w.Run(5 * time.Minute); err != nil {
		return err
	}
	return w.checkEnd()
}

// calmDown ends all trouble. From now on every version is a good one, or stays
// what it is.
func (w *world) calmDown() error {
	m := w.Metacontroller
	m.Thaw()
	m.Faults, m.Down = sim.Faults{}, false
	w.Quota = 0
	w.Fit(0)
	w.SetGateway(sim.Gateway{})
	if err := w.allowSecrets(); err != nil {
		return err
	}
	if w.calm = true; w.prometheus != nil {
		w.prometheus.Told = w.Now()
		w.prometheus.Absent, w.prometheus.Delay = false, time.Second
	}
	for i := range 5 {
		w.ReturnNode(i)
	}
	if w.r.IntN(2) == 0 {
		w.mendPods()
	}
	w.Turn("hand", sim.Behavior{Ready: time.Second})
	if w.Server.Get(w.release) == nil {
		w.broken = false
		return w.create()
	}
	return w.relabel()
}

// relabel gives children that lost their parent to the one there is: Metacontroller
// adopts them by this label, and never without.
func (w *world) relabel() error {
	o := w.Server.Get(w.release)
	for _, child := range w.children() {
		if child.Controller() != nil || child.Deleting() {
			continue
		}
		patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{"controller-uid": o.UID}}}
		if err := w.Edit(child.Ref, patch); err != nil {
			return err
		}
	}
	return nil
}

// mendPods makes every version a good one.
func (w *world) mendPods() {
	w.mended = true
	for v := 1; v <= w.versions; v++ {
		w.Turn(fmt.Sprint(v), sim.Behavior{Ready: 2 * time.Second})
	}
}

// final tells whether the release has come to an end that needs nobody.
func (w *world) final() bool {
	o := w.Server.Get(w.release)
	if o == nil || o.Int("status", "observedGeneration") != o.Generation() || w.Metacontroller.Waits(w.release.Key()) {
		return false
	}
	switch w.text("phase") {
	case "Healthy", "RolledBack", "Degraded":
		return true
	}
	return false
}

// unblock does what somebody has to do where nothing more happens by itself. To
// wait for nothing that anybody could give is against I10.
func (w *world) unblock() error {
	if w.Server.Get(w.release) == nil {
		w.broken = false
		return w.create()
	}
	if err := w.relabel(); err != nil {
		return err
	}
	phase, message := w.text("phase"), w.text("message")
	// The stable version itself may never become available, and a template that
	// somebody changed by hand may have left pods that are in the way.
	helpless := phase == "RollingBack" || w.edited
	switch {
	case w.final():
		return nil
	case phase == "Healthy" && !w.mended && w.Since(w.entered) > 10*time.Minute:
		// It is out, but its pods come and go, and each time the version before takes the
		// requests and is kept for longer.
		w.mendPods()
		return nil
	case phase == "Invalid":
		return w.mend()
	case helpless && !w.mended && w.Since(w.entered) > helplessness:
		w.mendPods()
		return nil
	case phase == "Paused" && strings.Contains(message, "spec.paused"):
		return w.edit(map[string]any{"paused": nil})
	case w.Metacontroller.Waits(w.release.Key()) && !strings.Contains(message, "waiting for approval"):
		// Where metrics guard the wait for an approval, or pods come and go, there is
		// always a next look.
		return nil
	case phase == "Paused" && strings.Contains(message, "scaled to 0"):
		return w.Scale(w.release, 3)
	case phase == "Paused" && strings.Contains(message, "approval"):
		for _, m := range printed.FindAllStringSubmatch(message, -1) {
			if strings.HasPrefix(m[1], "promote") {
				return w.Annotate(w.release, command, m[1])
			}
		}
	}
	if !w.Quiet() {
		return nil
	}
	return fmt.Errorf("I10: nothing is going to happen, and it waits for nobody: %s: %s", phase, message)
}

// availableOf is how many pods of a revision are available.
func (w *world) availableOf(revision int64) int64 {
	for _, d := range w.Server.List(sim.Deployments) {
		if d.Label("greyrelease.example.com/number") == fmt.Sprint(revision) {
			return d.Int("status", "availableReplicas")
		}
	}
	return 0
}

// checkEnd looks at the pods, and pokes the release: that must write nothing.
func (w *world) checkEnd() error {
	o := w.Server.Get(w.release)
	replicas := o.Int("spec", "replicas")
	phase := w.text("phase")
	serving := o.Int("status", "targetRevision")
	if phase == "RolledBack" {
		serving = o.Int("status", "stableRevision")
	}
	total := int64(0)
	whole := w.availableOf(serving) >= replicas
	for _, d := range w.Server.List(sim.Deployments) {
		n := d.Int("spec", "replicas")
		total += n
		if phase == "Degraded" || !d.OwnedBy(o.UID) {
			continue
		}
		want := int64(0)
		if d.Label("greyrelease.example.com/number") == fmt.Sprint(serving) {
			want = replicas
		} else if phase == "Healthy" && (!whole || w.Metacontroller.Waits(w.release.Key())) {
			continue // It was promoted and broke later: the version before is kept for the requests.
		}
		if n != want {
			return fmt.Errorf("at the end, %s, %s has %d pods asked for, not %d", phase, d.Name, n, want)
		}
	}
	if phase != "Degraded" && total == 0 && w.lost(serving) {
		return w.checkLoss()
	}
	if phase != "Degraded" && total < replicas {
		return fmt.Errorf("at the end, %s, %d pods are asked for, not %d", phase, total, replicas)
	}
	if !w.Quiet() {
		return nil // some pods never come to rest
	}
	if err := w.checkMoved(); err != nil {
		return err
	}
	// The first takes up what may be left over: a write that was refused in the last
	// sync although it would have changed nothing.
	if err := w.poke("1"); err != nil {
		return err
	}
	before := w.writes()
	if err := w.poke("2"); err != nil {
		return err
	}
	if after := w.writes(); after != before {
		return fmt.Errorf("a poke at the end caused %d writes", after-before)
	}
	return nil
}

// poke makes the release be looked at.
func (w *world) poke(value string) error {
	if err := w.Annotate(w.release, "poke", value); err != nil {
		return err
	}
	return w.Run(time.Hour)
}

// lost tells whether nothing is left of a revision to make its pods from.
func (w *world) lost(revision int64) bool {
	for _, o := range w.children() {
		if o.Label("greyrelease.example.com/number") == fmt.Sprint(revision) {
			return false
		}
	}
	return true
}

// checkLoss: what nobody can bring back must at least not be called ready.
func (w *world) checkLoss() error {
	conditions, _ := w.status()["conditions"].([]any)
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Ready" && c["status"] != "False" {
			return fmt.Errorf("nothing is left to run and the release is called ready: %s", w.text("message"))
		}
	}
	return nil
}

// writes counts the writes of Metacontroller.
func (w *world) writes() int {
	n := 0
	for count, times := range w.Server.Counts {
		if count.Who == "metacontroller" && count.Verb != "get" {
			n += times
		}
	}
	return n
}
