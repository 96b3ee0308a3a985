package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// fixpoint holds the rules about repeating a question.
type fixpoint struct {
	last   map[string]*Sync
	second time.Time // the last whole second with a sync
	syncs  int       // and how many it has had
}

// Every so many syncs the expensive rules are tried.
const (
	sameEvery   = 8
	settleEvery = 24
	settlesIn   = 8   // syncs
	hot         = 300 // syncs in a second
)

// checkHot: no answer may lead to the next question for ever. While the cache
// shows a parent that is gone, its children are made and collected in turns,
// whatever the hook says.
func (f *fixpoint) checkHot(c *Cluster, s *Sync) error {
	if live := c.Server.Get(s.Parent.Ref); live == nil || live.UID != s.Parent.UID {
		return nil
	}
	if second := s.At.Truncate(time.Second); !second.Equal(f.second) {
		f.second, f.syncs = second, 0
	}
	if f.syncs++; f.syncs > hot {
		return fmt.Errorf("%d syncs within one second", f.syncs)
	}
	return nil
}

// checkSame is I4 and I5: the same question at the same instant has the same
// answer, byte for byte, and asking leaves the question as it was.
func (f *fixpoint) checkSame(c *Cluster, s *Sync) error {
	if s.Number%sameEvery != 0 {
		return nil
	}
	body := bytes.Clone(s.Body)
	again, err := c.Metacontroller.hook(s.Body, s.At)
	if err != nil {
		return err
	}
	if !bytes.Equal(body, s.Body) {
		return fmt.Errorf("the request was written to")
	}
	if again.Status != s.Reply.Status || !bytes.Equal(again.Body, s.Reply.Body) {
		return fmt.Errorf("asked twice, answered differently:\n%s\n%s", s.Reply.Body, again.Body)
	}
	return nil
}

// checkSettles is I6: answers that are carried out and fed back at one instant,
// while nothing else moves, come to rest within a few syncs.
func (f *fixpoint) checkSettles(c *Cluster, s *Sync) error {
	if s.Number%settleEvery != 0 || !judged(s) {
		return nil
	}
	fork := c.fork(s)
	for range settlesIn {
		n := len(fork.record)
		if !fork.sync(s.Key) {
			return nil // judged by checkError, where it really happens
		}
		if len(fork.record) == n {
			return nil
		}
	}
	return fmt.Errorf("fed back at one instant, it still writes after %d syncs: %v", settlesIn, fork.record)
}

// checkStatus: where nothing changed but the status that we wrote, and nothing
// waits for time to pass, the answer is the same. The hook reckons in whole
// seconds, so within one of them no time passes.
func (f *fixpoint) checkStatus(c *Cluster, s *Sync) error {
	last := f.last[s.Key]
	f.last[s.Key] = s
	if last == nil || !judged(s) || !judged(last) || !slices.Equal(last.Children, s.Children) || !slices.Equal(last.Related, s.Related) {
		return nil
	}
	if !maps.EqualFunc(last.Views, s.Views, func(time.Time, time.Time) bool { return true }) {
		return nil // the CompositeController has other kinds
	}
	if last.Answer.Resync > 0 && !s.At.Truncate(time.Second).Equal(last.At.Truncate(time.Second)) {
		return nil
	}
	if slices.ContainsFunc(last.Writes, func(w Write) bool { return w.Ref.Kind != Releases }) {
		return nil // what was written may be on its way
	}
	if c.options.Prometheus.answered(last.At, s.At) {
		return nil
	}
	if !apply.Equal(s.Parent.Tree["status"], last.Answer.Status) || !apply.Equal(statusless(s.Parent), statusless(last.Parent)) {
		return nil
	}
	if !apply.Equal(s.Answer.Status, last.Answer.Status) {
		return fmt.Errorf("nothing happened since sync %d and the status is another:\n%v\n%v", last.Number, last.Answer.Status, s.Answer.Status)
	}
	if !slices.EqualFunc(s.Answer.Children, last.Answer.Children, func(a, b *wish) bool { return a.text == b.text }) {
		return fmt.Errorf("nothing happened since sync %d and the children are others", last.Number)
	}
	return nil
}

// statusless is the parent without what a write of its status changes.
func statusless(o *Object) map[string]any {
	tree := drop(o.Tree, []string{"status"})
	tree = drop(tree, []string{"metadata", "managedFields"})
	return drop(tree, []string{"metadata", "resourceVersion"})
}
