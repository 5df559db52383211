package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// matcher is a VM's reference to an instance type or to a preference.
type matcher struct {
	path                           *field.Path
	kindName                       string // in messages
	name, kind, revision, inferred string
	policy                         *kubevirtv1.InferFromVolumeFailurePolicy
}

func matchers(s *kubevirtv1.VirtualMachineSpec) (instancetype, preference *matcher) {
	if i := s.Instancetype; i != nil {
		instancetype = &matcher{specPath().Child("instancetype"), "Instancetype", i.Name, i.Kind, i.RevisionName,
			i.InferFromVolume, i.InferFromVolumeFailurePolicy}
	}
	if p := s.Preference; p != nil {
		preference = &matcher{specPath().Child("preference"), "Preference", p.Name, p.Kind, p.RevisionName,
			p.InferFromVolume, p.InferFromVolumeFailurePolicy}
	}
	return instancetype, preference
}

// Matchers checks a VM's references to an instance type and a preference. Old is nil when the VM is created. Only the
// first invalid reference is reported.
func Matchers(vm, old *kubevirtv1.VirtualMachine) []metav1.StatusCause {
	instancetype, preference := matchers(&vm.Spec)
	if old != nil {
		oldInstancetype, oldPreference := matchers(&old.Spec)
		for _, pair := range [][2]*matcher{{oldInstancetype, instancetype}, {oldPreference, preference}} {
			if causes := pair[1].changed(pair[0]); len(causes) > 0 {
				return causes
			}
		}
	}
	for _, m := range []*matcher{instancetype, preference} {
		if causes := m.check(); len(causes) > 0 {
			return causes
		}
	}
	return nil
}

// changed: another name needs another revision.
func (m *matcher) changed(old *matcher) []metav1.StatusCause {
	if m == nil || old == nil || m.revision == "" || old.name == m.name || old.revision != m.revision {
		return nil
	}
	return invalid(m.path.Child("revisionName"), "the Matcher Name has been updated without updating the RevisionName")
}

func (m *matcher) check() []metav1.StatusCause {
	if m == nil {
		return nil
	}
	var causes []metav1.StatusCause
	if m.name == "" && m.inferred == "" {
		causes = append(causes, cause(metav1.CauseTypeFieldValueNotFound, m.path,
			"Either Name or InferFromVolume should be provided within the %sMatcher", m.kindName))
	}
	if m.inferred != "" && m.name != "" {
		causes = append(causes, unsupported(m.path.Child("name"),
			"Name already set, should be cleared before setting inferFromVolume")...)
	}
	if m.inferred != "" && m.kind != "" {
		causes = append(causes, unsupported(m.path.Child("kind"),
			"Kind already set, should be cleared before setting inferFromVolume")...)
	}
	if p := m.policy; p != nil && *p != kubevirtv1.IgnoreInferFromVolumeFailure &&
		*p != kubevirtv1.RejectInferFromVolumeFailure {
		causes = append(causes, invalid(m.path.Child("inferFromVolumeFailurePolicy"),
			"Invalid value '%s' for InferFromVolumeFailurePolicy", *p)...)
	}
	return causes
}
