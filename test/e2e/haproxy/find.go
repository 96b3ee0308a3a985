package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is where haproxy is.
type Program struct {
	Path string
	// Libraries is a folder of shared libraries that it needs and that the machine
	// may not have; "" for none.
	Libraries string
}

// Find returns the haproxy of the machine. Where there is none it is fetched from
// Debian with the libraries that are missing, and unpacked into the cache: that
// takes no rights and changes nothing on the machine.
func Find(ctx context.Context, cache string, progress io.Writer) (Program, error) {
	if path, err := exec.LookPath("haproxy"); err == nil {
		return Program{Path: path}, nil
	}
	kept := filepath.Join(cache, "haproxy")
	path := filepath.Join(kept, "usr", "sbin", "haproxy")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(progress, "fetching haproxy from Debian, once")
		if err := fetch(ctx, kept); err != nil {
			return Program{}, fmt.Errorf("cannot find haproxy: there is none in PATH, and it cannot be fetched from Debian: %w", err)
		}
	} else if err != nil {
		return Program{}, fmt.Errorf("cannot look for haproxy: %w", err)
	}
	folders, err := filepath.Glob(filepath.Join(kept, "usr", "lib", "*-linux-gnu*"))
	if err != nil {
		return Program{}, fmt.Errorf("cannot look for the libraries of haproxy: %w", err)
	}
	return Program{Path: path, Libraries: strings.Join(folders, ":")}, nil
}

// fetch unpacks haproxy and the packages it lacks beside its place, and then moves
// them, so that an interruption leaves nothing that looks ready.
func fetch(ctx context.Context, kept string) error {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("want haproxy 2.6 or later in PATH, or %s to fetch it with: %w", tool, err)
		}
	}
	part := fmt.Sprintf("%s.%d.part", kept, os.Getpid())
	defer os.RemoveAll(part)
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	packages, err := missing(ctx)
	if err != nil && os.Geteuid() == 0 {
		// The lists of packages may be empty, as in a fresh container.
		if _, err := output(ctx, "", "apt-get", "update", "-qq"); err != nil {
			return err
		}
		packages, err = missing(ctx)
	}
	if err != nil {
		return fmt.Errorf("run apt-get update as root, or install haproxy: %w", err)
	}
	if _, err := output(ctx, part, "apt-get", append([]string{"download", "-qq"}, packages...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(part, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := output(ctx, part, "dpkg-deb", "-x", file, part); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return os.Rename(part, kept)
}

// missing lists haproxy and the packages that the machine lacks for it. A line of
// the simulation is "Inst liblua5.3-0 (5.3.6-2 Debian:12 [amd64])".
func missing(ctx context.Context) ([]string, error) {
	text, err := output(ctx, "", "apt-get", "--simulate", "install", "--no-install-recommends", "haproxy")
	if err != nil {
		return nil, err
	}
	var packages []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			packages = append(packages, fields[1])
		}
	}
	return packages, nil
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot run %v: %w\n%s", command.Args, err, text)
	}
	return string(text), nil
}
