package main

import "runtime/debug"

const (
	// collectAt: garbage is collected once it is twice what is in use, where Go's
	// default is as much. What is in use is 2 to 4 MB and a call makes 0.2 to 1.5 MB of
	// garbage, so that by default there would be a collection every few calls. This
	// saves 4 to 17% of the processor time and costs 5 to 14 MB; twice as much
	// again would save half as much again, for another 8 to 23 MB.
	collectAt = 200
	// inUse is the memory of a process that holds no request.
	inUse = 64 << 20
)

// tuneCollector says when garbage is collected, unless GOGC and GOMEMLIMIT do. From
// three times the memory for requests on it is collected early, as if collectAt were
// small; the limit is soft, and no call fails for it.
func tuneCollector(c *config, lookup func(string) (string, bool)) {
	if _, set := lookup("GOGC"); !set {
		debug.SetGCPercent(collectAt)
	}
	if _, set := lookup("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(3*c.maxBuffered + inUse)
	}
}
