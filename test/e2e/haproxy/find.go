package haproxy

import (
	"context"
	"io"

	"greyrelease.example.com/test/debian"
)

// Program is where haproxy is.
type Program struct {
	Path string
	// Libraries is a folder of shared libraries that it needs and that the machine
	// may not have; "" for none.
	Libraries string
}

// Find returns the haproxy of the machine, 2.6 or later, or that of Debian.
func Find(ctx context.Context, cache string, progress io.Writer) (Program, error) {
	found, err := debian.Find(ctx, cache, "haproxy", progress, "haproxy")
	if err != nil {
		return Program{}, err
	}
	return Program{Path: found.Paths["haproxy"], Libraries: found.Libraries}, nil
}
