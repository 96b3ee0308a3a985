package diagnosis

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"greyrelease.example.com/hooks/composite"
)

// Pod is what is looked at of a pod.
type Pod struct {
	Name string
	// Created is zero when it is unknown.
	Created time.Time
	// Deleting: it is on its way out.
	Deleting bool
	Status   Status
}

// Status is what is read of status of a pod. All else is skipped by the decoder.
type Status struct {
	Phase      string      `json:"phase"`
	Reason     string      `json:"reason"`
	Conditions []Condition `json:"conditions"`
	// Inits are init containers, and sidecars among them.
	Inits      []Container `json:"initContainerStatuses"`
	Containers []Container `json:"containerStatuses"`
}

// Condition is one of PodScheduled, Ready, DisruptionTarget and others.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message Text   `json:"message"`
}

// Container is the status of a container.
type Container struct {
	Name     string        `json:"name"`
	Ready    bool          `json:"ready"`
	Restarts composite.Int `json:"restartCount"`
	State    State         `json:"state"`
	Last     State         `json:"lastState"`
}

// State is where a container is: one field is set, or none.
type State struct {
	Waiting    *Waiting    `json:"waiting"`
	Running    *struct{}   `json:"running"`
	Terminated *Terminated `json:"terminated"`
}

// Waiting is why a container does not run.
type Waiting struct {
	Reason  string `json:"reason"`
	Message Text   `json:"message"`
}

// Terminated is how a container ended. Message is what it left in its termination
// message, up to 4 KiB, or with FallbackToLogsOnError its last lines.
type Terminated struct {
	ExitCode composite.Int `json:"exitCode"`
	Reason   string        `json:"reason"`
	Message  Text          `json:"message"`
}

// maxText is how many bytes are kept of a text: of what a container said last the
// end, of what the scheduler says the beginning.
const maxText = 200

// Text is a text that comes from elsewhere: its beginning and its end, on one line
// and without control characters. No more of it is kept in memory.
type Text struct{ Head, Tail string }

// UnmarshalJSON reads a string.
func (t *Text) UnmarshalJSON(data []byte) error {
	var whole string
	if err := json.Unmarshal(data, &whole); err != nil {
		return err
	}
	*t = MakeText(whole)
	return nil
}

// MakeText cuts a text.
func MakeText(whole string) Text {
	// Twice as much, because spaces may be about to go.
	return Text{Head: head(line(whole[:min(len(whole), 2*maxText)]), whole), Tail: tail(line(whole[max(0, len(whole)-2*maxText):]), whole)}
}

func head(start, whole string) string {
	if len(start) <= maxText && len(whole) <= 2*maxText {
		return start
	}
	return strings.ToValidUTF8(start[:min(len(start), maxText)], "") + "..."
}

func tail(end, whole string) string {
	if len(end) <= maxText && len(whole) <= 2*maxText {
		return end
	}
	return "..." + strings.ToValidUTF8(end[max(0, len(end)-maxText):], "")
}

// line makes one line of a text, without what would move a cursor or colour a screen.
func line(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}

// passed tells whether nobody waits for a pod.
func (p *Pod) passed() bool {
	return p.Deleting || p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded" ||
		p.Status.Reason == "NodeLost" || p.is("DisruptionTarget", "True")
}

func (p *Pod) is(condition, status string) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c Condition) bool { return c.Type == condition && c.Status == status })
}
