package diagnosis

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Kind is what sort of thing is wrong, the worst first.
type Kind int

const (
	// Crash: a container ends again and again.
	Crash Kind = iota
	// Image: an image can't be had.
	Image
	// Config: a container can't be started.
	Config
	// Placement: no node takes the pod.
	Placement
	// Slow: nothing is known to be wrong; it takes time.
	Slow
)

// Finding is what keeps one pod from becoming available.
type Finding struct {
	Kind Kind
	Pod  string
	// Container is empty where it is about the whole pod. Init tells init containers
	// and sidecars from others.
	Container string
	Init      bool
	// Reason is a word of Kubernetes', as CrashLoopBackOff.
	Reason string
	// Restarts is how often the container was started again. It counts since the pod
	// was made.
	Restarts int64
	// Looping: it waits for the next start, because it ended too often. Crashing
	// containers are on and off.
	Looping bool
	// Exit is how it ended last; nil when that is unknown.
	Exit *Terminated
	// Message is what is said about it; for a crash what the container said last.
	Message string

	created time.Time
	place   int
}

// Report is what is known of the pods of one revision.
type Report struct {
	// Worst is the worst finding, nil when all is well.
	Worst *Finding
	// Loop is the crash loop with the most restarts, among pods that were made at or
	// after the instant that was asked about; nil for none.
	Loop *Finding
	// Looping is the number of those pods that are in a crash loop, and Looked of all.
	Looping, Looked int64
}

// Of looks at the pods of one revision. Restarts count for Report.Loop only in pods
// that were made at or after since. Now tells for how long containers run.
func Of(pods []Pod, since, now time.Time) Report {
	var r Report
	for i := range pods {
		p := &pods[i]
		if p.passed() {
			continue
		}
		recent := !p.Created.Before(since)
		if recent {
			r.Looked++
		}
		looping := false
		for _, f := range p.findings(now) {
			if r.Worst == nil || compare(&f, r.Worst) < 0 {
				r.Worst = &f
			}
			if !f.Looping || !recent {
				continue
			}
			looping = true
			if r.Loop == nil || cmp.Or(cmp.Compare(r.Loop.Restarts, f.Restarts), compare(&f, r.Loop)) < 0 {
				r.Loop = &f
			}
		}
		if looping {
			r.Looping++
		}
	}
	return r
}

func compare(a, b *Finding) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.created.Compare(b.created), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.place, b.place))
}

// findings are what is wrong with a pod.
func (p *Pod) findings(now time.Time) []Finding {
	var out []Finding
	add := func(f Finding) {
		f.Pod, f.created, f.place = p.Name, p.Created, len(out)
		out = append(out, f)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			add(Finding{Kind: Placement, Reason: cmp.Or(c.Reason, "Unschedulable"), Message: c.Message.Head})
		}
	}
	for i := range p.Status.Inits {
		if f, found := p.Status.Inits[i].finding(now); found {
			f.Init = true
			add(f)
		}
	}
	for i := range p.Status.Containers {
		if f, found := p.Status.Containers[i].finding(now); found {
			add(f)
		}
	}
	return out
}

// images are the reasons that are about an image. The first two take turns, and are
// one.
var images = map[string]string{
	"ErrImagePull": "ImagePullBackOff", "ImagePullBackOff": "ImagePullBackOff", "InvalidImageName": "InvalidImageName",
	"ErrImageNeverPull": "ErrImageNeverPull", "ImageInspectError": "ImageInspectError", "RegistryUnavailable": "RegistryUnavailable",
	"SignatureValidationFailed": "SignatureValidationFailed",
}

const crashLoop = "CrashLoopBackOff"

// steady is after how long the kubelet forgets that a container crashed, and starts it
// again without waiting: it has run without problems then.
const steady = 10 * time.Minute

// steady tells whether a container has left its crashes behind, and is not ready for
// another reason. One that doesn't say since when it runs has just begun.
func (c *Container) steady(now time.Time) bool {
	if c.State.Running == nil {
		return false
	}
	began, err := time.Parse(time.RFC3339, c.State.Running.StartedAt)
	return err == nil && now.Sub(began) >= steady
}

// finding is what is wrong with a container.
func (c *Container) finding(now time.Time) (Finding, bool) {
	f := Finding{Container: c.Name, Restarts: int64(c.Restarts)}
	waiting := c.State.Waiting
	ended := c.State.Terminated
	switch {
	case c.Ready, ended != nil && ended.ExitCode == 0 && waiting == nil && c.Last.Terminated == nil:
		// An init container that is done is ready as well.
		return f, false
	case waiting != nil && waiting.Reason == crashLoop, c.Restarts > 0 && c.Last.Terminated != nil && waiting == nil && !c.steady(now):
		f.Kind, f.Reason, f.Looping = Crash, crashLoop, waiting != nil
		f.Exit = cmp.Or(ended, c.Last.Terminated)
		if f.Exit != nil {
			f.Message = f.Exit.Message.Tail
		}
	case waiting == nil && ended != nil:
		// It ended for the first time and will be started again.
		f.Kind, f.Reason = Slow, cmp.Or(ended.Reason, "Error")
		f.Exit, f.Message = ended, ended.Message.Tail
	case waiting == nil:
		f.Kind, f.Reason = Slow, "NotReady"
	case images[waiting.Reason] != "":
		f.Kind, f.Reason = Image, images[waiting.Reason]
		f.Message = cause(waiting.Message)
	case waiting.Reason == "" || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing":
		f.Kind, f.Reason, f.Message = Slow, cmp.Or(waiting.Reason, "ContainerCreating"), waiting.Message.Head
	default:
		f.Kind, f.Reason, f.Message = Config, waiting.Reason, waiting.Message.Head
	}
	return f, true
}

// cause leaves out that there is a back-off: newer kubelets say it before the error
// itself, which they say alone in the turn after.
func cause(t Text) string {
	if _, after, found := strings.Cut(t.Tail, "ErrImagePull: "); found {
		return after
	}
	return t.Tail
}

// String says it in words, as in
//
//	pod web-5f6d-x2x, container app: CrashLoopBackOff, 4 restarts, exit code 1 (Error), it said "no database"
//	pod web-5f6d-x2x: Unschedulable, "0/3 nodes are available: 3 Insufficient cpu."
//
// What others say is quoted, so that nobody takes it for ours.
func (f *Finding) String() string { return f.words(rounded(f.Restarts)) }

// Exact is String with restarts as they are, for a text that is written once.
func (f *Finding) Exact() string { return f.words(fmt.Sprint(f.Restarts)) }

func (f *Finding) words(restarts string) string {
	text := "pod " + f.Pod
	switch {
	case f.Init:
		text += ", init container " + f.Container
	case f.Container != "":
		text += ", container " + f.Container
	}
	text += ": " + bounded(f.Reason)
	if f.Kind == Slow && f.Reason == "NotReady" {
		text = strings.TrimSuffix(text, f.Reason) + "runs and is not ready"
	}
	if f.Kind == Crash {
		text += ", " + restarts + " restarts"
		if restarts == "1" {
			text = strings.TrimSuffix(text, "s")
		}
	}
	if e := f.Exit; e != nil {
		text += fmt.Sprintf(", exit code %d", e.ExitCode)
		if e.Reason != "" && e.Reason != f.Reason {
			text += " (" + bounded(e.Reason) + ")"
		}
	}
	switch {
	case f.Message == "":
	case f.Exit != nil:
		text += ", it said " + quoted(f.Message)
	default:
		text += ", " + quoted(f.Message)
	}
	return text
}

// quoted is a text in quotes, in back quotes where it has others in it, because \"
// is hard to read.
func quoted(text string) string {
	if strings.ContainsAny(text, `"\`) {
		return fmt.Sprintf("%#q", text)
	}
	return fmt.Sprintf("%q", text)
}

// rounded is a number of restarts that changes seldom: 4, 5+, 10+, 20+, 50+, 100+.
func rounded(n int64) string {
	if n < 5 {
		return fmt.Sprint(n)
	}
	step := int64(5)
	for unit := int64(10); unit > 0 && unit <= n; unit *= 10 {
		for _, next := range []int64{unit, 2 * unit, 5 * unit} {
			if next <= n {
				step = next
			}
		}
	}
	return fmt.Sprintf("%d+", step)
}
