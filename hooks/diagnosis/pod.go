package diagnosis

import (
	"slices"
	"time"

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
	Running    *Running    `json:"running"`
	Terminated *Terminated `json:"terminated"`
}

// Running is since when a container runs, in RFC 3339.
type Running struct {
	StartedAt string `json:"startedAt"`
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

// passed tells whether nobody waits for a pod.
func (p *Pod) passed() bool {
	return p.Deleting || p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded" ||
		p.Status.Reason == "NodeLost" || p.is("DisruptionTarget", "True")
}

func (p *Pod) is(condition, status string) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c Condition) bool { return c.Type == condition && c.Status == status })
}
