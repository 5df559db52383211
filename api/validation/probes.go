package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

type namedProbe struct {
	probe *kubevirtv1.Probe
	path  *field.Path
}

func (s subject) probes() []namedProbe {
	return []namedProbe{
		{s.spec.ReadinessProbe, s.path.Child("readinessProbe")},
		{s.spec.LivenessProbe, s.path.Child("livenessProbe")},
	}
}

func probes(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, n := range s.probes() {
		if n.probe == nil {
			continue
		}
		handlers := 0
		for _, set := range []bool{n.probe.HTTPGet != nil, n.probe.TCPSocket != nil, n.probe.Exec != nil,
			n.probe.GuestAgentPing != nil} {
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
