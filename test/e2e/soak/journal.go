package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"greyrelease.example.com/hooks/greyrelease"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// journal has a line for each thing that was done or found, and beside it one for each
// change that was seen.
type journal struct {
	mu            sync.Mutex
	told, watched *os.File
	screen        io.Writer
}

func newJournal(dir string, screen io.Writer) (*journal, error) {
	j := &journal{screen: screen}
	for name, file := range map[string]**os.File{"soak.log": &j.told, "watch.log": &j.watched} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", name, err)
		}
		*file = f
	}
	return j, nil
}

// note writes a line.
func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.told, "%s %s\n", stamp(time.Now()), fmt.Sprintf(format, args...))
}

// say writes a line that is shown as well.
func (j *journal) say(format string, args ...any) {
	j.note(format, args...)
	fmt.Fprintf(j.screen, "%s %s\n", stamp(time.Now()), fmt.Sprintf(format, args...))
}

// watch writes down a change, in the order in which they are judged.
func (j *journal) watch(c change) {
	text := ""
	switch o := c.object.(type) {
	case *corev1.Pod:
		p := asPod(o, c.gone)
		text = fmt.Sprintf("ready=%t ending=%t", p.ready, p.ending)
	case *appsv1.Deployment:
		d := asDeployment(o)
		text = fmt.Sprintf("version=%s asked=%d generation=%d observed=%d replicas=%d available=%d decision=%s", d.version, d.asked,
			o.Generation, o.Status.ObservedGeneration, o.Status.Replicas, o.Status.AvailableReplicas, o.Annotations[greyrelease.AnnotationDecision])
	case *greyrelease.GreyRelease:
		text = fmt.Sprintf("generation=%d target=%s", o.Generation, o.Spec.TargetVersion)
		if o.Spec.Replicas != nil {
			text += fmt.Sprintf(" replicas=%d", *o.Spec.Replicas)
		}
		if o.Status != nil {
			text += fmt.Sprintf(" observed=%d %s stable=%s available=%d: %s", o.Status.ObservedGeneration, o.Status.Phase, o.Status.StableVersion, o.Status.AvailableReplicas, o.Status.Message)
		}
	case *corev1.ConfigMap:
		text = o.Data["record.json"]
	case *route:
		text = fmt.Sprint(o.rules)
	}
	if c.gone {
		text = "gone, " + text
	}
	fmt.Fprintf(j.watched, "%s %d %s %s %s\n", stamp(c.at), c.version, c.kind, c.name, text)
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func (j *journal) close() {
	j.told.Close()
	j.watched.Close()
}
