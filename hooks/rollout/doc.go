// Package rollout decides how a release goes forward and back. It is pure: it
// knows numbers, revisions and instants, and no Kubernetes object, no clock
// and no I/O, so that every decision can be replayed from its input.
//
// # The two halves
//
// The [Record] is the memory of a release. It is stored in a ConfigMap and is
// written ahead: an answer acts on the record that was observed and carries the
// record that comes next.
//
//	Act(record, wish, facts)       -> what the Deployments should be now
//	Next(record, wish, facts, now) -> the record to store, and when to look again
//
// While versions change places every replica count comes out of the record's
// [Wave], never out of what a possibly stale cache shows: a request that shows
// old Deployments leads to an old answer, not to a wrong one. That matters in
// server-side apply mode, where writes have no optimistic lock.
//
// # Requests
//
// With a router the record also carries the [Route]: which share of the requests
// each revision gets, written ahead like the wave. First pods, then weights, then
// the weights are observed in place, and only then are pods taken away: a wave
// leaves every revision the pods that requests need which are observed, or by the
// record are to be, led to it. A revision without requests is kept for a while
// ([Share]) before its pods may go. Where the stable revision keeps all its pods
// until the promotion is done, the weights are those of the plan; where it gives
// way with the batches, a revision's weight is never more than its pods can serve.
//
// # Stages
//
//	                    new content
//	Complete ──────────────────────────► Rolling ──last gate──► Promoting ──► Complete
//	   ▲  ▲                              │  │ ▲                    │
//	   │  └──────── Restoring ◄──revert──┘  │ └──retry── RolledBack│
//	   │               ▲                    │failure       ▲       │failure
//	   │               └──── revert ──── RollingBack ◄─────┼───────┘
//	   │                                    └──drained─────┘
//	   └ Held: failed, and there is nothing to roll back to or autoRollback is off
//
// A first install has no stable revision and starts in Promoting; so does a
// release by rollbackTo, and one that starts while nothing of the old runs.
//
// # Invariants
//
// [Check] verifies on every answer those that one answer can show; the
// simulator in test/sim verifies the rest over time.
//
//	I1  No take-down brings available pods below min(replicas - maxUnavailable,
//	    what was available before).
//	I2  No raise takes the pods asked for above replicas + maxSurge.
//	I3  No Deployment that is observed above 0 is dropped, and neither is the
//	    stable or the target revision's. No pods are taken from where requests are
//	    led to, and the weights of a route sum to 100.
//	I4  The same request at the same instant gives the same bytes.
//	I5  The request is not modified.
//	I6  An answer fed back at one instant settles within a few syncs and then
//	    repeats itself.
//	I7  No Deployment before its snapshot was observed; no act on a record that
//	    was not observed.
//	I8  The template of an existing Deployment never changes.
//	I9  A version never has more pods asked for than its batch allows, and in a
//	    rollback they never rise; neither does its weight.
//	I10 Every stage that is not final has a deadline, a wait, or names what it
//	    waits for.
//	I11 Losing status, the record, a snapshot, a child or a write, or reading any
//	    mix of caches, loses no pod, skips no gate and retries nothing that failed.
//	I12 Every name and label value is legal for every legal parent.
//	I13 No gate is passed without its condition, whatever is scaled or edited.
package rollout
