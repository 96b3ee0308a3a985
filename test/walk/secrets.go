package walk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"greyrelease.example.com/test/sim"
)

// WalkSecrets takes a release whose snapshots can be kept in Secrets for the walk with
// this seed.
func WalkSecrets(seed uint64, hook sim.Hook, trace func(line string)) error {
	r := rand.New(rand.NewPCG(seed, 0x736563726574))
	options := temperament(seed, r)
	options.Children = withSecrets
	w := settled(options, hook, r)
	w.secrets = true
	return walk(w, trace, secretMoves)
}

var (
	withSecrets    = []*sim.Kind{sim.ConfigMaps, sim.Deployments, sim.Secrets, sim.Services}
	withoutSecrets = []*sim.Kind{sim.ConfigMaps, sim.Deployments, sim.Services}
)

// secretMoves are what happens to the places of snapshots, beside all else.
var secretMoves = append([]move{
	{20, func(w *world) error { return w.edit(map[string]any{"snapshotKind": w.snapshotKind()}) }},
	// Somebody who changes his mind.
	{10, func(w *world) error {
		for range 2 + w.r.IntN(3) {
			if err := w.edit(map[string]any{"snapshotKind": w.snapshotKind()}); err != nil {
				return err
			}
			if err := w.Run(between(w.r, 15*time.Second)); err != nil {
				return err
			}
		}
		return nil
	}},
	{8, func(w *world) error {
		w.Metacontroller.Freeze(pick(w.r, sim.Secrets, sim.ConfigMaps), between(w.r, 30*time.Second))
		return nil
	}},
	// The overlay goes, or comes back.
	{5, func(w *world) error {
		if slices.Contains(w.Metacontroller.Children(), sim.Secrets) {
			w.Metacontroller.SetChildren(withoutSecrets...)
			return nil
		}
		w.Metacontroller.SetChildren(withSecrets...)
		return nil
	}},
	{4, (*world).foreignSecret},
}, moves...)

func (w *world) snapshotKind() any { return pick[any](w.r, nil, "ConfigMap", "Secret", "Secret") }

// foreignSecret takes the name of a snapshot, or gives it back.
func (w *world) foreignSecret() error {
	ref := sim.Secret(fmt.Sprintf("%s-rev-%d", w.release.Name, 1+w.r.IntN(5)))
	if o := w.Server.Get(ref); o != nil {
		if o.Text("type") == "Opaque" {
			return w.Delete(ref, sim.Background)
		}
		return nil
	}
	return w.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace},
		"data": map[string]any{"password": "aHVudGVyMg=="},
	})
}

// allowSecrets takes everything out of the way of snapshots. What somebody else's Secret
// holds must be as it was.
func (w *world) allowSecrets() error {
	if !w.secrets {
		return nil
	}
	if !slices.Contains(w.Metacontroller.Children(), sim.Secrets) {
		w.Metacontroller.SetChildren(withSecrets...)
	}
	for _, o := range w.Server.List(sim.Secrets) {
		if o.Text("type") != "Opaque" {
			continue
		}
		if o.Text("data", "password") != "aHVudGVyMg==" || o.Controller() != nil {
			return fmt.Errorf("somebody else's %s was written to: %s", o.Ref, o.JSON())
		}
		if err := w.Delete(o.Ref, sim.Background); err != nil {
			return err
		}
	}
	return nil
}

// checkMoved: in the end all snapshots are where the spec wants them, or the message says
// what is in the way.
func (w *world) checkMoved() error {
	if !w.secrets {
		return nil
	}
	wrong := sim.Secrets
	if w.Server.Get(w.release).Text("spec", "snapshotKind") == "Secret" {
		wrong = sim.ConfigMaps
	}
	for _, o := range w.Server.List(wrong) {
		const note = "which of the two is not needed can be deleted"
		if o.Label("greyrelease.example.com/number") != "" && !strings.Contains(w.text("message"), note) {
			return fmt.Errorf("at the end %s is not where the spec wants it", o.Ref)
		}
	}
	return nil
}
