// Package sim is a Kubernetes cluster with Metacontroller in one process, one
// goroutine and virtual time. Stories and random walks drive the hook with it.
// It is as exact as a release can notice and deterministic: the same options and
// the same acts give the same history, line by line.
//
// What is there:
//
//   - An API server that stores JSON trees: versions, generations, optimistic
//     locks, subresources, managedFields, finalizers, defaults and validation
//     (package kube), ordinary writes, merge patches and server-side apply
//     (package apply).
//   - The Deployment and ReplicaSet controllers, a scheduler and pods that behave
//     as told. Sets and pods are no objects in the store. As in Kubernetes a
//     status takes over a new generation before it has the counts.
//   - The garbage collector: background, foreground, orphan.
//   - Metacontroller 4.17 with one CompositeController: a cache for each kind
//     that is behind for its own time, the work queue with its back-off, claims by
//     a generated selector, both apply modes, swallowed conflicts, the status with
//     its generation.
//   - Users, and failures: of pods, nodes, quotas, writes, caches, the hook and
//     Metacontroller itself.
//
// What happens takes a time that is drawn at random from [Options]. [Invariants]
// are the rules of a release, checked from outside while the cluster runs.
//
// A hook is bytes in, bytes out: [Product] calls the package, [HTTP] a service.
package sim
