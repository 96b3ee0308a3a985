// Package kube does to objects what a Kubernetes API server does before it
// stores them: it refuses what is not legal, drops what it would not keep (zero,
// empty and null values), spells quantities its own way and fills in defaults.
// It knows the kinds that a GreyRelease has as children, and only those rules
// that a release can meet.
//
// Objects are JSON trees with whole numbers as int64. The rules were read in
// Kubernetes 1.36, pkg/apis/{apps,core}.
package kube
