package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// Mode is the apply strategy of Metacontroller.
type Mode string

// The two apply strategies.
const (
	Dynamic    Mode = "dynamic"
	ServerSide Mode = "ssa"
)

// manager is the client and the field manager that Metacontroller is.
const manager = "metacontroller"

// Hook answers a request. now is the instant at which it is called.
type Hook func(body []byte, now time.Time) (Reply, error)

// Reply is the answer of a hook over HTTP.
type Reply struct {
	Status     int
	RetryAfter time.Duration // with 429
	Body       []byte
}

// Metacontroller is a Metacontroller with one CompositeController, whose parents
// are GreyReleases, with a generated selector and every kind InPlace.
type Metacontroller struct {
	// Down makes each call of the hook fail, as while the service is away.
	Down bool
	// Faults are what happens to writes.
	Faults Faults
	// Syncs counts the syncs.
	Syncs int
	// Events are the SyncError events on parents.
	Events []SyncError

	c      *Cluster
	hook   Hook
	mode   Mode
	caches map[*Kind]*informer
	// related are the caches of kinds that the customize hook asked for.
	related map[*Kind]*informer
	every   []*informer            // all caches
	order   []*Kind                // the kinds of children, in the order in which they are managed
	customs map[string]*customized // answers of the customize hook, by uid
	queue   *queue
	epoch   int                   // grows with each restart; older syncs die
	seen    map[Ref]apply.Applied // server-side mode's memory
	wishes  map[string]*wish      // children decoded before, by parent and text
	told    map[string]*told      // the last answer, by key
	rested  map[string]*rest      // syncs that had nothing to write, by key
}

// Faults are the shares of writes, 0 to 1, that go wrong in each way.
type Faults struct {
	Lost     float64 // refused with an error before it is carried out
	Answered float64 // carried out, but the answer is lost
	Conflict float64 // refused as a conflict
}

// SyncError is an event on a parent.
type SyncError struct {
	At      time.Time
	Key     string
	Message string
}

// Sync is one pass over a parent.
type Sync struct {
	Number   int
	At       time.Time
	Key      string
	Parent   *Object   // as cached
	Children []*Object // as sent, by kind and name
	Related  []*Object // as sent
	rules    []rule    // by which they were found
	Body     []byte
	Reply    Reply
	Answer   *Answer // nil if nothing was answered
	Writes   []Write // what was written, or tried
	Err      error
	Views    map[*Kind]time.Time // since when each cache may lack something
}

// Write is a write of Metacontroller.
type Write struct {
	Verb     string
	Ref      Ref
	Old, New *Object // the object before and after; equal if nothing changed
	Err      error
	Planned  bool // the error is one of Faults
}

// told is an answer with its text, so that the same text need not be decoded
// again.
type told struct {
	uid        string
	generation int64
	text       []byte
	answer     *Answer
}

// rest is a sync that had nothing to write. Another one that sees the same and
// is told the same has nothing to write either.
type rest struct {
	answer     []byte
	generation int64 // that was sent, and that the status names
	children   []*Object
	parent     *Object // live
}

func newMetacontroller(c *Cluster, hook Hook) *Metacontroller {
	m := &Metacontroller{c: c, hook: hook, mode: c.options.Mode}
	if m.mode == "" {
		m.mode = Dynamic
	}
	m.caches = map[*Kind]*informer{}
	for _, k := range append([]*Kind{Releases}, c.options.Children...) {
		m.caches[k] = &informer{kind: k, c: c, objects: map[Ref]*Object{}, handle: m.handle}
	}
	m.related = map[*Kind]*informer{}
	m.order = orderOf(m.caches)
	m.listCaches()
	m.start()
	return m
}

func (m *Metacontroller) start() {
	m.epoch++
	m.queue = newQueue(m.c, 5, m.sync)
	m.wishes = map[string]*wish{}
	m.told = map[string]*told{}
	m.rested = map[string]*rest{}
	m.customs = map[string]*customized{}
}

// Restart ends the process in the middle of whatever it does and starts another.
// Its caches begin with the state of the store as it was back ago: after a
// failover the list may come from a server that is behind.
func (m *Metacontroller) Restart(back time.Duration) {
	m.c.logf("metacontroller restarts, caches %v old", back)
	m.seen = nil
	m.reload(back)
}

// Reload is what an edit of the CompositeController causes: caches and queue
// start anew, but the process, and what it remembers of applies, stays.
func (m *Metacontroller) Reload(back time.Duration) {
	m.c.logf("the CompositeController was edited, caches %v old", back)
	m.reload(back)
}

// SetMode restarts Metacontroller with another apply strategy.
func (m *Metacontroller) SetMode(mode Mode) {
	m.mode = mode
	m.Restart(0)
}

// SetChildren edits the kinds of children in the CompositeController.
func (m *Metacontroller) SetChildren(of ...*Kind) {
	for k, cache := range m.caches {
		if k != Releases && !slices.Contains(of, k) {
			cache.timer.stop()
			delete(m.caches, k)
		}
	}
	for _, k := range of {
		if m.caches[k] == nil {
			m.caches[k] = &informer{kind: k, c: m.c, objects: map[Ref]*Object{}, handle: m.handle}
		}
	}
	m.order = orderOf(m.caches)
	m.listCaches()
	m.Reload(0)
}

// Children are the kinds of children in the CompositeController.
func (m *Metacontroller) Children() []*Kind { return slices.Clone(m.order) }

func (m *Metacontroller) reload(back time.Duration) {
	m.queue.stop()
	m.start()
	for _, cache := range m.every {
		cache.restart(back)
	}
	for _, o := range m.caches[Releases].all() {
		m.queue.add(o.Key())
	}
}

// Freeze stops the cache of a kind for d.
func (m *Metacontroller) Freeze(k *Kind, d time.Duration) {
	m.c.logf("cache of %s frozen for %v", k.Resource, d)
	for _, cache := range []*informer{m.caches[k], m.related[k]} {
		if cache != nil {
			cache.freeze(d)
		}
	}
}

// Thaw lets frozen caches go on.
func (m *Metacontroller) Thaw() {
	for _, cache := range m.every {
		cache.freeze(0)
	}
}

// Waits tells whether the parent is going to be synced without anything new
// happening in the cluster.
func (m *Metacontroller) Waits(key string) bool {
	if m.queue.pending(key) {
		return true
	}
	return slices.ContainsFunc(m.every, func(i *informer) bool { return len(i.pending) > 0 })
}

func (m *Metacontroller) observe(ch change) {
	for _, of := range []map[*Kind]*informer{m.caches, m.related} {
		if cache := of[ch.Ref().Kind]; cache != nil {
			cache.observe(ch)
		}
	}
}

// handle is told what a cache has just learnt, and decides who is to be synced.
func (m *Metacontroller) handle(e Event) {
	ref := e.Ref()
	if ref.Kind == Releases {
		m.queue.add(ref.Key())
		return
	}
	child := e.New
	if child == nil || child.Deleting() {
		if child == nil {
			child = e.Old
		}
		if owner := child.Controller(); owner != nil {
			m.enqueueOwner(child.Namespace, owner)
		}
		return
	}
	if e.Old != nil && e.Old.Version == child.Version {
		return
	}
	if owner := child.Controller(); owner != nil {
		m.enqueueOwner(child.Namespace, owner)
		return
	}
	for _, parent := range m.caches[Releases].list(child.Namespace) {
		if child.Label(uidLabel) == parent.UID {
			m.queue.add(parent.Key())
		}
	}
}

// enqueueOwner syncs the owner if there is one of that name with that uid. The
// deletion of an old parent's child wakes nobody.
func (m *Metacontroller) enqueueOwner(namespace string, owner map[string]any) {
	if owner["kind"] != Releases.Name || owner["apiVersion"] != Releases.APIVersion() {
		return
	}
	parent := m.caches[Releases].get(Ref{Releases, namespace, apply.Text(owner, "name")})
	if parent != nil && parent.UID == owner["uid"] {
		m.queue.add(parent.Key())
	}
}

func (m *Metacontroller) sync(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	parent := m.caches[Releases].get(Ref{Releases, namespace, name})
	if parent == nil {
		m.queue.forget(key)
		m.queue.done(key)
		return
	}
	m.Syncs++
	s := &Sync{Number: m.Syncs, At: m.c.clock.now, Key: key, Parent: parent, Views: map[*Kind]time.Time{}}
	for _, cache := range m.every {
		s.Views[cache.kind] = cache.behind()
	}
	rules, err := m.customize(parent)
	if err != nil {
		m.finish(s, err)
		return
	}
	s.rules, s.Related = rules, m.findRelated(parent, rules)
	children, err := m.claim(s)
	if err != nil {
		m.finish(s, err)
		return
	}
	s.Children = children
	s.Body = m.request(s)
	if err := m.call(s); err != nil {
		m.finish(s, err)
		return
	}
	m.c.logf("sync %d of %s: %s", s.Number, key, m.c.summary(s))
	m.c.answered(s)
	if s.Answer == nil { // 429
		m.queue.addAfter(key, s.Reply.RetryAfter.Truncate(time.Second))
		m.queue.done(key)
		m.c.synced(s)
		return
	}
	if s.Answer.Resync > 0 {
		m.queue.addAfter(key, s.Answer.Resync)
	}
	if m.resting(s) {
		m.finish(s, nil)
		return
	}
	m.carryOut(s)
}

// call asks the hook and decodes its answer. A nil error without an answer means
// "too many requests".
func (m *Metacontroller) call(s *Sync) error {
	if m.Down {
		return fmt.Errorf("sync hook failed for GreyRelease %s: http error: connection refused", s.Key)
	}
	reply, err := m.hook(s.Body, s.At)
	if err != nil {
		return fmt.Errorf("sync hook failed for GreyRelease %s: http error: %w", s.Key, err)
	}
	s.Reply = reply
	switch reply.Status {
	case 200:
	case 429:
		return nil
	default:
		return fmt.Errorf("sync hook failed for GreyRelease %s: unsupported status code: %d body: %s", s.Key, reply.Status, reply.Body)
	}
	if t := m.told[s.Key]; t != nil && t.uid == s.Parent.UID && t.generation == s.Parent.Generation() && bytes.Equal(t.text, reply.Body) {
		s.Answer = t.answer
		return nil
	}
	answer, err := m.decode(s)
	if err != nil {
		return fmt.Errorf("sync hook failed for GreyRelease %s: %w", s.Key, err)
	}
	s.Answer = answer
	m.told[s.Key] = &told{s.Parent.UID, s.Parent.Generation(), reply.Body, answer}
	return nil
}

// resting tells whether a sync before this one saw and was told the same, and
// had nothing to write.
func (m *Metacontroller) resting(s *Sync) bool {
	r := m.rested[s.Key]
	if r == nil || r.generation != s.Parent.Generation() || !bytes.Equal(r.answer, s.Reply.Body) || !slices.Equal(r.children, s.Children) {
		return false
	}
	live := m.c.Server.Get(s.Parent.Ref)
	if live == nil || live != r.parent || s.Parent.Generation() != live.Generation() {
		return false
	}
	m.c.Server.Counts[Count{manager, "get", Releases.Name, ""}]++
	return true
}

// finish ends a sync.
func (m *Metacontroller) finish(s *Sync, err error) {
	s.Err = err
	delete(m.rested, s.Key)
	if err != nil {
		m.c.logf("sync %d of %s: %v", s.Number, s.Key, err)
		m.Events = append(m.Events, SyncError{m.c.clock.now, s.Key, "Sync error: " + err.Error()})
		m.queue.retry(s.Key)
	} else {
		m.queue.forget(s.Key)
		if s.Answer != nil && len(s.Writes) == 0 {
			m.rested[s.Key] = &rest{s.Reply.Body, s.Parent.Generation(), s.Children, m.c.Server.Get(s.Parent.Ref)}
		}
	}
	m.queue.done(s.Key)
	m.c.synced(s)
}
