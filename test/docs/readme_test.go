package docs

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/sim"
)

// release applies the release that README.md shows and waits until it is out.
func release(t *testing.T) *sim.Cluster {
	t.Helper()
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(read(t, "README.md"))
	if block == nil {
		t.Fatal("README.md shows no release")
	}
	tree, err := sim.Parse(block[1])
	if err != nil {
		t.Fatal(err)
	}
	c := sim.New(sim.Options{Seed: 1}, sim.Product)
	if err := c.Apply(tree); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	return c
}

func status(c *sim.Cluster, path ...string) string {
	return c.Server.Get(sim.Release("web")).Text(append([]string{"status"}, path...)...)
}

func TestReadmeShowsAReleaseThatWorks(t *testing.T) {
	if want, got := "1.27.5 (revision 1) is released", status(release(t), "message"); want != got {
		t.Errorf("want %q, got %q", want, got)
	}
}

// Each command of the table is one that the hook understands: it is refused, as
// nothing is in progress, but for another reason than its form.
func TestReadmeShowsCommandsThatAreKnown(t *testing.T) {
	c := release(t)
	commands := all("(?m)^\\| `([a-z]+ [^`]+)` \\|", part(t, read(t, "README.md"), "## Commands", "## Rolling back"))
	if len(commands) != 4 {
		t.Errorf("want 4 commands, got %q", commands)
	}
	for _, command := range commands {
		if err := c.Annotate(sim.Release("web"), greyrelease.AnnotationCommand, command); err != nil {
			t.Fatal(err)
		}
		if err := c.Run(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		got := status(c, "lastCommand", "result")
		want := "Refused: the target is revision 1, attempt 1"
		if want != got || status(c, "lastCommand", "text") != command {
			t.Errorf("%s: want %q, got %q", command, want, got)
		}
	}
}

// The line to copy is what messages print.
func TestReadmeShowsTheLineOfTheMessage(t *testing.T) {
	c := release(t)
	err := c.Edit(sim.Release("web"), map[string]any{"spec": map[string]any{
		"targetVersion": "1.28.0", "soakSeconds": int64(0),
		"batches": []any{map[string]any{"replicas": int64(1), "approval": true}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(time.Minute); err != nil {
		t.Fatal(err)
	}
	// The number of the revision is not the point.
	number := regexp.MustCompile(`'promote [0-9]+`)
	plain := func(text string) string { return number.ReplaceAllString(text, "'promote N") }
	line := regexp.MustCompile(`(?m)^kubectl annotate .*$`).FindString(read(t, "README.md"))
	if want, got := plain(line), plain(status(c, "message")); line == "" || !strings.Contains(got, ": "+want+";") {
		t.Errorf("want %q, got %q", want, got)
	}
}
