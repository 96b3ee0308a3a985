// Command localcluster runs a Kubernetes control plane with GreyRelease on this
// machine, without containers, for a person to try it.
//
//	localcluster build    make the programs, so that up takes seconds
//	localcluster up       boot it, leave it running and say what to try
//	localcluster down     end it
//
// METACONTROLLER is the path of a Metacontroller to use in the place of the double,
// APPLY its apply strategy.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/binaries"
	"greyrelease.example.com/test/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "localcluster: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: localcluster build|up|down")
	}
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	cache, err := debian.Cache()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "cluster")
	switch args[0] {
	case "build":
		_, err := binaries.Ensure(ctx, filepath.Join(root, "test", "e2e", "binaries"), cache, os.Stderr)
		return err
	case "up":
		return up(ctx, root, dir)
	case "down":
		return down(dir)
	}
	return fmt.Errorf("unknown command %q: want build, up or down", args[0])
}

// up boots a cluster.
func up(ctx context.Context, root, dir string) error {
	if _, err := os.Stat(cluster.RunningFile(dir)); err == nil {
		return fmt.Errorf("a cluster is running already: end it with make cluster-down, or look at %s", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot clear %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make %s: %w", dir, err)
	}
	apply := os.Getenv("APPLY")
	if apply == "" {
		apply = cluster.DynamicApply
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Apply: apply, Metacontroller: os.Getenv("METACONTROLLER"), Detached: true, Progress: os.Stderr,
	})
	if err != nil {
		return errors.Join(err, os.RemoveAll(cluster.RunningFile(dir))) // the logs stay
	}
	fmt.Printf(`
The cluster is up. Its pods are simulated, everything else is real. Try:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl apply -f examples/01-first-release.yaml && kubectl wait --for=condition=Ready gr/web
  kubectl patch gr web --type merge -p '{"spec":{"targetVersion":"1.28.0"}}' && kubectl get gr web -w

End it with make cluster-down.
`, cluster.FromHome(c.Kubeconfig(cluster.Tester)), cluster.FromHome(filepath.Dir(c.Programs["kubectl"])))
	return nil
}

func down(dir string) error {
	err := cluster.EndAll(dir)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Println("no cluster is running")
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("cannot clear %s: %w", dir, err)
	}
	fmt.Println("the cluster is down")
	return nil
}
