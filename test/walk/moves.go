package walk

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// move is something that happens to a release, with how often relative to others.
type move struct {
	often int
	do    func(w *world) error
}

// moves are all that happens in a walk.
var moves = []move{
	{25, func(w *world) error { return w.edit(map[string]any{"targetVersion": w.version()}) }},
	{4, func(w *world) error { return w.edit(map[string]any{"template": template(w.r.IntN(3))}) }},
	{12, func(w *world) error {
		return w.Scale(w.release, int64(pick(w.r, 0, 1, 2, 3, 5, 8, 10, 12, 20, 25)))
	}},
	{15, (*world).obey},
	{3, func(w *world) error {
		text := pick(w.r, "promote", "abort 1.1", "retry 1.1", "promote 2.1@all", "promote 2.1@1", "fly 1.1", "promote 1.1@x", "abort 3.1", "retry 2.2")
		return w.Annotate(w.release, command, text)
	}},
	{6, func(w *world) error { return w.edit(map[string]any{"paused": pick[any](w.r, true, nil, nil)}) }},
	{7, func(w *world) error {
		return w.edit(map[string]any{"rollbackTo": pick[any](w.r, nil, nil, int64(1), int64(2), int64(3), int64(40))})
	}},
	{5, func(w *world) error {
		return w.respec(func(spec map[string]any) {
			w.plan(spec)
			if w.router == "blue" {
				w.traffic(spec)
			}
		})
	}},
	{4, func(w *world) error { return w.respec(w.limits) }},
	{2, func(w *world) error {
		return w.edit(map[string]any{"progressDeadlineSeconds": int64(pick(w.r, 30, 60, 600)), "autoRollback": pick[any](w.r, nil, nil, false), "revisionHistoryLimit": pick[any](w.r, nil, int64(0), int64(2))})
	}},
	{4, (*world).spoil},
	{8, (*world).deleteChild},
	{4, func(w *world) error { return w.Wipe(w.release) }},
	{4, (*world).editChild},
	{2, (*world).deleteParent},
	{4, func(w *world) error { w.LoseNode(w.r.IntN(5)); return nil }},
	{3, func(w *world) error { w.ReturnNode(w.r.IntN(5)); return nil }},
	{4, func(w *world) error {
		if d := w.deployment(); d != nil {
			w.KillPods(d.Ref, 1+w.r.IntN(3))
		}
		return nil
	}},
	{5, func(w *world) error { w.Turn(w.version(), w.temper(false)); return nil }},
	{6, func(w *world) error {
		w.Metacontroller.Freeze(pick(w.r, sim.Deployments, sim.ConfigMaps, sim.Releases), between(w.r, 30*time.Second))
		return nil
	}},
	{3, func(w *world) error { w.Metacontroller.Restart(w.past()); return nil }},
	{1, func(w *world) error { w.Metacontroller.Reload(w.past()); return nil }},
	{1, func(w *world) error { w.Metacontroller.SetMode(pick(w.r, sim.Dynamic, sim.ServerSide)); return nil }},
	{5, func(w *world) error {
		w.Metacontroller.Faults = pick(w.r, sim.Faults{}, sim.Faults{Lost: 0.3}, sim.Faults{Conflict: 0.3}, sim.Faults{Answered: 0.2}, sim.Faults{Lost: 0.2, Conflict: 0.2, Answered: 0.2})
		return nil
	}},
	{3, func(w *world) error { w.Metacontroller.Down = !w.Metacontroller.Down; return nil }},
	{2, func(w *world) error { w.Quota = pick(w.r, 0, 0, 3, 8, 12); return nil }},
	{2, func(w *world) error { w.Fit(pick(w.r, 0, 0, 3, 8, 12)); return nil }},
}

const command = "greyrelease.example.com/command"

// move makes one random move.
func (w *world) move(moves []move) error {
	total := 0
	for _, m := range moves {
		total += m.often
	}
	n := w.r.IntN(total)
	for _, m := range moves {
		if n -= m.often; n < 0 {
			return excused(m.do(w))
		}
	}
	return nil
}

// excused forgives what happens to a user whose object is not there or who is
// told that the edit is not legal.
func excused(err error) error {
	if err == nil || apierrors.IsNotFound(err) || strings.HasSuffix(err.Error(), " not found") || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

var errAbsent = errors.New("there is no such object")

func (w *world) edit(spec map[string]any) error {
	return w.Edit(w.release, map[string]any{"spec": spec})
}

// respec sets a part of the spec anew.
func (w *world) respec(part func(map[string]any)) error {
	spec := map[string]any{}
	part(spec)
	return w.edit(spec)
}

// printed finds the commands that a message tells users to copy.
var printed = regexp.MustCompile(`greyrelease\.example\.com/command='([^']+)'`)

// obey does what the message tells users to do.
func (w *world) obey() error {
	all := printed.FindAllStringSubmatch(w.text("message"), -1)
	if len(all) == 0 {
		return nil
	}
	return w.Annotate(w.release, command, all[w.r.IntN(len(all))][1])
}

// spoil makes the spec one that the hook refuses, or mends it.
func (w *world) spoil() error {
	if w.broken {
		return w.mend()
	}
	w.broken = true
	if w.router != "" && w.r.IntN(2) == 0 {
		return w.edit(pick(w.r,
			map[string]any{"traffic": map[string]any{"ports": nil}},
			map[string]any{"traffic": map[string]any{"serviceName": "web-preview"}},
			map[string]any{"scaleDownDelaySeconds": int64(-1)},
		))
	}
	return w.edit(pick(w.r,
		map[string]any{"maxSurge": int64(0), "maxUnavailable": int64(0)},
		map[string]any{"batches": []any{map[string]any{"replicas": int64(5)}, map[string]any{"replicas": int64(2)}}},
		map[string]any{"targetVersion": "no good"},
		map[string]any{"strategy": "BlueGreen"},
		map[string]any{"scaleDownDelaySeconds": int64(5)},
		map[string]any{"minReadySeconds": int64(900)},
	))
}

// mend makes the spec legal again.
func (w *world) mend() error {
	w.broken = false
	o := w.Server.Get(w.release)
	if o == nil {
		return errAbsent
	}
	spec := map[string]any{"strategy": nil, "scaleDownDelaySeconds": nil, "progressDeadlineSeconds": int64(60)}
	w.plan(spec)
	if w.traffic(spec); w.router != "" {
		spec["traffic"].(map[string]any)["serviceName"] = nil
	}
	w.limits(spec)
	if o.Text("spec", "targetVersion") == "no good" {
		spec["targetVersion"] = w.version()
	}
	if w.r.IntN(2) == 0 || o.Int("spec", "rollbackTo") == 40 {
		spec["rollbackTo"] = nil
	}
	return w.edit(spec)
}

// children are the children of the release, of any kind.
func (w *world) children() []*sim.Object {
	var list []*sim.Object
	for _, k := range []*sim.Kind{sim.ConfigMaps, sim.Deployments, sim.Secrets} {
		list = append(list, w.Server.List(k)...)
	}
	return append(list, w.routing()...)
}

func (w *world) deployment() *sim.Object {
	list := w.Server.List(sim.Deployments)
	if len(list) == 0 {
		return nil
	}
	return pick(w.r, list...)
}

func (w *world) deleteChild() error {
	list := w.children()
	if len(list) == 0 {
		return nil
	}
	return w.Delete(pick(w.r, list...).Ref, pick(w.r, sim.Background, sim.Background, sim.Foreground, sim.Orphan))
}

func (w *world) editChild() error {
	d := w.deployment()
	if d == nil {
		return nil
	}
	switch w.r.IntN(5) {
	case 0:
		return w.Scale(d.Ref, int64(w.r.IntN(12)))
	case 1:
		return w.RestartRollout(d.Ref)
	case 2:
		w.edited = true
		return w.Edit(d.Ref, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "web", "image": "nginx:hand"}}}}}})
	case 3:
		return w.Annotate(d.Ref, "note", fmt.Sprint(w.r.IntN(100)))
	}
	return w.Edit(d.Ref, map[string]any{"metadata": map[string]any{"labels": map[string]any{"controller-uid": pick[any](w.r, nil, "other")}}})
}

// deleteParent deletes the release and creates it again at once.
func (w *world) deleteParent() error {
	if err := w.Delete(w.release, pick(w.r, sim.Background, sim.Background, sim.Foreground)); err != nil {
		return err
	}
	w.broken = false
	if w.r.IntN(2) == 0 {
		if err := w.Run(between(w.r, 5*time.Second)); err != nil {
			return err
		}
	}
	if w.Server.Get(w.release) != nil {
		return nil
	}
	return w.create()
}

// past is how old the caches are after a restart: mostly not at all.
func (w *world) past() time.Duration {
	if w.r.IntN(3) > 0 {
		return 0
	}
	return between(w.r, 20*time.Second)
}
