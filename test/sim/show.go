package sim

import (
	"fmt"
	"strings"
)

// summary is one line about a sync, for logs.
func (c *Cluster) summary(s *Sync) string {
	if c.trace == nil || s.Answer == nil {
		return fmt.Sprintf("%d %s", s.Reply.Status, s.Reply.Body[:min(len(s.Reply.Body), 200)])
	}
	var b strings.Builder
	status := s.Answer.Status
	fmt.Fprintf(&b, "%v %v", status["phase"], status["progress"])
	seen := map[Ref]*Object{}
	for _, o := range s.Children {
		seen[o.Ref] = o
	}
	for _, w := range s.Answer.Children {
		if w.Kind != Deployments {
			continue
		}
		fmt.Fprintf(&b, " [%s", w.Name)
		if o := seen[w.Ref]; o != nil {
			fmt.Fprintf(&b, " %d/%d/%d", o.Int("spec", "replicas"), o.Int("status", "replicas"), o.Int("status", "availableReplicas"))
		}
		fmt.Fprintf(&b, " -> %d]", number(w.tree, "spec", "replicas"))
	}
	if s.Answer.Resync > 0 {
		fmt.Fprintf(&b, " again in %v", s.Answer.Resync)
	}
	fmt.Fprintf(&b, " %v", status["message"])
	return b.String()
}
