package greyrelease

import (
	"fmt"
	"strings"
	"time"

	"greyrelease.example.com/hooks/rollout"
)

// maxDetail bounds a text that comes from elsewhere, in bytes.
const maxDetail = 300

// message says what is happening and, where something waits for a person, the
// exact command that goes on from here. Instants are absolute and UTC, so that
// it stays the same until something happens.
func (a *answer) message(s *GreyReleaseStatus, v rollout.View) string {
	parts := []string{a.headline(v)}
	if r := a.record; r != nil && s.Phase != PhaseInvalid {
		parts = append(parts, a.podNotes(r)...)
		parts = append(parts, a.trouble(r)...)
		parts = append(parts, a.routeNotes(r)...)
		parts = append(parts, a.analysisNotes(r)...)
		if a.wish.Pin.Number != 0 && r.Pin == a.wish.Pin.Number {
			parts = append(parts, fmt.Sprintf("pinned to revision %d by spec.rollbackTo: remove the field to release other versions again", r.Pin))
			parts = append(parts, a.pinWarning(r)...)
		}
		if text := a.wish.Command; text != "" {
			parts = append(parts, a.commandNote(r, v, text)...)
		}
	}
	parts = append(parts, a.absent()...)
	parts = append(parts, a.templateNotes()...)
	parts = append(parts, a.notes...)
	return strings.Join(parts, "; ")
}

func (a *answer) headline(v rollout.View) string {
	r := a.record
	switch {
	case !a.wish.Valid:
		return a.invalid()
	case r == nil && len(a.notes) > 0 && a.recordIsLost():
		return "what runs is kept" // the notes say why
	case r == nil && a.recordIsLost():
		return fmt.Sprintf("the record %s of this release is not there and is made again from what runs; if this stays, its name is taken or the API server refuses it (see the events)", recordName(a.name))
	case r == nil:
		return fmt.Sprintf("installing %s (revision %d)", a.wish.Content.Version, a.wish.Content.Number)
	case a.changing():
		to := a.wish.Content
		if a.wish.Pin.Number != 0 {
			to = a.wish.Pin
		}
		return fmt.Sprintf("going from %s to %s", name(r.Target), name(to))
	}
	switch r.Stage {
	case rollout.Complete:
		return a.complete(r)
	case rollout.Rolling:
		return a.rolling(r, v)
	case rollout.Promoting:
		return a.promoting(r, v)
	case rollout.Restoring:
		return fmt.Sprintf("back to %s, the stable one; the pods of other versions are leaving%s", name(r.Stable), a.awaited(r))
	case rollout.RollingBack:
		return fmt.Sprintf("%s failed: %s; rolling back to %s%s", name(r.Target), r.Failure.Message, name(r.Stable), a.awaited(r))
	case rollout.RolledBack:
		return fmt.Sprintf("%s failed: %s; rolled back to %s (%s); it is not tried again until version or template change, or by: %s",
			name(r.Target), r.Failure.Message, name(r.Stable), a.notRestored(), a.run(r.Retry()))
	case rollout.Held:
		return a.held(r)
	}
	return ""
}

// awaited says what a way back waits for: what serves stays until the stable
// pods are there.
func (a *answer) awaited(r *rollout.Record) string {
	size := a.size()
	if a.facts.Available(r.Stable.Number) >= size {
		return ""
	}
	if a.sinceChange() < movingSeconds*time.Second {
		return ""
	}
	return fmt.Sprintf("; waiting for pods of it: %d of %d are available", a.facts.Available(r.Stable.Number), size)
}

// name is "1.2 (revision 4)".
func name(r rollout.Revision) string { return fmt.Sprintf("%s (revision %d)", r.Version, r.Number) }

func (a *answer) run(command string) string {
	return annotate(a.namespace, a.name, a.record.Fresh(command))
}

func (a *answer) invalid() string {
	texts := make([]string, 0, 3)
	for i, err := range a.errs {
		if i == 3 {
			texts = append(texts, fmt.Sprintf("and %d more", len(a.errs)-i))
			break
		}
		texts = append(texts, shorten(err.Error()))
	}
	text := "the spec is invalid and what runs is kept: " + strings.Join(texts, "; ")
	if r := a.record; r != nil {
		switch r.Stage {
		case rollout.RollingBack:
			text += fmt.Sprintf("; %s failed (%s) and is being rolled back", name(r.Target), r.Failure.Message)
		case rollout.Rolling, rollout.Promoting:
			if r.Stable.Number == 0 {
				break
			}
			text += "; to give the release up: " + a.run(r.Abort())
		case rollout.Complete, rollout.Restoring, rollout.RolledBack, rollout.Held:
		}
	}
	return text
}

func (a *answer) complete(r *rollout.Record) string {
	size := a.size()
	have := a.facts.Available(r.Target.Number)
	if have < size {
		return fmt.Sprintf("%s is released; %d of %d pods are available", name(r.Target), have, size)
	}
	return fmt.Sprintf("%s is released", name(r.Target))
}

func (a *answer) rolling(r *rollout.Record, v rollout.View) string {
	at := fmt.Sprintf("%s: batch %d of %d, %d of %d pods", name(r.Target), v.Step.Index, v.Step.Total, v.Step.Size, a.size())
	switch v.Wait {
	case rollout.WaitZero:
		return fmt.Sprintf("%s: scaled to 0; the position is held and the release goes on when spec.replicas is above 0", name(r.Target))
	case rollout.WaitPaused:
		return fmt.Sprintf("%s; paused by spec.paused: set it to false to go on, or give the release up: %s", at, a.run(r.Abort()))
	case rollout.WaitSoak:
		return fmt.Sprintf("%s; soaking until %s; to go on at once: %s; to give up: %s", at, clock(v.Until), a.run(r.Promote(v.Step.Size)), a.run(r.Abort()))
	case rollout.WaitAnalysis:
		return fmt.Sprintf("%s; waiting for the analysis; to go on without it: %s; to give up: %s", at, a.run(r.Promote(v.Step.Size)), a.run(r.Abort()))
	case rollout.WaitApproval:
		text := at + "; waiting for approval"
		if !v.Until.IsZero() {
			text += " until " + clock(v.Until)
		}
		return fmt.Sprintf("%s: %s; to give up: %s", text, a.run(r.Promote(v.Step.Size)), a.run(r.Abort()))
	case rollout.WaitNone:
	}
	return fmt.Sprintf("%s; to give up: %s", at, a.run(r.Abort()))
}

func (a *answer) promoting(r *rollout.Record, v rollout.View) string {
	switch {
	case v.Wait == rollout.WaitPaused:
		return fmt.Sprintf("%s: paused by spec.paused: set it to false to go on", name(r.Target))
	case a.outAtZero() && r.Stable.Number != 0:
		return fmt.Sprintf("%s is the target, scaled to 0; %s stays the stable one until a pod of it has been available", name(r.Target), name(r.Stable))
	case a.outAtZero():
		return fmt.Sprintf("%s is the target, scaled to 0", name(r.Target))
	case r.Stable.Number == 0:
		return "installing " + name(r.Target)
	}
	return fmt.Sprintf("%s: promoting to all %d pods; to give up: %s", name(r.Target), a.size(), a.run(r.Abort()))
}

func (a *answer) held(r *rollout.Record) string {
	text := fmt.Sprintf("%s failed: %s; ", name(r.Target), r.Failure.Message)
	switch {
	case r.Stable.Number == 0:
		text += "there is no earlier version to go back to; change the spec or: " + a.run(r.Retry())
	case r.Pin != 0:
		text += "it is pinned by spec.rollbackTo, so it is held; name another revision, or: " + a.run(r.Retry())
	default:
		text += fmt.Sprintf("it is held where it is; to roll back: %s; to try again: %s", a.run(r.Abort()), a.run(r.Retry()))
	}
	return text
}

// trouble tells what keeps pods from coming.
func (a *answer) trouble(r *rollout.Record) []string {
	var out []string
	for i := range a.facts.Deployments {
		d := &a.facts.Deployments[i]
		if d.Failure != "" && (d.Revision == r.Target.Number || d.Revision == r.Stable.Number) {
			out = append(out, fmt.Sprintf("pods of %s cannot be created: %s", name(d.Identity), shorten(d.Failure)))
		}
		if d.Deleting {
			out = append(out, fmt.Sprintf("Deployment %s is being deleted: waiting for it to go", a.deployments[d.Revision].Metadata.Name))
		}
	}
	return out
}

// awaitSeconds is how long a child may take to appear before the message names it.
const awaitSeconds = 5

// absent names children that were asked for and are not there. A child takes a
// moment to appear; only what takes longer is worth a word.
func (a *answer) absent() []string {
	if a.sinceChange() < awaitSeconds*time.Second {
		return nil
	}
	out := make([]string, 0, len(a.missing))
	for _, child := range a.missing {
		out = append(out, child+" was asked for and is not there: its name may be taken, an older one may still be on its way out, or the API server refuses it (see the events)")
	}
	return out
}

// pinWarning warns of a pinned revision that is not known to have ever worked.
func (a *answer) pinWarning(r *rollout.Record) []string {
	if r.Stable.Number == r.Pin {
		return nil
	}
	tried := false
	for _, e := range r.History {
		if e.Revision == r.Pin {
			if e.Result == rollout.ResultCompleted {
				return nil
			}
			tried = tried || e.Result != rollout.ResultCommand
		}
	}
	if !tried {
		return nil
	}
	return []string{fmt.Sprintf("revision %d never completed a release", r.Pin)}
}

// commandNote tells what becomes of the command annotation.
func (a *answer) commandNote(r *rollout.Record, v rollout.View, text string) []string {
	switch {
	case r.Command != nil && r.Command.Text == text && !strings.HasPrefix(r.Command.Result, "Executed"):
		return []string{fmt.Sprintf("command %q: %s", cut(text), r.Command.Result)}
	case r.CommandPending(text, v.Step.Size) && v.Wait == rollout.WaitPaused:
		return []string{fmt.Sprintf("command %q waits for the pause to end", cut(text))}
	}
	return nil
}

// templateNotes are what of the template is not taken as written, and that no
// container takes the version. They stay for as long as it is the spec's.
func (a *answer) templateNotes() []string {
	if a.draft != nil {
		return a.draft.notes
	}
	if !a.wish.Valid {
		return nil
	}
	_, notes, err := fillTemplate(a.desire.template, a.identityOf(&a.desire))
	if err != nil {
		return nil // It was rendered when its revision was new.
	}
	return notes
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxDetail {
		return text
	}
	return strings.ToValidUTF8(text[:maxDetail], "") + "..."
}
