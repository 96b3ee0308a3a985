package sim

import "time"

// queue is the work queue of a controller: a key waits at most once, is worked
// on by one worker at a time, and is worked on again if it was added meanwhile.
type queue struct {
	c          *Cluster
	workers    int
	ready      []string
	dirty      map[string]bool
	processing map[string]bool
	waiting    map[string]*event
	failures   map[string]int
	pumped     *event
	work       func(key string)
}

func newQueue(c *Cluster, workers int, work func(string)) *queue {
	return &queue{
		c: c, workers: workers, work: work,
		dirty: map[string]bool{}, processing: map[string]bool{},
		waiting: map[string]*event{}, failures: map[string]int{},
	}
}

func (q *queue) add(key string) {
	if q.dirty[key] {
		return
	}
	q.dirty[key] = true
	if !q.processing[key] {
		q.ready = append(q.ready, key)
		q.pump()
	}
}

// addAfter adds the key in d. Of several such wishes the earliest stands, and
// the others are forgotten.
func (q *queue) addAfter(key string, d time.Duration) {
	if d <= 0 {
		q.add(key)
		return
	}
	if w := q.waiting[key]; w != nil {
		if !q.c.clock.now.Add(d).Before(w.at) {
			return
		}
		w.stop()
	}
	q.waiting[key] = q.c.clock.after(d, func() {
		delete(q.waiting, key)
		q.add(key)
	})
}

// retry adds the key after 5 ms, 10 ms, 20 ms and so on, at most 1000 s.
func (q *queue) retry(key string) {
	d := 5 * time.Millisecond << min(q.failures[key], 18)
	q.failures[key]++
	q.addAfter(key, min(d, 1000*time.Second))
}

func (q *queue) forget(key string) { delete(q.failures, key) }

func (q *queue) done(key string) {
	delete(q.processing, key)
	if q.dirty[key] {
		q.ready = append(q.ready, key)
	}
	q.pump()
}

// pump hands keys to free workers, after everything else of this instant.
func (q *queue) pump() {
	if q.pumped != nil || len(q.ready) == 0 {
		return
	}
	q.pumped = q.c.clock.after(0, func() {
		q.pumped = nil
		for len(q.ready) > 0 && len(q.processing) < q.workers {
			key := q.ready[0]
			q.ready = q.ready[1:]
			delete(q.dirty, key)
			q.processing[key] = true
			q.work(key)
		}
	})
}

// stop forgets everything.
func (q *queue) stop() {
	q.pumped.stop()
	for _, w := range q.waiting {
		w.stop()
	}
}

// pending tells whether the key is going to be worked on without anything new
// happening.
func (q *queue) pending(key string) bool {
	return q.dirty[key] || q.processing[key] || q.waiting[key] != nil
}
