// Command compare holds the double of Metacontroller to the original: both are told
// the same stories on one control plane, and what they write and what is there in
// the end has to be the same, object by object.
//
//	METACONTROLLER=/path/to/metacontroller go run -C test/e2e ./compare
//
// Without METACONTROLLER there is nothing to compare with, which is an error.
//
// Compared are the distinct writes of each object in their order (verb, owner of the
// fields, parameters, body or error) and the end state (objects with the owners of
// their fields, events, and the last request to the hooks of the test). No object is
// left out. What is chance is taken out by rules that hold for all:
//
//   - uids, times, resource versions and addresses are replaced by words.
//   - A write that was refused as a conflict is none: it is tried again.
//   - Of the status and the system metadata that a write of an object repeats from
//     what was observed, nothing is kept.
//   - Writes in a row that are the same are one.
//   - A status is a report of what is seen, and what is seen in passing is chance: of the
//     statuses written between two steps of a story the last one counts, that at rest,
//     and none if the object is gone by then.
//   - Errors of several children that one event reports are sorted: they come in the
//     order of a Go map.
//   - A story that differs is told again by both, and is different only if no telling
//     of the one was ever like one of the other.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"greyrelease.example.com/test/e2e/cluster"

	"k8s.io/client-go/dynamic"
)

func main() {
	apply := flag.String("apply", "", "apply strategy, dynamic-apply or server-side-apply; both if not set")
	run := flag.String("run", ".", "regular expression of the stories to tell")
	rounds := flag.Int("rounds", 3, "how often a story that differs is told at most")
	atOnce := flag.Int("at-once", 6, "stories told at the same time")
	verbose := flag.Bool("v", false, "print all writes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	strategies := []string{cluster.DynamicApply, cluster.ServerSideApply}
	if *apply != "" {
		strategies = []string{*apply}
	}
	o := options{strategies: strategies, rounds: *rounds, atOnce: *atOnce, verbose: *verbose, out: os.Stdout}
	err := o.choose(*run)
	if err == nil {
		err = compare(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "compare: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// The two, as namespaces and reports call them. They are of one length, so that texts
// are cut and lines are broken at the same places.
const (
	theDouble   = "imitator"
	theOriginal = "original"
)

type options struct {
	strategies []string
	stories    []story
	rounds     int
	atOnce     int
	verbose    bool
	out        io.Writer
}

func (o *options) choose(pattern string) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("cannot read -run: %w", err)
	}
	o.stories = nil
	for _, list := range [][]story{releaseStories, mirrorStories, aloneStories} {
		for _, st := range list {
			if match.MatchString(st.name) {
				o.stories = append(o.stories, st)
			}
		}
	}
	if len(o.stories) == 0 {
		return errors.New("no story has such a name")
	}
	return nil
}

// compare runs everything. An error of the stage is told from a difference only by
// its text.
func compare(ctx context.Context, o options) error {
	real := os.Getenv("METACONTROLLER")
	if real == "" {
		return errors.New("METACONTROLLER is not set to the path of the original: there is nothing to compare with")
	}
	if _, err := os.Stat(real); err != nil {
		return fmt.Errorf("cannot find the original: %w", err)
	}
	s, err := setUp(ctx, real)
	if err != nil {
		return err
	}
	defer s.plane.Stop()
	differ := 0
	for _, strategy := range o.strategies {
		n, err := s.strategy(ctx, o, strategy)
		if err != nil {
			return fmt.Errorf("%w; logs are in %s", err, s.plane.Dir)
		}
		differ += n
	}
	if differ > 0 {
		return fmt.Errorf("%d stories differ; logs are in %s", differ, s.plane.Dir)
	}
	return os.RemoveAll(s.plane.Dir)
}

// setUp boots a control plane whose audit log has what Metacontroller sends, and
// installs the kinds that only these stories have.
func setUp(ctx context.Context, real string) (*stage, error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "greyrelease-compare-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder: %w", err)
	}
	plane, err := cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Components: []string{"secret-snapshots"}, Apply: cluster.DynamicApply, Unrestricted: true, Progress: os.Stderr,
	})
	if err != nil {
		return nil, fmt.Errorf("%w; logs are in %s", err, dir)
	}
	s := &stage{plane: plane, real: real}
	if err := s.prepare(ctx); err != nil {
		plane.Stop()
		return nil, fmt.Errorf("%w; logs are in %s", err, dir)
	}
	return s, nil
}

func (s *stage) prepare(ctx context.Context) error {
	s.plane.End("metacontroller", true)
	s.plane.End("kube-apiserver", true)
	path := filepath.Join(s.plane.Dir, "audit-policy.yaml")
	if err := os.WriteFile(path, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("cannot write audit policy: %w", err)
	}
	if err := s.plane.StartAPIServer(ctx); err != nil {
		return fmt.Errorf("cannot start kube-apiserver again: %w", err)
	}
	s.log = newAuditLog(filepath.Join(s.plane.Dir, "audit.log"))
	var err error
	if s.dyn, err = dynamic.NewForConfig(s.plane.Config(cluster.Tester)); err != nil {
		return fmt.Errorf("cannot make client: %w", err)
	}
	if s.hook, err = startMirrorHook(); err != nil {
		return err
	}
	manifests := filepath.Join(s.plane.Dir, "mirrors.yaml")
	if err := os.WriteFile(manifests, []byte(s.hook.manifests()), 0o600); err != nil {
		return fmt.Errorf("cannot write manifests: %w", err)
	}
	_, err = s.plane.Kubectl(ctx, "apply", "-f", manifests)
	return err
}

// use starts one of the two with an apply strategy, in the place of what runs.
func (s *stage) use(ctx context.Context, original bool, strategy string) error {
	s.plane.End("metacontroller", false)
	program := filepath.Join(s.plane.Dir, "metacontroller")
	if original {
		program = s.real
	}
	s.plane.Programs["metacontroller"], s.plane.Apply = program, strategy
	return s.plane.StartMetacontroller(ctx)
}

// strategy compares under one apply strategy and returns how many stories differ.
func (s *stage) strategy(ctx context.Context, o options, strategy string) (int, error) {
	list := o.stories
	all := map[string]*comparison{}
	started := time.Now()
	for round := 1; round <= o.rounds && len(list) > 0; round++ {
		for _, original := range []bool{false, true} {
			if err := s.use(ctx, original, strategy); err != nil {
				return 0, err
			}
			who := theDouble
			if original {
				who = theOriginal
			}
			prefix := fmt.Sprintf("%s-%.3s-%d", who, strategy, round)
			results := s.tell(ctx, list, prefix, o.atOnce)
			fmt.Fprintf(os.Stderr, "%s, round %d: %s has told %d stories, %v\n", strategy, round, who, len(list), time.Since(started).Round(time.Second))
			for name, t := range results {
				if all[name] == nil {
					all[name] = &comparison{}
				}
				all[name].add(original, t)
			}
			if err := s.cleared(ctx); err != nil {
				return 0, err
			}
		}
		var again []story
		for _, st := range list {
			if len(all[st.name].differences()) > 0 {
				again = append(again, st)
			}
		}
		for _, st := range again {
			fmt.Fprintf(os.Stderr, "  not the same so far: %s\n", st.name)
		}
		list = again
	}
	fmt.Fprintf(o.out, "%s: %d stories in %v\n", strategy, len(o.stories), time.Since(started).Round(time.Second))
	table(o, all)
	for _, st := range list {
		fmt.Fprintf(o.out, "\n== %s, %s\n", st.name, strategy)
		for _, d := range all[st.name].differences() {
			fmt.Fprintln(o.out, d)
		}
	}
	return len(list), nil
}

// cleared waits until the namespaces of told stories are gone, so that nothing of
// one telling is there in the next.
func (s *stage) cleared(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for {
		command := exec.CommandContext(ctx, s.plane.Programs["kubectl"], "--kubeconfig", s.plane.Kubeconfig(cluster.Tester), "get", "namespaces", "-o", "name")
		out, err := command.Output()
		if err != nil {
			return fmt.Errorf("cannot list namespaces: %w", err)
		}
		if !strings.Contains(string(out), "/"+theDouble+"-") && !strings.Contains(string(out), "/"+theOriginal+"-") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("namespaces are not gone: %s", out)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
