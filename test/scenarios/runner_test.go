package scenarios

import (
	"slices"
	"strings"
	"testing"

	"greyrelease.example.com/test/sim"
)

// play plays a script and returns all that it printed.
func play(t *testing.T, script string) ([]string, error) {
	t.Helper()
	story, err := Parse("# a test\n\n" + script)
	if err != nil {
		return nil, err
	}
	printed, err := NewStage(sim.Dynamic, 0).Play(story)
	return slices.Concat(printed...), err
}

func TestRunnerFailsWhereAStoryIsWrong(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"an expectation that does not hold", "create\nrun 5s\nexpect asked.1=2", `want asked.1=2, got "1"`},
		{"a text that is not there", "create\nrun 5s\nexpect message~fairy", `want message~fairy`},
		{"a field that does not exist", "create\nexpect colour=red", `there is no field "colour"`},
		{"a number that is none", "create\nrun 5s\nexpect phase>=1", "are not two numbers"},
		{"a command that does not exist", "dance", `there is no command "dance"`},
		{"a wait that is in vain", "create\nuntil phase=RolledBack within 1m", `want phase=RolledBack, got "Healthy"`},
		{"a watch that is in vain", "create\nwatch-until asked=9 within 1m", `want asked=9, got "1"`},
		{"YAML that is none", "create {replicas: ", "cannot read YAML"},
		{"a command that the message does not print", "create\nrun 5s\nobey retry", "prints no line for retry"},
		{"a revision that does not exist", "create\nrun 5s\nkill-pods 7 1", "no Deployment of revision 7"},
		{"pods that do not exist", "create\nrun 5s\nkill-pods 1 2", "there are only 1 pods"},
		{"text without a command", "  replicas: 1", "no command before this text"},
		{"output without a command", "----\nHealthy", "no command that prints this"},
	} {
		if _, err := play(t, test.script); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want an error with %q, got %v", test.name, test.want, err)
		}
	}
}

func TestStoryNeedsAReason(t *testing.T) {
	if _, err := Parse("create\n"); err == nil || !strings.Contains(err.Error(), "begins with a comment") {
		t.Errorf("want a complaint that there is no comment, got %v", err)
	}
}

func TestFormatKeepsAScript(t *testing.T) {
	text := "# Why.\nmodes: ssa\n\n# A remark.\ncreate {replicas: 2}\n  batchSize: 1\nline\n----\n  1s  x\n\nrun 5s\n"
	story, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := story.Format([][]string{{"  1s  x"}, nil}); got != text {
		t.Errorf("want\n%s\ngot\n%s", text, got)
	}
}
