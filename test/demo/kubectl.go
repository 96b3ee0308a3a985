package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"greyrelease.example.com/test/sim"
)

// kubectl does what a command line says, so that what is shown is what is done.
// It knows what a release takes:
//
//	kubectl apply -f FILE
//	kubectl patch gr NAME --type merge -p JSON
//	kubectl annotate gr NAME -n NAMESPACE KEY=VALUE --overwrite
func kubectl(c *sim.Cluster, root, line string) error {
	if err := execute(c, root, line); err != nil {
		return fmt.Errorf("cannot run %q: %w", line, err)
	}
	return nil
}

func execute(c *sim.Cluster, root, line string) error {
	words, err := split(line)
	if err != nil {
		return err
	}
	is := func(pattern ...string) bool {
		if len(words) != len(pattern) {
			return false
		}
		for i, p := range pattern {
			if p != "" && p != words[i] {
				return false
			}
		}
		return true
	}
	switch {
	case is("kubectl", "apply", "-f", ""):
		text, err := os.ReadFile(filepath.Join(root, words[3]))
		if err != nil {
			return err
		}
		tree, err := sim.Parse(string(text))
		if err != nil {
			return err
		}
		return c.Apply(tree)
	case is("kubectl", "patch", "gr", "", "--type", "merge", "-p", ""):
		patch, err := sim.Parse(words[7])
		if err != nil {
			return err
		}
		return c.Edit(sim.Release(words[3]), patch)
	case is("kubectl", "annotate", "gr", "", "-n", "", "", "--overwrite"):
		key, value, ok := strings.Cut(words[6], "=")
		if !ok {
			return errors.New("the annotation has no value")
		}
		return c.Annotate(sim.Ref{Kind: sim.Releases, Namespace: words[5], Name: words[3]}, key, value)
	}
	return errors.New("nobody has taught the demo this command")
}

// split cuts a command line into words as a shell does, where '...' is taken as
// it is.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, any := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any {
				words = append(words, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(r)
			any = true
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	if any {
		words = append(words, word.String())
	}
	return words, nil
}
