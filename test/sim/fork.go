package sim

import (
	"maps"
	"math/rand/v2"
)

// fork is a copy of the cluster in which time stands still: the store, and a
// Metacontroller whose caches show each write at once. No controller acts, so
// the status of a Deployment stays as it was.
type fork struct {
	c      *Cluster
	record []string // the changes
}

func (c *Cluster) fork(s *Sync) *fork {
	o := c.options
	o.Mode, o.Writes, o.Start, o.Pace = c.Metacontroller.mode, Lag{}, s.At, nil
	copied := &Cluster{options: o, clock: clock{now: s.At}, chance: rand.New(rand.NewPCG(o.Seed, uint64(s.Number)))}
	copied.Server = c.Server.fork()
	copied.Metacontroller = newMetacontroller(copied, c.Metacontroller.hook)
	copied.Metacontroller.seen = maps.Clone(c.Metacontroller.seen)
	for k := range c.Metacontroller.related {
		copied.Metacontroller.related[k] = &informer{kind: k, c: copied, objects: map[Ref]*Object{}}
	}
	copied.Metacontroller.listCaches()
	f := &fork{c: copied}
	copied.Server.watch = func(e Event) {
		f.record = append(f.record, e.Ref().String())
		f.show(e.Ref(), e.New)
	}
	for ref, o := range copied.Server.objects {
		f.show(ref, o)
	}
	return f
}

func (f *fork) show(ref Ref, o *Object) {
	m := f.c.Metacontroller
	for _, cache := range []*informer{m.caches[ref.Kind], m.related[ref.Kind]} {
		switch {
		case cache == nil:
		case o == nil:
			delete(cache.objects, ref)
		default:
			cache.objects[ref] = o
		}
	}
}

// sync makes one pass and tells whether it went well.
func (f *fork) sync(key string) bool {
	f.c.Metacontroller.sync(key)
	return len(f.c.Metacontroller.Events) == 0
}
