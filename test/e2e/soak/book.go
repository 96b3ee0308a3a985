package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// book is what is known of all releases from the API server alone, in the order in which
// things were stored, and where a promise was broken. It knows nothing of the product's
// record, and of its status only which spec was seen, to tell how long an older one may
// still be followed.
type book struct {
	// blindly is for server-side apply, which has no lock: around trouble an old answer
	// can put older sizes back for a moment.
	blindly bool
	report  func(breach)

	mu       sync.Mutex
	clock    time.Time // never goes back, as the order of changes is not that of their arrival
	releases map[string]*release
	counts   counts
	trouble  trouble
}

// counts are what the summary tells.
type counts struct {
	out, rolledBack, completions int
	pods, deployments, judged    int
	// blind are breaches that could not be judged in server-side mode, excused take-downs
	// that are explained by pods that had just been lost.
	blind, excused, gaps int
}

// at moves the clock on to an instant, and returns what it says.
func (b *book) at(now time.Time) time.Time {
	if now.After(b.clock) {
		b.clock = now
	}
	return b.clock
}

// breach is a promise that was broken.
type breach struct {
	at      time.Time
	release string
	rule    string
	text    string
}

func (b breach) String() string {
	return fmt.Sprintf("%s %s: %s: %s", b.at.UTC().Format("15:04:05.000"), b.release, b.rule, b.text)
}

// trouble is what the book is told of faults: only in whose presence something may not be
// judged, never that something is right.
type trouble struct {
	active int
	since  time.Time // when the first of those that are active began
	until  time.Time // when the last of all ended
	// doubt counts the faults during which Kubernetes itself may make a pod twice, as its
	// controllers do when they don't get an answer.
	doubt      int
	doubtUntil time.Time
}

// recent is how long after trouble its effects are looked for, and stale how old an answer
// can be that is carried out in it: faults last for 20 seconds at most, but there are several.
const (
	recent = 15 * time.Second
	stale  = time.Minute
)

type release struct {
	name      string
	uid       types.UID
	gone      bool
	wishes    wishes
	spec      greyrelease.GreyReleaseSpec
	status    greyrelease.GreyReleaseStatus
	children  map[types.UID]*deployment
	pods      map[types.UID]*pod
	snapshots map[string]bool
	weights   map[string]int // in the route, by Service

	// Pods that were made, and that Deployments were raised by, by revision.
	created, budget map[string]int
	unsure          bool

	// taken are pods that a hand takes away, and deleted what a hand has deleted.
	taken   map[types.UID]bool
	deleted map[string]bool

	held      bool // the floor was reached
	floor     int
	losses    []time.Time // of pods that were lost and that nobody took down
	completed map[string]bool
	margin    int // the least number of available pods above the floor
	markedOut string
}

type deployment struct {
	name, revision, version string
	asked                   int
	template                string
}

type pod struct {
	name, revision string
	ready, ending  bool
	since          time.Time // of its readiness
}

func newBook(blindly bool, report func(breach)) *book {
	return &book{blindly: blindly, report: report, releases: map[string]*release{}}
}

// never is the margin of a release whose floor was not reached yet.
const never = 1 << 20

func (b *book) release(name string) *release {
	r := b.releases[name]
	if r == nil {
		r = &release{
			name: name, margin: never,
			children: map[types.UID]*deployment{}, pods: map[types.UID]*pod{}, snapshots: map[string]bool{}, weights: map[string]int{},
			created: map[string]int{}, budget: map[string]int{},
			taken: map[types.UID]bool{}, deleted: map[string]bool{}, completed: map[string]bool{},
		}
		b.releases[name] = r
	}
	return r
}

func (b *book) breach(now time.Time, r *release, rule, format string, args ...any) {
	b.report(breach{now, r.name, rule, fmt.Sprintf(format, args...)})
}

// available counts the pods that are, of a revision or of all for "".
func (r *release) available(revision string, now time.Time) int {
	n := 0
	for _, p := range r.pods {
		if (revision == "" || p.revision == revision) && r.serves(p, now) {
			n++
		}
	}
	return n
}

func (r *release) serves(p *pod, now time.Time) bool {
	return p.ready && !p.ending && !now.Before(p.since.Add(time.Duration(r.spec.MinReadySeconds)*time.Second))
}

// active counts the pods of a revision that are not on their way out.
func (r *release) active(revision string) int {
	n := 0
	for _, p := range r.pods {
		if p.revision == revision && !p.ending {
			n++
		}
	}
	return n
}

// asked is how many pods the Deployments ask for, of a revision or of all for "".
func (r *release) asked(revision string) int {
	n := 0
	for _, d := range r.children {
		if revision == "" || d.revision == revision {
			n += d.asked
		}
	}
	return n
}

// sizes are what the Deployments ask for, by version.
func (r *release) sizes() map[string]int {
	sizes := map[string]int{}
	for _, d := range r.children {
		sizes[d.version] += d.asked
	}
	return sizes
}

// rebase forgets what was made and raised until now. What is still to be made is known.
func (r *release) rebase() {
	r.created, r.budget, r.unsure = map[string]int{}, map[string]int{}, false
	for _, d := range r.children {
		r.budget[d.revision] = max(0, r.asked(d.revision)-r.active(d.revision))
	}
	for uid := range r.taken {
		if p := r.pods[uid]; p != nil && !p.ending {
			r.budget[p.revision]++
		}
	}
}

// begin and end are called around trouble. In doubt about pods is whether those that
// Kubernetes makes can be counted.
func (b *book) begin(now time.Time, inDoubt bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trouble.active == 0 && now.Sub(b.trouble.until) > recent {
		b.trouble.since = now
	}
	b.trouble.active++
	if inDoubt {
		b.trouble.doubt++
		for _, r := range b.releases {
			r.unsure = true
		}
	}
}

func (b *book) end(now time.Time, inDoubt bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble.active--
	b.trouble.until = now
	if inDoubt {
		b.trouble.doubt--
		b.trouble.doubtUntil = now.Add(10 * time.Second)
	}
}

// fresh is an instant after which what happened may not be known to an answer that is
// being carried out.
func (b *book) fresh(now time.Time) time.Time {
	if b.troubled(now) {
		return later(b.trouble.since.Add(-recent), now.Add(-stale))
	}
	return now.Add(-recent)
}

func (b *book) troubled(now time.Time) bool {
	return b.trouble.active > 0 || now.Sub(b.trouble.until) < recent
}

// unknown is how many available pods may be gone without an answer that is being carried out
// knowing it: those that were lost of late, and those that a hand is taking. On a network
// that is parted an answer can be as old as the trouble.
func (b *book) unknown(now time.Time, r *release) int {
	fresh := b.fresh(now)
	r.losses = slices.DeleteFunc(r.losses, func(at time.Time) bool { return at.Before(fresh) })
	n := len(r.losses)
	for uid := range r.taken {
		if p := r.pods[uid]; p != nil && !p.ending {
			n++
		}
	}
	return n
}

// unjudged tells whether sizes can't be judged now.
func (b *book) unjudged(now time.Time) bool {
	if !b.blindly || !b.troubled(now) {
		return false
	}
	b.counts.blind++
	return true
}

// takes says that a hand is going to delete pods, each of which may be made once more, or
// the Deployment that they belong to. The book may not know them yet: it is a moment late.
func (b *book) takes(name string, pods []corev1.Pod, again bool, object string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.release(name)
	for i := range pods {
		r.taken[pods[i].UID] = true
		if again {
			r.budget[pods[i].Labels[greyrelease.LabelRevision]]++
		}
	}
	if object != "" {
		r.deleted[object] = true
	}
}

// settled says that a release has come to rest: nothing more is being taken away.
func (b *book) settled(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now = b.at(now)
	for _, r := range b.releases {
		r.taken = map[types.UID]bool{}
		b.checkFloor(now, r, "it came to rest")
	}
}

// reached tells whether all pods that a release is to have are available now, and which
// versions were out completely so far.
func (b *book) reached(name string, now time.Time) (whole bool, completed []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.release(name)
	whole = len(r.taken) == 0 && len(r.wishes) > 0 && r.available("", now) >= r.wishes[len(r.wishes)-1].replicas
	return whole, slices.Sorted(maps.Keys(r.completed))
}

// statusOf is the last status that was seen.
func (b *book) statusOf(name string) greyrelease.GreyReleaseStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.release(name).status
}

// sum is what the summary tells.
func (b *book) sum() (counts, map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	margins := map[string]int{}
	for name, r := range b.releases {
		margins[name] = r.margin
	}
	return b.counts, margins
}
