// Package walk takes GreyReleases for random walks through a simulated cluster:
// edits, scaling, commands, failures, deletions, stale caches, restarts and lost
// writes in any order, with every invariant checked after every sync, and in the
// end, when the trouble is over, the right pods. A walk follows from its seed
// alone.
package walk
