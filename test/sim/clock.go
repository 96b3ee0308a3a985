package sim

import (
	"container/heap"
	"time"
)

// clock is virtual time with a queue of what will happen. Events of one instant
// happen in the order in which they were planned.
type clock struct {
	now    time.Time
	queue  events
	nextID int64
}

// event is something planned. A stopped one stays queued and does nothing.
type event struct {
	at      time.Time
	id      int64
	do      func()
	stopped bool
}

func (e *event) stop() {
	if e != nil {
		e.stopped = true
	}
}

// after plans do in d from now, or at once if d is negative.
func (c *clock) after(d time.Duration, do func()) *event {
	c.nextID++
	e := &event{at: c.now.Add(max(d, 0)), id: c.nextID, do: do}
	heap.Push(&c.queue, e)
	return e
}

// next returns the instant of the next event, and false when there is none.
func (c *clock) next() (time.Time, bool) {
	for len(c.queue) > 0 && c.queue[0].stopped {
		heap.Pop(&c.queue)
	}
	if len(c.queue) == 0 {
		return time.Time{}, false
	}
	return c.queue[0].at, true
}

// step lets the next event happen.
func (c *clock) step() bool {
	if _, ok := c.next(); !ok {
		return false
	}
	e := heap.Pop(&c.queue).(*event)
	c.now = e.at
	e.do()
	return true
}

type events []*event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].id < q[j].id
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(*event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
