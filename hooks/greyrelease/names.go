package greyrelease

import (
	"fmt"
	"strconv"

	"greyrelease.example.com/hooks/history"
)

// Labels and annotations of ours. Every derived name and label comes from here.
const (
	// LabelName is the release's name: on pods, in selectors and on all children.
	LabelName = history.Prefix + "name"
	// LabelRevision is the content's hash: on pods, in selectors, on Deployments
	// and snapshots.
	LabelRevision = history.RevisionLabel
	// LabelNumber is the revision's number: on Deployments and snapshots.
	LabelNumber = history.NumberLabel
	// LabelTrack is stable or canary: on Deployments' own metadata only.
	LabelTrack = history.Prefix + "track"

	// AnnotationVersion is the targetVersion: on Deployments and snapshots. A tag
	// or digest is no legal label value.
	AnnotationVersion = history.VersionAnnotation
	// AnnotationDecision says under which record and when a Deployment's replicas, or
	// where a route leads, were last decided.
	AnnotationDecision = history.Prefix + "decision"
	// AnnotationFailed marks the Deployment of a revision that failed, so that it
	// is not tried again even if the record is lost.
	AnnotationFailed = history.Prefix + "failed"
	// AnnotationChannel is where operators say, on the CompositeController, that the
	// experimental channel of the Gateway API is installed: nobody else can know.
	AnnotationChannel = history.Prefix + "channel"
	// AnnotationPods is where operators say, on the CompositeController, "true": pods
	// come along with requests, for releases to say what is wrong with them.
	AnnotationPods = history.Prefix + "pods"
	// AnnotationSnapshots says, on the record's ConfigMap, "Secret" while revisions are
	// kept in Secrets, "ConfigMap" when they were: when Metacontroller sends no Secrets
	// along, nothing else shows it.
	AnnotationSnapshots = history.Prefix + "snapshots"
	// AnnotationCommand is where users write commands, on the GreyRelease.
	AnnotationCommand = history.Prefix + "command"
)

const (
	trackStable = "stable"
	trackCanary = "canary"
)

// Groups of the request.
const (
	kindDeployment = "Deployment.apps/v1"
	kindConfigMap  = "ConfigMap.v1"
	kindSecret     = "Secret.v1"
	kindService    = "Service.v1"
	kindHTTPRoute  = "HTTPRoute.gateway.networking.k8s.io/v1"
	kindIngress    = "Ingress.networking.k8s.io/v1"
	// kindEndpointSlice and kindPod are of related objects.
	kindEndpointSlice = "EndpointSlice.discovery.k8s.io/v1"
	kindPod           = "Pod.v1"
)

// deploymentName is <release>-<hash>: at most 52 + 1 + 10 characters, so that it
// is itself a legal label value and its pods' names stay legal.
func deploymentName(release, hash string) string { return release + "-" + hash }

// snapshotName is <release>-rev-<number>.
func snapshotName(release string, number int64) string {
	return release + "-rev-" + strconv.FormatInt(number, 10)
}

// recordName is <release>-rollout.
func recordName(release string) string { return release + "-rollout" }

// revisionServiceName is <release>-<hash>, as of the Deployment whose pods the
// Service selects.
func revisionServiceName(release, hash string) string { return deploymentName(release, hash) }

// previewName is the Service of a BlueGreen release's new version. No hash is
// "preview", so that it is no revision's.
func previewName(release string) string { return release + "-preview" }

// canaryIngressName is the Ingress beside the main one, which is called like the
// release.
func canaryIngressName(release string) string { return release + "-canary" }

// selector selects the pods of one revision.
func selector(release, hash string) map[string]string {
	return map[string]string{LabelName: release, LabelRevision: hash}
}

// podSelector is the label selector of all pods of a release, for autoscalers.
// It is never the app label: two releases may share one.
func podSelector(release string) string { return LabelName + "=" + release }

// annotate is the line a user copies to give a command.
func annotate(namespace, name, command string) string {
	return fmt.Sprintf("kubectl annotate gr %s -n %s %s='%s' --overwrite", name, namespace, AnnotationCommand, command)
}
