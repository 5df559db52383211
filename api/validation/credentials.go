package validation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// accessCredentials: each is of one kind, from one source, and reaches the guest in one way.
func accessCredentials(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, c := range s.spec.AccessCredentials {
		p := s.path.Child("accessCredentials").Index(i)
		if c.SSHPublicKey != nil {
			causes = append(causes, s.sshKey(p, c.SSHPublicKey)...)
		}
		if c.UserPassword != nil {
			at := p.Child("userPassword")
			causes = append(causes, oneOf(at.Child("source"), p, "source", c.UserPassword.Source.Secret != nil)...)
			causes = append(causes, oneOf(at.Child("propagationMethod"), p, "propagationMethod",
				c.UserPassword.PropagationMethod.QemuGuestAgent != nil)...)
		}
		causes = append(causes, oneOf(p, p, "access credential type", c.SSHPublicKey != nil, c.UserPassword != nil)...)
	}
	return causes
}

func (s subject) sshKey(p *field.Path, k *kubevirtv1.SSHPublicKeyAccessCredential) []metav1.StatusCause {
	m := k.PropagationMethod
	at := p.Child("sshPublicKey", "propagationMethod")
	var causes []metav1.StatusCause
	if m.NoCloud != nil && !slices.ContainsFunc(s.spec.Volumes, func(v kubevirtv1.Volume) bool {
		return v.CloudInitNoCloud != nil
	}) {
		causes = append(causes, invalid(at,
			"%s requires a noCloud volume to exist when the noCloud propagationMethod is in use.", p)...)
	}
	if m.ConfigDrive != nil && !slices.ContainsFunc(s.spec.Volumes, func(v kubevirtv1.Volume) bool {
		return v.CloudInitConfigDrive != nil
	}) {
		causes = append(causes, invalid(at,
			"%s requires a configDrive volume to exist when the configDrive propagationMethod is in use.", p)...)
	}
	if m.QemuGuestAgent != nil && len(m.QemuGuestAgent.Users) == 0 {
		causes = append(causes, invalid(at.Child("qemuGuestAgent", "users"),
			"%s requires at least one user to be present in the users list", p)...)
	}
	causes = append(causes, oneOf(p.Child("sshPublicKey", "source"), p, "source", k.Source.Secret != nil)...)
	return append(causes, oneOf(at, p, "propagationMethod", m.NoCloud != nil, m.ConfigDrive != nil,
		m.QemuGuestAgent != nil)...)
}

func oneOf(at, p *field.Path, what string, set ...bool) []metav1.StatusCause {
	n := 0
	for _, b := range set {
		if b {
			n++
		}
	}
	if n == 1 {
		return nil
	}
	return invalid(at, "%s must have exactly one %s set", p, what)
}
