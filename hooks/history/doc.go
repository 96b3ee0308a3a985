// Package history keeps the revisions of a release.
//
// A revision is a distinct content: a pod template and a version. Each is kept
// with the full spec as it was in a ConfigMap of its own, immutable and written
// before anything else of that revision. A second kind of ConfigMap holds the
// record of the release. The package reads and makes both as JSON and knows
// nothing of the fields of a release but template and targetVersion.
//
// It relies on these rules:
//
//   - Identity is content. The hash only finds it; contents are compared.
//   - A number means one content for ever and is never given away again.
//   - A snapshot is answered with exactly as it was observed, never made anew.
//   - What does not fit together is reported as broken, never guessed.
package history
