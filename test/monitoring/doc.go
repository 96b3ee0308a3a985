// Package monitoring runs manifests/monitoring with the code that reads it: kube-state-
// metrics makes series of every recorded release, and Prometheus' parser reads the
// expressions of the alerts and of the dashboard, which may ask for nothing else.
package monitoring
