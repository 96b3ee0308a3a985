package scenarios

import (
	"fmt"
	"testing"
	"time"

	"greyrelease.example.com/test/sim"
)

// LC-14: a release is interrupted after each of its writes in turn, by a restart
// of Metacontroller. From every partial state it comes to its end: nothing paused,
// full capacity, one version.
func TestLC14InterruptedAfterEachWrite(t *testing.T) {
	for _, mode := range modes {
		for n := 1; ; n++ {
			s := after(t, mode, "create {replicas: 3, batches: [{replicas: 2}]}\nuntil phase=Healthy within 1m\nrun 1m\nmark\nedit {targetVersion: \"2.0\"}")
			stopped := false
			s.Server.Refuse = func(r sim.Request) error {
				if stopped && r.Who == "metacontroller" && r.Verb != "get" {
					return fmt.Errorf("the client is gone")
				}
				return nil
			}
			writes := func() int {
				total := 0
				for _, k := range s.newWrites() {
					total += k
				}
				return total
			}
			s.Checks = append(s.Checks, sim.Check{Name: "stop", Wrote: func(*sim.Cluster, *sim.Sync, sim.Write) error {
				stopped = stopped || writes() >= n
				return nil
			}})
			reached, err := s.Until(5*time.Minute, func() bool { return stopped })
			if err != nil {
				t.Fatalf("%s, write %d: %v", mode, n, err)
			}
			if !reached {
				if n < 10 {
					t.Fatalf("%s: want 10 writes or more, got %d", mode, n-1)
				}
				break
			}
			s.Server.Refuse = nil
			s.Metacontroller.Restart(0)
			s.Checks = s.Checks[:len(s.Checks)-1]
			s.onward(t, "run 5m\nexpect phase=Healthy condition.Ready=True asked.2=3 available.2=3 deployments=2 lowest>=3 highest<=4")
		}
	}
}
