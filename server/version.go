package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version and revision are set by the build:
//
//	go build -ldflags "-X main.version=v1.2.3 -X main.revision=abcdef" ./server
//
// Where they are not, what the Go toolchain recorded about the module and its
// repository is used.
var version, revision string

// build says what this binary was built from.
type build struct {
	version, revision, goVersion string
}

func currentBuild() build {
	b := build{version: version, revision: revision, goVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b.orUnknown()
	}
	if b.version == "" {
		b.version = info.Main.Version
	}
	if b.revision == "" {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				b.revision = setting.Value
			}
		}
	}
	return b.orUnknown()
}

func (b build) orUnknown() build {
	if b.version == "" {
		b.version = "(devel)"
	}
	if b.revision == "" {
		b.revision = "unknown"
	}
	return b
}

func (b build) String() string {
	return fmt.Sprintf("greyrelease %s, revision %s, %s %s/%s", b.version, b.revision, b.goVersion, runtime.GOOS, runtime.GOARCH)
}
