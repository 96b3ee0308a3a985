package greyrelease

// The API as clients name it. Group, version, kind and the plural are part of
// every user's manifests and never change.
const (
	Group      = "greyrelease.example.com"
	Version    = "v1"
	Kind       = "GreyRelease"
	Resource   = "greyreleases"
	APIVersion = Group + "/" + Version
)
