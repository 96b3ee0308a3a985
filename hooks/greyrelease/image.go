package greyrelease

import "strings"

// image is a container image reference taken apart.
//
//	repo:5000/app:1@sha256:4f..  ->  repo:5000/app, tag 1, digest sha256:4f..
type image struct {
	Name   string // with the registry and its port
	Tag    string // "" if there is none
	Digest string // with the algorithm, "" if there is none
}

// parseImage tells the parts of a reference apart. A colon begins a tag only
// after the last slash; before it, it belongs to a registry's port.
func parseImage(ref string) image {
	name, digest, _ := strings.Cut(ref, "@")
	slash := strings.LastIndexByte(name, '/')
	if colon := strings.LastIndexByte(name, ':'); colon > slash {
		return image{Name: name[:colon], Tag: name[colon+1:], Digest: digest}
	}
	return image{Name: name, Digest: digest}
}

// takesVersion is true for a reference that leaves the version open. One that
// ends in a colon or an at sign is a mistake the API server will name.
func takesVersion(ref string) bool {
	i := parseImage(ref)
	return i.Name == ref && i.Name != ""
}

// withVersion completes a reference for which takesVersion is true: a digest
// follows an at sign, a tag a colon.
func withVersion(ref, version string) string {
	if strings.HasPrefix(version, "sha256:") {
		return ref + "@" + version
	}
	return ref + ":" + version
}
