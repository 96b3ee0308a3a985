package sim

import (
	"errors"
	"fmt"
	"strconv"

	"greyrelease.example.com/test/sim/apply"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// carryOut writes what was answered, one write at a time: deletions, then each
// kind in order with its objects in random order, then the status. An error of
// one write does not stop the others. A restart in between ends it.
func (m *Metacontroller) carryOut(s *Sync) {
	var steps []func() error
	if !s.Parent.Deleting() {
		steps = append(m.deletions(s), m.updates(s)...)
	}
	epoch := m.epoch
	var errs []error
	var next func()
	next = func() {
		if epoch != m.epoch {
			return
		}
		for len(steps) > 0 {
			step := steps[0]
			steps = steps[1:]
			writes := len(s.Writes)
			if err := step(); err != nil {
				errs = append(errs, err)
			}
			if m.c.options.Writes.Max > 0 && len(s.Writes) > writes {
				m.c.clock.after(m.c.lag(m.c.options.Writes), next)
				return
			}
		}
		var manage error
		if len(errs) > 0 {
			manage = fmt.Errorf("can't reconcile children for GreyRelease %s: %w", s.Key, errors.Join(errs...))
		}
		switch err := m.writeStatus(s); {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			manage = nil // swallowed, and what went wrong before with it
		case err != nil:
			manage = fmt.Errorf("can't update status for GreyRelease %s: %w", s.Key, err)
		}
		m.finish(s, manage)
	}
	next()
}

// deletions deletes the observed children that are not listed.
func (m *Metacontroller) deletions(s *Sync) []func() error {
	listed := make(map[Ref]bool, len(s.Answer.Children))
	for _, w := range s.Answer.Children {
		listed[w.Ref] = true
	}
	var steps []func() error
	for _, o := range m.shuffled(s.Children) {
		if listed[o.Ref] || o.Deleting() {
			continue
		}
		steps = append(steps, func() error {
			err := m.write(s, "delete", o.Ref, func() (*Object, error) {
				return nil, m.c.Server.Delete(manager, o.Ref, o.UID, Background)
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("can't delete %s: %w", o.Ref, err)
			}
			delete(m.seen, o.Ref)
			return nil
		})
	}
	return steps
}

// shuffled groups children by kind and puts those of one kind in random order.
func (m *Metacontroller) shuffled(children []*Object) []*Object {
	var list []*Object
	for _, k := range m.childKinds() {
		from := len(list)
		for _, o := range children {
			if o.Kind == k {
				list = append(list, o)
			}
		}
		group := list[from:]
		m.c.chance.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	}
	return list
}

// updates creates or updates the children that are listed.
func (m *Metacontroller) updates(s *Sync) []func() error {
	observed := make(map[Ref]*Object, len(s.Children))
	for _, o := range s.Children {
		observed[o.Ref] = o
	}
	var steps []func() error
	for _, k := range m.childKinds() {
		from := len(steps)
		for _, w := range s.Answer.Children {
			if w.Kind == k {
				steps = append(steps, func() error { return m.update(s, w, observed[w.Ref]) })
			}
		}
		group := steps[from:]
		m.c.chance.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	}
	return steps
}

// update brings one child to what is wanted.
func (m *Metacontroller) update(s *Sync, w *wish, observed *Object) error {
	if m.mode == ServerSide {
		return m.serverSide(s, w, observed)
	}
	if observed == nil {
		tree, err := apply.Create(w.tree, apply.Owner(s.Parent.Tree))
		if err != nil {
			return err
		}
		err = m.write(s, "create", w.Ref, func() (*Object, error) { return m.c.Server.Create(manager, tree) })
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	if w.met == observed {
		return nil
	}
	tree, err := apply.Update(observed.Tree, w.tree)
	if err != nil {
		return err
	}
	if apply.Equal(observed.Tree, tree) {
		w.met = observed
		return nil
	}
	if observed.Deleting() {
		return nil
	}
	err = m.write(s, "update", w.Ref, func() (*Object, error) { return m.c.Server.Update(manager, tree, "") })
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (m *Metacontroller) serverSide(s *Sync, w *wish, observed *Object) error {
	if observed != nil && observed.Deleting() {
		return nil
	}
	config := apply.Config(w.tree, apply.Owner(s.Parent.Tree))
	if w.hash == 0 {
		w.hash = apply.Hash(config)
	}
	if observed != nil {
		if last, ok := m.seen[w.Ref]; ok && last.Skips(w.hash, observed.Tree) {
			return nil
		}
		if observed.Annotation(apply.LastApplied) != "" { // left over from dynamic mode
			patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{apply.LastApplied: nil}}}
			err := m.write(s, "patch", w.Ref, func() (*Object, error) { return m.c.Server.Patch(manager, w.Ref, patch, "") })
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	err := m.write(s, "apply", w.Ref, func() (*Object, error) {
		o, err := m.c.Server.Apply(manager, config)
		if err == nil {
			if m.seen == nil {
				m.seen = map[Ref]apply.Applied{}
			}
			m.seen[w.Ref] = apply.Remember(w.hash, o.Tree)
		}
		return o, err
	})
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// writeStatus replaces the status of the live parent. A conflict is tried again
// three times.
func (m *Metacontroller) writeStatus(s *Sync) error {
	var err error
	for range 4 {
		m.c.Server.Counts[Count{manager, "get", Releases.Name, ""}]++
		live := m.c.Server.Get(s.Parent.Ref)
		if live == nil || live.UID != s.Parent.UID {
			return apierrors.NewNotFound(s.Parent.resource(), s.Parent.Name)
		}
		if apply.Equal(live.Tree["status"], s.Answer.Status) {
			return nil
		}
		err = m.write(s, "update status", s.Parent.Ref, func() (*Object, error) {
			return m.c.Server.Update(manager, with(live.Tree, "status", s.Answer.Status), "status")
		})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// write carries out a write, unless it is to go wrong, and notes what it did.
func (m *Metacontroller) write(s *Sync, verb string, ref Ref, do func() (*Object, error)) error {
	w := Write{Verb: verb, Ref: ref, Old: m.c.Server.Get(ref)}
	f := m.Faults
	draw := 1.0
	if f != (Faults{}) {
		draw = m.c.chance.Float64()
	}
	w.Planned = draw < f.Lost+f.Conflict+f.Answered
	switch {
	case draw < f.Lost:
		w.Err = apierrors.NewInternalError(errors.New("the request was lost"))
	case draw < f.Lost+f.Conflict && verb != "delete" && verb != "create":
		w.Err = conflict(ref)
	case draw < f.Lost+f.Conflict+f.Answered:
		if _, w.Err = do(); w.Err == nil {
			w.Err = apierrors.NewTimeoutError("the answer was lost", 1)
		}
	default:
		w.Planned = false
		_, w.Err = do()
	}
	w.New = m.c.Server.Get(ref)
	s.Writes = append(s.Writes, w)
	m.c.logf("  %s %s%s", verb, ref, m.c.effect(w))
	m.c.wrote(s, w)
	return w.Err
}

// effect says what a write did, for logs.
func (c *Cluster) effect(w Write) string {
	if c.trace == nil {
		return ""
	}
	text := ""
	if w.New != nil && w.New != w.Old {
		text = " -> version " + strconv.FormatInt(w.New.Version, 10)
		if w.Ref.Kind == Deployments {
			text += " replicas=" + strconv.FormatInt(w.New.Int("spec", "replicas"), 10)
		}
		if record := w.New.Text("data", "record.json"); record != "" {
			text += " " + record
		}
	}
	if w.Err != nil {
		text += " (" + w.Err.Error() + ")"
	}
	return text
}
