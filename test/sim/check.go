package sim

import "fmt"

// Check is a rule that has to hold while a cluster runs. A nil function is not
// called.
type Check struct {
	Name string
	// Answered is called with each answer of the hook, before it is carried out.
	Answered func(c *Cluster, s *Sync) error
	// Wrote is called after each write of Metacontroller.
	Wrote func(c *Cluster, s *Sync, w Write) error
	// Synced is called at the end of each sync.
	Synced func(c *Cluster, s *Sync) error
	// Passed is called after everything that happens.
	Passed func(c *Cluster) error
}

func (c *Cluster) passed() {
	for _, check := range c.Checks {
		if check.Passed == nil {
			continue
		}
		if err := check.Passed(c); err != nil {
			c.fail(fmt.Errorf("%s: at %s: %w", check.Name, stamp(c.clock.now), err))
		}
	}
}

func (c *Cluster) answered(s *Sync) {
	for _, check := range c.Checks {
		if check.Answered != nil {
			c.broken(check, s, check.Answered(c, s))
		}
	}
}

func (c *Cluster) wrote(s *Sync, w Write) {
	for _, check := range c.Checks {
		if check.Wrote != nil {
			c.broken(check, s, check.Wrote(c, s, w))
		}
	}
}

func (c *Cluster) synced(s *Sync) {
	for _, check := range c.Checks {
		if check.Synced != nil {
			c.broken(check, s, check.Synced(c, s))
		}
	}
}

func (c *Cluster) broken(check Check, s *Sync, err error) {
	if err != nil {
		c.fail(fmt.Errorf("%s: sync %d at %s: %w", check.Name, s.Number, stamp(s.At), err))
	}
}
