package validation

import (
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

type namedProbe struct {
	probe *kubevirtv1.Probe
	path  *field.Path
	kind  string
}

func (s subject) probes() []namedProbe {
	return []namedProbe{
		{s.spec.ReadinessProbe, s.path.Child("readinessProbe"), "readinessProbe"},
		{s.spec.LivenessProbe, s.path.Child("livenessProbe"), "livenessProbe"},
	}
}

func probes(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, n := range s.probes() {
		if n.probe == nil {
			continue
		}
		handlers := 0
		for _, set := range []bool{n.probe.HTTPGet != nil, n.probe.TCPSocket != nil, n.probe.Exec != nil, n.probe.GuestAgentPing != nil} {
			if set {
				handlers++
			}
		}
		switch {
		case handlers > 1:
			causes = append(causes, invalid(n.path, "%s must have exactly one probe type set", n.path)...)
		case handlers == 0:
			causes = append(causes, required(n.path, "either %s, %s or %s must be set if a %s is specified",
				n.path.Child("tcpSocket"), n.path.Child("exec"), n.path.Child("httpGet"), n.path)...)
		}
	}
	return causes
}

func probesNeedPodNetwork(s subject) []metav1.StatusCause {
	for _, n := range s.spec.Networks {
		if n.Pod != nil {
			return nil
		}
	}
	if len(s.spec.Networks) == 0 && !isFalse(s.spec.Domain.Devices.AutoattachPodInterface) {
		return nil
	}
	var causes []metav1.StatusCause
	for _, n := range s.probes() {
		if n.probe == nil {
			continue
		}
		if n.probe.HTTPGet != nil {
			p := n.path.Child("httpGet")
			causes = append(causes, invalid(p, "%s is only allowed if the Pod Network is attached", p)...)
		}
		if n.probe.TCPSocket != nil {
			p := n.path.Child("tcpSocket")
			causes = append(causes, invalid(p, "%s is only allowed if the Pod Network is attached", p)...)
		}
	}
	return causes
}

// Limits of a pod's DNS settings, as Kubernetes has them.
const (
	maxNameservers      = 3
	maxSearches         = 6
	maxSearchCharacters = 256
)

// dns fields are named without their place, as KubeVirt does.
func dns(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	switch s.spec.DNSPolicy {
	case "", corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault:
	case corev1.DNSNone:
		if s.spec.DNSConfig == nil {
			p := s.path.Child("dnsConfig")
			return required(p, "must provide `dnsConfig` when `dnsPolicy` is None")
		}
		if len(s.spec.DNSConfig.Nameservers) == 0 {
			return required(field.NewPath("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")
		}
	default:
		causes = append(causes, unsupported(s.path.Child("dnsPolicy"), "DNSPolicy: %s is not supported, valid values: %v", s.spec.DNSPolicy,
			[]corev1.DNSPolicy{corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone, ""})...)
	}
	c := s.spec.DNSConfig
	if c == nil {
		return causes
	}
	if len(c.Nameservers) > maxNameservers {
		causes = append(causes, invalid(field.NewPath("nameservers"), "must not have more than %d nameservers: %v", maxNameservers, c.Nameservers)...)
	}
	for _, ns := range c.Nameservers {
		if net.ParseIP(ns) == nil {
			causes = append(causes, invalid(field.NewPath("nameservers"), "must be valid IP address: %s", ns)...)
		}
	}
	if len(c.Searches) > maxSearches {
		causes = append(causes, invalid(field.NewPath("searchDomains"), "must not have more than %d search paths", maxSearches)...)
	}
	if len(strings.Join(c.Searches, " ")) > maxSearchCharacters {
		causes = append(causes, invalid(field.NewPath("searchDomains"), "must not have more than %d characters (including spaces) in the search list", maxSearchCharacters)...)
	}
	return causes
}
