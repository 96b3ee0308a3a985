// Package diagnosis finds out from the pods of one revision what keeps them from
// becoming available: which pod and container, for which reason, after how many
// restarts, and what the container said last. It is pure and knows pods alone.
//
// # What is wrong with a pod
//
// The worst comes first; of findings that are as bad, the one of the oldest pod, then
// by name, then by the container's place in the pod. So the same pods give the same
// finding in any order.
//
//	[Crash]     a container ends again and again (CrashLoopBackOff; OOMKilled and
//	            the like are why it ended)
//	[Image]     its image can't be had (ImagePullBackOff, InvalidImageName, ...)
//	[Config]    it can't be started (CreateContainerConfigError, RunContainerError, ...)
//	[Placement] no node takes the pod (Unschedulable, SchedulingGated)
//	[Slow]      nothing is known to be wrong: the container starts, or runs and is
//	            not ready. It is worth a word only where the time is up.
//
// Init containers and sidecars count like others; an init container that has done its
// work does not, however often it had to begin. Pods that nobody waits for are passed
// over: those being deleted, those that have ended (as evicted ones), and those that
// are about to be moved off their node. On a node that is lost the last that was
// known of containers stays as it was: a pod that ran there still says that it runs,
// and no restart is added.
//
// # Words that stay the same
//
// A text goes into a status, where each change is a write. So of a container that
// crashes the same is said while it waits, runs and ends, until it has run for 10
// minutes; of last words that differ in numbers and times alone the former stay (see
// [Finding.Again]); ErrImagePull and
// ImagePullBackOff, which take turns, are one; the kubelet's "back-off 2m40s" is left
// out; and from 5 on restarts are rounded down, to 5+, 10+, 20+, 50+ and so on: a
// container that crashes for a day changes its text 9 times.
package diagnosis
