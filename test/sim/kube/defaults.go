package kube

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func defaultDeployment(d *appsv1.Deployment) {
	setDefault(&d.Spec.Replicas, 1)
	setDefault(&d.Spec.RevisionHistoryLimit, 10)
	setDefault(&d.Spec.ProgressDeadlineSeconds, 600)
	s := &d.Spec.Strategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if s.Type == appsv1.RollingUpdateDeploymentStrategyType {
		setDefault(&s.RollingUpdate, appsv1.RollingUpdateDeployment{})
		setDefault(&s.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		setDefault(&s.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
	}
	defaultPodSpec(&d.Spec.Template.Spec)
}

func defaultPodSpec(s *corev1.PodSpec) {
	if s.DNSPolicy == "" {
		s.DNSPolicy = corev1.DNSClusterFirst
	}
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyAlways
	}
	if s.SchedulerName == "" {
		s.SchedulerName = corev1.DefaultSchedulerName
	}
	setDefault(&s.SecurityContext, corev1.PodSecurityContext{})
	setDefault(&s.TerminationGracePeriodSeconds, 30)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i])
	}
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i])
	}
	roundUp(s.Overhead)
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
}

// pullPolicy is Always for the tag latest, written or implied.
func pullPolicy(image string) corev1.PullPolicy {
	if strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !ok || tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	for _, f := range []struct {
		field *int32
		value int32
	}{{&p.TimeoutSeconds, 1}, {&p.PeriodSeconds, 10}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setDefault(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(g *corev1.HTTPGetAction) {
	if g == nil {
		return
	}
	if g.Path == "" {
		g.Path = "/"
	}
	if g.Scheme == "" {
		g.Scheme = corev1.URISchemeHTTP
	}
}

func defaultFieldRef(r *corev1.ObjectFieldSelector) {
	if r != nil && r.APIVersion == "" {
		r.APIVersion = "v1"
	}
}

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	const mode = 0o644
	switch {
	case v.Secret != nil:
		setDefault(&v.Secret.DefaultMode, mode)
	case v.ConfigMap != nil:
		setDefault(&v.ConfigMap.DefaultMode, mode)
	case v.DownwardAPI != nil:
		setDefault(&v.DownwardAPI.DefaultMode, mode)
		defaultItems(v.DownwardAPI.Items)
	case v.HostPath != nil:
		setDefault(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Image != nil && v.Image.PullPolicy == "":
		v.Image.PullPolicy = pullPolicy(v.Image.Reference)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		setDefault(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case v.Projected != nil:
		setDefault(&v.Projected.DefaultMode, mode)
		for _, source := range v.Projected.Sources {
			if source.DownwardAPI != nil {
				defaultItems(source.DownwardAPI.Items)
			}
			if source.ServiceAccountToken != nil {
				setDefault(&source.ServiceAccountToken.ExpirationSeconds, 3600)
			}
		}
	}
}

func defaultItems(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

// roundUp makes 0.1m of a resource 1m, the least that a server keeps.
func roundUp(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
