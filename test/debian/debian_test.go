package debian

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a program that only has to be there.
func write(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramsOfTheMachineWin(t *testing.T) {
	bin, cache := t.TempDir(), t.TempDir()
	want := write(t, filepath.Join(bin, "tool"))
	write(t, filepath.Join(cache, "pack", "usr", "bin", "tool"))
	t.Setenv("PATH", bin)
	got, err := Find(t.Context(), cache, "pack", io.Discard, "tool")
	if err != nil {
		t.Fatal(err)
	}
	if got.Paths["tool"] != want || got.Libraries != "" {
		t.Errorf("want %s without libraries, got %+v", want, got)
	}
}

// What was unpacked once is used again, with its libraries, and one program that the
// machine has is not mixed with another one of the package.
func TestProgramsOfTheCache(t *testing.T) {
	cache := t.TempDir()
	kept := filepath.Join(cache, "pack", "usr")
	one, two := write(t, filepath.Join(kept, "bin", "one")), write(t, filepath.Join(kept, "sbin", "two"))
	write(t, filepath.Join(kept, "lib", "x86_64-linux-gnu", "lib.so"))
	bin := t.TempDir()
	write(t, filepath.Join(bin, "one"))
	t.Setenv("PATH", bin)
	got, err := Find(t.Context(), cache, "pack", io.Discard, "one", "two")
	if err != nil {
		t.Fatal(err)
	}
	if got.Paths["one"] != one || got.Paths["two"] != two {
		t.Errorf("want %s and %s, got %v", one, two, got.Paths)
	}
	if want := filepath.Join(kept, "lib", "x86_64-linux-gnu"); want != got.Libraries {
		t.Errorf("want the libraries %s, got %s", want, got.Libraries)
	}
	_, err = Find(t.Context(), cache, "pack", io.Discard, "three")
	if err == nil || !strings.Contains(err.Error(), "cannot find three in Debian's pack") {
		t.Errorf("want an error that names the program and the package, got %v", err)
	}
}

// Without Debian's tools the error says what would help, and nothing is left that looks
// ready.
func TestNoDebian(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("PATH", t.TempDir())
	_, err := Find(t.Context(), cache, "pack", io.Discard, "tool")
	if err == nil || !strings.Contains(err.Error(), "want apt-get to fetch it with, or pack installed") {
		t.Errorf("want an error that says how to get it, got %v", err)
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("want nothing in the cache, got %v, %v", left, err)
	}
}

func TestInstalled(t *testing.T) {
	const simulation = `NOTE: This is only a simulation!
The following NEW packages will be installed:
  fonts-glyphicons-halflings libjs-bootstrap liblua5.3-0 prometheus
Inst fonts-glyphicons-halflings (1.009~3.4.1+dfsg-3+deb12u2 Debian-Security:12/oldstable-security [all])
Inst libjs-bootstrap (3.4.1+dfsg-3+deb12u2 Debian-Security:12/oldstable-security [all])
Inst liblua5.3-0 (5.3.6-2 Debian:12 [amd64])
Inst prometheus (2.42.0+ds-5+deb12u1 Debian:12.15/oldstable [amd64])
Conf prometheus (2.42.0+ds-5+deb12u1 Debian:12.15/oldstable [amd64])
`
	if want, got := []string{"liblua5.3-0", "prometheus"}, installed(simulation); !slices.Equal(want, got) {
		t.Errorf("want %v, got %v", want, got)
	}
}
