package kube

import (
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func admitService(old, obj map[string]any) (map[string]any, error) {
	var s, was corev1.Service
	if err := convert(obj, &s); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Service in version \"v1\" cannot be handled as a Service: %v", err))
	}
	if old != nil {
		if err := convert(old, &was); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	defaultService(&was, &s)
	errs := validateService(&s)
	if was.Spec.ClusterIP != "" && was.Spec.ClusterIP != s.Spec.ClusterIP {
		errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), s.Spec.ClusterIP, "may not change once set"))
	}
	s.ManagedFields = nil
	s.Status = corev1.ServiceStatus{}
	return finish(schema.GroupKind{Kind: "Service"}, s.Name, &s, obj, errs)
}

// defaultService fills in what the server does and keeps what it has allocated
// where an update leaves it out.
func defaultService(was, s *corev1.Service) {
	spec := &s.Spec
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	cluster := corev1.ServiceInternalTrafficPolicyCluster
	single := corev1.IPFamilyPolicySingleStack
	setDefault(&spec.InternalTrafficPolicy, cluster)
	setDefault(&spec.IPFamilyPolicy, single)
	if spec.ClusterIP == "" {
		spec.ClusterIP = was.Spec.ClusterIP
	}
	if spec.ClusterIP == "" {
		spec.ClusterIP = allocate(s.Namespace + "/" + s.Name)
	}
	if len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
}

// allocate returns an address for a Service, always the same one for its name.
func allocate(key string) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	n := h.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", 96+n>>16&15, n>>8&255, n&255)
}

func validateService(s *corev1.Service) field.ErrorList {
	spec := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMetaAccessor(s, true, apivalidation.NameIsDNS1035Label, field.NewPath("metadata"))
	if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP != corev1.ClusterIPNone {
		errs = append(errs, field.Required(spec.Child("ports"), ""))
	}
	errs = append(errs, metavalidation.ValidateLabels(s.Spec.Selector, spec.Child("selector"))...)
	var names []string
	var taken []corev1.ServicePort
	for i, p := range s.Spec.Ports {
		at := spec.Child("ports").Index(i)
		switch {
		case p.Name == "" && len(s.Spec.Ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), ""))
		case p.Name != "":
			errs = append(errs, label(p.Name, at.Child("name"))...)
			if slices.Contains(names, p.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names = append(names, p.Name)
		}
		for _, msg := range validation.IsValidPortNum(int(p.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, msg))
		}
		if slices.ContainsFunc(taken, func(q corev1.ServicePort) bool { return q.Port == p.Port && q.Protocol == p.Protocol }) {
			errs = append(errs, field.Duplicate(at, p))
		}
		taken = append(taken, p)
	}
	return errs
}
