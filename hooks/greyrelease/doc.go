// Package greyrelease holds the GreyRelease API and the hook that serves it:
// a GreyRelease and the children that exist come in, the children and the
// status that should exist go out. The package is pure. It reads no clock, does
// no I/O and keeps nothing between two calls.
//
// # Values
//
// Every field follows the same rules, whether the API server has looked at it
// before or not:
//
//   - An absent field and a null one mean the same: the documented default.
//   - A zero is a value. It is honoured or refused, never replaced by a default.
//   - A whole number may be written 5, 5.0 or 5e0. "5", 2.7 and 1e20 are refused.
//   - A percentage is a string of digits and a percent sign, "0%" to "100%",
//     with no sign, no blank, no fraction and no needless zero in front.
//   - A version is a string. A number is refused, because YAML has already made
//     1.1 of an unquoted 1.10.
//
// +groupName=greyrelease.example.com
// +versionName=v1
// +kubebuilder:validation:Optional
package greyrelease
