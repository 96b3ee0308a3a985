package sim

import (
	"cmp"
	"slices"
	"time"
)

// informer is Metacontroller's cache of one kind. It follows the store behind
// time and never goes back, except when it is started anew from an older state.
type informer struct {
	kind    *Kind
	c       *Cluster
	objects map[Ref]*Object
	pending []delivery
	frozen  time.Time
	timer   *event
	handle  func(Event)
}

// delivery is an event on its way to a cache.
type delivery struct {
	Event
	since, at time.Time // when it happened and when it arrives
}

func (i *informer) get(ref Ref) *Object { return i.objects[ref] }

// list returns the objects of a namespace sorted by name.
func (i *informer) list(namespace string) []*Object {
	return slices.DeleteFunc(i.all(), func(o *Object) bool { return o.Namespace != namespace })
}

// all returns the objects sorted by namespace and name.
func (i *informer) all() []*Object {
	list := make([]*Object, 0, len(i.objects))
	for _, o := range i.objects {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// observe takes an event of the store.
func (i *informer) observe(ch change) {
	at := i.c.clock.now.Add(i.c.lag(i.c.options.Caches))
	if n := len(i.pending); n > 0 && at.Before(i.pending[n-1].at) {
		at = i.pending[n-1].at
	}
	i.pending = append(i.pending, delivery{ch.Event, ch.at, at})
	if len(i.pending) == 1 {
		i.wait()
	}
}

func (i *informer) wait() {
	at := i.pending[0].at
	if at.Before(i.frozen) {
		at = i.frozen
	}
	i.timer.stop()
	i.timer = i.c.clock.after(at.Sub(i.c.clock.now), i.deliver)
}

func (i *informer) deliver() {
	for len(i.pending) > 0 {
		next := i.pending[0]
		if next.at.After(i.c.clock.now) || i.frozen.After(i.c.clock.now) {
			i.wait()
			return
		}
		i.pending = i.pending[1:]
		// A watch from an old version repeats what a list has shown already.
		known := i.objects[next.Ref()]
		if next.New == nil {
			delete(i.objects, next.Ref())
		} else {
			i.objects[next.Ref()] = next.New
		}
		i.handle(Event{Old: known, New: next.New})
	}
}

// freeze stops the cache for d.
func (i *informer) freeze(d time.Duration) {
	i.frozen = i.c.clock.now.Add(d)
	if len(i.pending) > 0 {
		i.wait()
	}
}

// restart lists the store as it was back ago and watches on from there.
func (i *informer) restart(back time.Duration) {
	i.timer.stop()
	i.pending, i.frozen = nil, time.Time{}
	i.objects = map[Ref]*Object{}
	then := i.c.clock.now.Add(-back)
	for _, ch := range i.c.history {
		if ch.Ref().Kind != i.kind {
			continue
		}
		switch {
		case ch.at.After(then):
			i.observe(ch)
		case ch.New == nil:
			delete(i.objects, ch.Ref())
		default:
			i.objects[ch.Ref()] = ch.New
		}
	}
}

// behind returns since when the cache may lack something, or now if it is up to
// date.
func (i *informer) behind() time.Time {
	if len(i.pending) == 0 {
		return i.c.clock.now
	}
	return i.pending[0].since
}
