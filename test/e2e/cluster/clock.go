package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"greyrelease.example.com/test/e2e/binaries"
)

// clockFile is where the service gets its clock, and clockUse how.
const (
	clockFile = "server/main.go"
	clockUse  = "newHook(measured), time.Now,"
)

// StartServiceAhead starts the service with a clock that is ahead by some time, or
// behind by a negative one. It is the service as shipped but for the one line that
// names its clock, which is another one while it is compiled.
func (c *Cluster) StartServiceAhead(ctx context.Context, ahead time.Duration) error {
	source := filepath.Join(c.Root, filepath.FromSlash(clockFile))
	text, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("cannot read the service: %w", err)
	}
	if n := bytes.Count(text, []byte(clockUse)); n != 1 {
		return fmt.Errorf("cannot find the clock of the service: want %q once in %s, got it %d times", clockUse, clockFile, n)
	}
	shifted := fmt.Sprintf("newHook(measured), func() time.Time { return time.Now().Add(%d) },", ahead)
	text = bytes.Replace(text, []byte(clockUse), []byte(shifted), 1)
	name := fmt.Sprintf("greyrelease-%ds", int(ahead.Seconds()))
	if err := os.WriteFile(c.file(name+".go"), text, 0o600); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: c.file(name + ".go")}})
	if err != nil {
		return fmt.Errorf("cannot write overlay: %w", err)
	}
	if err := os.WriteFile(c.file(name+".json"), overlay, 0o600); err != nil {
		return fmt.Errorf("cannot write overlay: %w", err)
	}
	program := c.file(name)
	if err := binaries.Build(ctx, c.Root, "./server", program, "-overlay="+c.file(name+".json")); err != nil {
		return err
	}
	return c.startService(ctx, program)
}
