// Package binaries builds the programs of a Kubernetes control plane from their Go
// modules and keeps them in a cache outside the repository.
//
// Each folder beside this file is a module of its own that pins one project by its
// go.mod and go.sum. What was built is kept under a hash of these two files, so a
// new version of one project builds only that project again. All three take about
// ten minutes on two cores the first time.
package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"time"
)

// modules are the folders, and the packages to build in each.
var modules = []struct {
	folder   string
	packages []string
	names    []string
}{
	{"etcd", []string{"go.etcd.io/etcd/server/v3"}, []string{"etcd"}},
	{"kwok", []string{"sigs.k8s.io/kwok/cmd/kwok"}, []string{"kwok"}},
	{"kubernetes", []string{
		"k8s.io/kubernetes/cmd/kube-apiserver",
		"k8s.io/kubernetes/cmd/kube-controller-manager",
		"k8s.io/kubernetes/cmd/kube-scheduler",
		"k8s.io/kubernetes/cmd/kubectl",
	}, []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}},
}

// Set says where each program is.
type Set map[string]string

// Ensure returns the programs, and builds first what the cache does not have.
// source is the folder of this package, cache the folder to keep binaries in, and
// progress is told what is being built, since that takes minutes.
func Ensure(ctx context.Context, source, cache string, progress io.Writer) (Set, error) {
	set := Set{}
	for _, m := range modules {
		key, err := keyOf(filepath.Join(source, m.folder))
		if err != nil {
			return nil, err
		}
		kept := filepath.Join(cache, m.folder+"-"+key)
		for i, name := range m.names {
			set[name] = filepath.Join(kept, name)
			if err := ensure(ctx, filepath.Join(source, m.folder), m.packages[i], set[name], progress); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

// keyOf is a hash of what decides the binaries of a module.
func keyOf(module string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("cannot read module: %w", err)
		}
		fmt.Fprintln(h, len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// ensure builds one program unless it is there. It is built beside its place and
// then moved, so that a build that was interrupted leaves nothing that looks ready.
func ensure(ctx context.Context, module, pkg, target string, progress io.Writer) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot look for %s: %w", target, err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("cannot keep a control plane: %w; set XDG_CACHE_HOME to a folder that can be written", err)
	}
	fmt.Fprintf(progress, "building %s, once\n", path.Base(target))
	started := time.Now()
	part := fmt.Sprintf("%s.%d.part", target, os.Getpid())
	defer os.Remove(part)
	if err := Build(ctx, module, pkg, part); err != nil {
		return err
	}
	if err := os.Rename(part, target); err != nil {
		return fmt.Errorf("cannot keep %s: %w", target, err)
	}
	fmt.Fprintf(progress, "built %s in %v\n", path.Base(target), time.Since(started).Round(time.Second))
	return nil
}

// Build builds a package of the module in a folder, with the settings of any other
// go build, so that packages compiled before are not compiled again. Flags are
// further ones of go build.
func Build(ctx context.Context, module, pkg, target string, flags ...string) error {
	args := append([]string{"build", "-mod=readonly", "-ldflags=-s -w"}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, "-o", target, pkg)...)
	build.Dir = module
	build.Env = append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
