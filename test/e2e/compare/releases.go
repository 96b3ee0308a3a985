package main

import (
	"strings"

	"greyrelease.example.com/test/e2e/cluster"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const releaseManifest = `
apiVersion: greyrelease.example.com/v1
kind: GreyRelease
metadata: {name: web}
spec:
  replicas: 3
  targetVersion: "1.0"
  batchSize: 1
  template:
    spec:
      containers:
      - {name: web, image: nginx, ports: [{containerPort: 80}]}
`

// install creates a release of 3 pods at version 1.0, in batches of one: with one
// pod at a time there is but one way in which numbers can go. more is spec on top.
func (t *teller) install(more string) {
	t.create("greyreleases", releaseManifest+indent(more))
	t.rest()
}

// indent puts lines below spec.
func indent(more string) string {
	if more == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.TrimSpace(more), "\n", "\n  ") + "\n"
}

// edit merges YAML into the spec, and waits for what comes of it.
func (t *teller) edit(spec string) {
	t.patch("greyreleases", "web", `{"spec": `+spec+`}`)
	t.rest()
}

const gate = "batches: [{replicas: 1, approval: true}]"

// releaseStories are told of GreyReleases, with the service as it is.
var releaseStories = []story{
	{name: "release", tell: func(t *teller) {
		t.install("")
		t.edit(`{"targetVersion": "2.0"}`)
	}},
	{name: "idle", tell: func(t *teller) {
		t.install("")
		t.patch("greyreleases", "web", `{"metadata": {"annotations": {"poke": "1"}}}`)
		t.rest()
	}},
	{name: "approval-abort-retry", tell: func(t *teller) {
		t.install(gate)
		t.edit(`{"targetVersion": "2.0"}`)
		t.command("abort")
		t.rest()
		t.command("retry")
		t.rest()
		t.command("promote")
		t.rest()
	}},
	{name: "rollback", tell: func(t *teller) {
		t.install("")
		t.edit(`{"targetVersion": "2.0", "progressDeadlineSeconds": 5, "template": {"metadata": {"annotations": {"test/behave": "crash"}}}}`)
		t.silent(12e9)
		t.edit(`{"targetVersion": "3.0", "progressDeadlineSeconds": null, "template": {"metadata": null}}`)
	}},
	{name: "third-version", tell: func(t *teller) {
		t.install(gate)
		t.edit(`{"targetVersion": "2.0"}`)
		t.edit(`{"targetVersion": "3.0"}`)
		t.command("promote")
		t.rest()
	}},
	{name: "revert", tell: func(t *teller) {
		t.install(gate)
		t.edit(`{"targetVersion": "2.0"}`)
		t.edit(`{"targetVersion": "1.0"}`)
	}},
	{name: "rollback-to", tell: func(t *teller) {
		t.install("revisionHistoryLimit: 1")
		t.edit(`{"targetVersion": "2.0"}`)
		t.edit(`{"rollbackTo": 1}`)
		t.edit(`{"rollbackTo": null}`)
		t.edit(`{"targetVersion": "3.0"}`)
		t.edit(`{"targetVersion": "4.0"}`)
	}},
	{name: "secrets", tell: func(t *teller) {
		t.install("snapshotKind: Secret")
		t.edit(`{"targetVersion": "2.0"}`)
		t.edit(`{"snapshotKind": null}`)
		t.edit(`{"snapshotKind": "Secret"}`)
		t.create("secrets", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-rev-3"}, "data": {"mine": "eWVz"}}`)
		t.edit(`{"targetVersion": "3.0"}`)
		t.delete("secrets", "web-rev-3", metav1.DeletePropagationBackground)
		t.rest()
		t.edit(`{"rollbackTo": 1}`)
	}},
	{name: "scale", tell: func(t *teller) {
		t.install(gate)
		t.edit(`{"targetVersion": "2.0"}`)
		t.edit(`{"replicas": 5}`)
		t.edit(`{"replicas": 2}`)
		t.edit(`{"replicas": 0}`)
		t.edit(`{"replicas": 1}`)
	}},
	{name: "delete-children", tell: func(t *teller) {
		t.install(gate)
		t.edit(`{"targetVersion": "2.0"}`)
		t.delete("deployments", t.named("2.0"), metav1.DeletePropagationBackground)
		t.rest()
		t.delete("deployments", t.named("1.0"), metav1.DeletePropagationForeground)
		t.rest()
		t.delete("configmaps", "web-rollout", metav1.DeletePropagationBackground)
		t.rest()
		t.delete("configmaps", "web-rev-1", metav1.DeletePropagationBackground)
		t.rest()
		t.delete("configmaps", "web-rev-2", metav1.DeletePropagationBackground)
		t.rest()
		t.patch("greyreleases", "web", `{"status": null}`, "status")
		t.rest()
	}},
	{name: "edit-children", tell: func(t *teller) {
		t.install("")
		name := t.named("1.0")
		t.patch("deployments", name, `{"spec": {"replicas": 1}}`)
		t.rest()
		t.patch("deployments", name, `{"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}`)
		t.rest()
		t.patch("deployments", name, `{"metadata": {"labels": {"team": "a", "greyrelease.example.com/track": "mine"}}}`)
		t.rest()
		t.patch("deployments", name, `{"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:other"}]}}}}`)
		t.rest()
		t.patch("configmaps", "web-rollout", `{"data": {"record.json": "nonsense"}}`)
		t.rest()
		t.edit(`{"targetVersion": "2.0"}`)
	}},
	{name: "foreign-child", tell: func(t *teller) {
		t.create("configmaps", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web-rollout"}, "data": {"mine": "yes"}}`)
		t.create("configmaps", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web-rev-2", "ownerReferences": [
			{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "11111111-1111-1111-1111-111111111111", "controller": true}]}}`)
		t.install("")
		t.edit(`{"targetVersion": "2.0"}`)
		t.delete("configmaps", "web-rollout", metav1.DeletePropagationBackground)
		t.rest()
	}},
	{name: "delete-background", tell: func(t *teller) {
		t.install("")
		t.delete("greyreleases", "web", metav1.DeletePropagationBackground)
		t.rest()
	}},
	{name: "delete-foreground", tell: func(t *teller) {
		t.install(gate)
		t.edit(`{"targetVersion": "2.0"}`)
		t.delete("greyreleases", "web", metav1.DeletePropagationForeground)
		t.rest()
	}},
	{name: "delete-held", tell: func(t *teller) {
		t.install("")
		t.patch("greyreleases", "web", `{"metadata": {"finalizers": ["example.com/held"]}}`)
		t.rest()
		t.delete("greyreleases", "web", metav1.DeletePropagationBackground)
		t.rest()
		t.edit(`{"targetVersion": "2.0"}`)
		t.patch("greyreleases", "web", `{"metadata": {"finalizers": null}}`)
		t.rest()
	}},
	{name: "recreate", tell: func(t *teller) {
		t.install("")
		t.delete("greyreleases", "web", metav1.DeletePropagationForeground)
		t.rest()
		t.install("")
		t.edit(`{"targetVersion": "2.0"}`)
	}},
	{name: "orphan-readopt", tell: func(t *teller) {
		t.install("")
		t.delete("greyreleases", "web", metav1.DeletePropagationOrphan)
		t.rest()
		t.install("")
		t.relabel("deployments", "greyreleases", "web")
		t.rest()
		t.relabel("configmaps", "greyreleases", "web")
		t.rest()
		t.edit(`{"targetVersion": "2.0"}`)
	}},
	{name: "let-go", tell: func(t *teller) {
		t.install("")
		t.patch("deployments", t.named("1.0"), `{"metadata": {"labels": {"controller-uid": "somebody"}}}`)
		t.rest()
		t.patch("configmaps", "web-rev-1", `{"metadata": {"labels": {"controller-uid": null}}}`)
		t.rest()
	}},
	{name: "invalid", tell: func(t *teller) {
		t.install("")
		t.edit(`{"targetVersion": "2.0", "traffic": {"serviceName": "web-preview", "ports": [{"port": 80}]}}`)
		t.edit(`{"replicas": 2}`)
		t.edit(`{"traffic": null}`)
	}},
	{name: "refused-by-the-server", tell: func(t *teller) {
		t.install("")
		t.edit(`{"targetVersion": "2.0", "template": {"spec": {"containers": [{"name": "web", "image": "nginx", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}]}}}`)
		t.edit(`{"targetVersion": "1.0", "template": {"spec": {"containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}]}}}`)
	}},
	{name: "colliding-ports", tell: func(t *teller) {
		t.install("")
		t.edit(`{"targetVersion": "2.0", "template": {"spec": {"containers": [{"name": "web", "image": "nginx", "ports": [
			{"name": "udp", "containerPort": 53, "protocol": "UDP"}, {"name": "tcp", "containerPort": 53, "protocol": "TCP"}]}]}}}`)
	}},
	{name: "two-releases", tell: func(t *teller) {
		t.create("greyreleases", strings.Replace(releaseManifest, "name: web}", "name: api}", 1)+"  appName: shop\n")
		t.install("appName: shop")
		t.patch("greyreleases", "api", `{"spec": {"targetVersion": "2.0"}}`)
		t.edit(`{"targetVersion": "3.0"}`)
		t.delete("greyreleases", "api", metav1.DeletePropagationBackground)
		t.rest()
	}},
	{name: "large-template", tell: func(t *teller) {
		t.install("")
		t.edit(`{"targetVersion": "2.0", "template": {"metadata": {"annotations": {"big": "` + strings.Repeat("x", 110<<10) + `"}}}}`)
	}},
	{name: "old-finalizer", tell: func(t *teller) {
		t.create("greyreleases", strings.Replace(releaseManifest, "name: web}", "name: web, finalizers: [metacontroller.io/compositecontroller-greyrelease]}", 1))
		t.rest()
	}},
}

// aloneStories are told one at a time: what they do is seen by all.
var aloneStories = []story{
	{name: "service-away", alone: true, tell: func(t *teller) {
		t.install(gate)
		t.plane.End("greyrelease", true)
		t.edit(`{"targetVersion": "2.0"}`)
		t.must("start the service", t.plane.StartService(t.ctx))
		t.silent(15e9) // the next try may be some seconds away
	}},
	{name: "metacontroller-restarts", alone: true, tell: func(t *teller) {
		t.install(gate)
		t.plane.End("metacontroller", true)
		t.patch("greyreleases", "web", `{"spec": {"targetVersion": "2.0"}}`)
		t.delete("configmaps", "web-rollout", metav1.DeletePropagationBackground)
		t.must("start Metacontroller", t.plane.StartMetacontroller(t.ctx))
		t.rest()
		t.command("promote")
		t.rest()
	}},
	{name: "mode-switched", alone: true, tell: func(t *teller) {
		first, second := cluster.DynamicApply, cluster.ServerSideApply
		if t.plane.Apply == second {
			first, second = second, first
		}
		t.install(gate)
		t.edit(`{"targetVersion": "2.0"}`)
		for _, strategy := range []string{second, first} {
			t.plane.End("metacontroller", false)
			t.plane.Apply = strategy
			t.must("start Metacontroller", t.plane.StartMetacontroller(t.ctx))
			t.rest()
			t.patch("greyreleases", "web", `{"metadata": {"annotations": {"poke": "`+strategy+`"}}}`)
			t.rest()
			t.command("abort")
			t.rest()
			t.command("retry")
			t.rest()
		}
	}},
	{name: "controller-edited", alone: true, tell: func(t *teller) {
		t.install("")
		t.kubectl("patch", "compositecontroller", "greyrelease", "--type=merge", "-p", `{"spec":{"resyncPeriodSeconds":3600}}`)
		t.rest()
		t.edit(`{"targetVersion": "2.0"}`)
		t.kubectl("patch", "compositecontroller", "greyrelease", "--type=merge", "-p", `{"spec":{"resyncPeriodSeconds":null}}`)
		t.rest()
	}},
}

func (t *teller) kubectl(args ...string) {
	if t.err != nil {
		return
	}
	_, err := t.plane.Kubectl(t.ctx, args...)
	t.must("run kubectl", err)
}
