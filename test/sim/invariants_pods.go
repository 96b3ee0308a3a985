package sim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"greyrelease.example.com/test/sim/apply"
)

// crashed is how a message says that a crash loop failed the target.
var crashed = regexp.MustCompile(`failed: pod ([a-z0-9.-]+), container [a-z0-9-]+: CrashLoopBackOff, (\d+) restarts?.*; health\.maxRestarts is (\d+)`)

// checkCrashes: a version fails by a crash loop only if a pod of that version, and not
// of the stable one, really was restarted so often, and some spec of the release had
// that limit.
func checkCrashes(c *Cluster, s *Sync) error {
	if !judged(s) || !c.options.Pods {
		return nil
	}
	message := apply.Text(s.Answer.Status, "message")
	m := crashed.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	restarts, _ := strconv.ParseInt(m[2], 10, 64)
	most, _ := strconv.ParseInt(m[3], 10, 64)
	if restarts < most {
		return fmt.Errorf("%d restarts failed the release, the limit is %d", restarts, most)
	}
	if number(s.Answer.Status, "targetRevision") == number(s.Answer.Status, "stableRevision") {
		return fmt.Errorf("the stable version is said to have failed: %s", message)
	}
	pod := Ref{Pods, s.Parent.Namespace, m[1]}
	seen := false
	for _, ch := range c.history {
		if ch.New == nil || ch.New.Ref != pod {
			continue
		}
		for _, status := range apply.List(ch.New.Tree, "status", "containerStatuses") {
			seen = seen || number(status, "restartCount") >= restarts && apply.Text(status, "state", "waiting", "reason") == "CrashLoopBackOff"
		}
	}
	if !seen {
		return fmt.Errorf("pod %s never had %d restarts in a crash loop", pod.Name, restarts)
	}
	if hash := c.hashOf(s, number(s.Answer.Status, "targetRevision")); hash != "" && !strings.HasPrefix(pod.Name, s.Parent.Name+"-"+hash+"-") {
		return fmt.Errorf("pod %s is none of revision %d, which failed by it", pod.Name, number(s.Answer.Status, "targetRevision"))
	}
	for _, parent := range c.parents[s.Parent.UID] {
		limit := parent.Int("spec", "health", "maxRestarts")
		if limit == most || limit == 0 && most == 3 {
			return nil
		}
	}
	return fmt.Errorf("no spec of the release has a limit of %d restarts", most)
}

// hashOf is the hash of a revision by its Deployment, or "".
func (c *Cluster) hashOf(s *Sync, revision int64) string {
	for _, o := range s.Children {
		if o.Kind == Deployments && o.Label("greyrelease.example.com/number") == strconv.FormatInt(revision, 10) {
			return o.Label("greyrelease.example.com/revision")
		}
	}
	return ""
}
