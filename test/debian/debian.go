// Package debian finds programs that tests need and Go modules do not bring: those of
// the machine, or else of a Debian package, unpacked into a cache. That takes no rights
// and changes nothing on the machine.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Package is where programs of a package are.
type Package struct {
	// Paths are those of the programs, by their names.
	Paths map[string]string
	// Libraries are the folders of shared libraries that they need and that the machine
	// may not have, as LD_LIBRARY_PATH takes them; "" for none.
	Libraries string
}

// Cache is the folder in which programs are kept for this user:
// $XDG_CACHE_HOME/greyrelease-e2e or ~/.cache/greyrelease-e2e.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "greyrelease-e2e")
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("cannot keep programs: %w; set XDG_CACHE_HOME to a folder that can be written", err)
	}
	return dir, nil
}

// Find returns the programs of the machine. Where one is missing, the package of this
// name is fetched from Debian into the cache, once, with the libraries that the machine
// lacks for it.
func Find(ctx context.Context, cache, name string, progress io.Writer, programs ...string) (Package, error) {
	found := Package{Paths: map[string]string{}}
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			found.Paths[program] = path
		}
	}
	if len(found.Paths) == len(programs) {
		return found, nil
	}
	kept := filepath.Join(cache, name)
	if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(progress, "fetching %s from Debian, once\n", name)
		if err := fetch(ctx, kept, name); err != nil {
			return Package{}, fmt.Errorf("cannot find %v: it is not in PATH, and %s cannot be fetched from Debian: %w", programs, name, err)
		}
	} else if err != nil {
		return Package{}, fmt.Errorf("cannot look for %s: %w", name, err)
	}
	for _, program := range programs {
		paths, err := filepath.Glob(filepath.Join(kept, "usr", "*bin", program))
		if err != nil {
			return Package{}, fmt.Errorf("cannot look for %s: %w", program, err)
		}
		if len(paths) == 0 {
			return Package{}, fmt.Errorf("cannot find %s in Debian's %s: remove %s if it is not whole", program, name, kept)
		}
		found.Paths[program] = paths[0]
	}
	folders, err := filepath.Glob(filepath.Join(kept, "usr", "lib", "*-linux-gnu*"))
	if err != nil {
		return Package{}, fmt.Errorf("cannot look for the libraries of %s: %w", name, err)
	}
	found.Libraries = strings.Join(folders, string(filepath.ListSeparator))
	return found, nil
}

// fetch unpacks a package and the ones it lacks beside its place, and then moves them,
// so that an interruption leaves nothing that looks ready.
func fetch(ctx context.Context, kept, name string) error {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("want %s to fetch it with, or %s installed: %w", tool, name, err)
		}
	}
	part := fmt.Sprintf("%s.%d.part", kept, os.Getpid())
	defer os.RemoveAll(part)
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	packages, err := missing(ctx, name)
	if err != nil && os.Geteuid() == 0 {
		// The lists of packages may be empty, as in a fresh container.
		if _, err := output(ctx, "", "apt-get", "update", "-qq"); err != nil {
			return err
		}
		packages, err = missing(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("run apt-get update as root, or install %s: %w", name, err)
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
	if err := os.Rename(part, kept); err != nil {
		// Another test may have been faster.
		if _, there := os.Stat(kept); there != nil {
			return err
		}
	}
	return nil
}

// missing lists a package and those that the machine lacks for it, without what only
// browsers need. apt-get names the package itself even if it is installed.
func missing(ctx context.Context, name string) ([]string, error) {
	text, err := output(ctx, "", "apt-get", "--simulate", "install", "--reinstall", "--no-install-recommends", name)
	if err != nil {
		return nil, err
	}
	return installed(text), nil
}

// installed reads the names from a simulation. One of its lines is
// "Inst liblua5.3-0 (5.3.6-2 Debian:12 [amd64])".
func installed(simulation string) []string {
	var packages []string
	for line := range strings.Lines(simulation) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "Inst" ||
			slices.ContainsFunc([]string{"libjs-", "fonts-"}, func(web string) bool { return strings.HasPrefix(fields[1], web) }) {
			continue
		}
		packages = append(packages, fields[1])
	}
	return packages
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
