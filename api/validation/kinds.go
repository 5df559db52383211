package validation

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/defaults"
	"github.com/virtflow/virtflow/workflows/contract"
)

// DeprecatedRunning is the warning that comes with a VM that uses spec.running.
const DeprecatedRunning = "spec.running is deprecated, please use spec.runStrategy instead."

const reservedOnCreate = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"

// VM applies the rules for a VirtualMachine whose template's spec has been filled in (expanded), as its VMI's would be.
func VM(vm *kubevirtv1.VirtualMachine, expanded *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster) []metav1.StatusCause {
	spec := field.NewPath("spec")
	if vm.Spec.Template == nil {
		return required(spec.Child("template"), "missing virtual machine template.")
	}
	causes := runStrategy(spec, &vm.Spec)
	causes = append(causes, Spec(spec.Child("template", "spec"), expanded, cluster)...)
	labels := spec.Child("template", "metadata", "labels").String()
	return append(causes, reservedLabels(vm.Spec.Template.ObjectMeta.Labels, nil, labels, reservedOnCreate)...)
}

// Startable tells what KubeVirt would only find when the VM is started: there, the VMI's own webhook refuses it.
func Startable(expanded *kubevirtv1.VirtualMachineInstanceSpec) []metav1.StatusCause {
	return someMemory(subject{spec: expanded, path: field.NewPath("spec", "template", "spec")})
}

func runStrategy(spec *field.Path, s *kubevirtv1.VirtualMachineSpec) []metav1.StatusCause {
	if s.Running != nil && s.RunStrategy != nil {
		return invalid(spec.Child("running"), "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy instead")
	}
	if s.Running == nil && s.RunStrategy == nil {
		return invalid(spec.Child("running"), "RunStrategy must be specified")
	}
	if s.RunStrategy == nil {
		return nil
	}
	switch *s.RunStrategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted, kubevirtv1.RunStrategyManual,
		kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce:
		return nil
	case kubevirtv1.RunStrategyWaitAsReceiver:
		return invalid(spec.Child("runStrategy"), "Invalid RunStrategy (%s), DecentralizedLiveMigration feature gate is not enabled in kubevirt resource", *s.RunStrategy)
	default:
		return invalid(spec.Child("runStrategy"), "Invalid RunStrategy (%s)", *s.RunStrategy)
	}
}

// VMI applies the rules for a VirtualMachineInstance that is being created. Own says that virtflow itself creates it.
func VMI(vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster, own bool) []metav1.StatusCause {
	spec := field.NewPath("spec")
	causes := Spec(spec, &vmi.Spec, cluster)
	s := subject{spec: &vmi.Spec, path: spec, cluster: cluster}
	causes = append(causes, volumesUsed(s)...)
	causes = append(causes, someMemory(s)...)
	if !own {
		causes = append(causes, reservedLabels(vmi.Labels, nil, "metadata.labels", reservedOnCreate)...)
		causes = append(causes, reservedAnnotation(vmi.Annotations, nil)...)
	}
	return causes
}

// VMIUpdate applies the rules for changing a VMI.
func VMIUpdate(old, vmi *kubevirtv1.VirtualMachineInstance, own bool) []metav1.StatusCause {
	if own {
		return nil
	}
	if !reflect.DeepEqual(old.Spec, vmi.Spec) {
		return []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueNotSupported, Message: "update of VMI object is restricted"}}
	}
	causes := reservedLabels(vmi.Labels, old.Labels, "", "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited")
	return append(causes, reservedAnnotation(vmi.Annotations, old.Annotations)...)
}

func volumesUsed(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, v := range s.spec.Volumes {
		disk := slices.ContainsFunc(s.spec.Domain.Devices.Disks, func(d kubevirtv1.Disk) bool { return d.Name == v.Name })
		fs := slices.ContainsFunc(s.spec.Domain.Devices.Filesystems, func(f kubevirtv1.Filesystem) bool { return f.Name == v.Name })
		if !disk && !fs {
			p := s.domain("volumes").Index(i).Child("name")
			causes = append(causes, invalid(p, "%s '%s' not found.", p, v.Name)...)
		}
	}
	return causes
}

func someMemory(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Memory
	if m != nil && (m.Guest != nil || m.Hugepages != nil) || !s.spec.Domain.Resources.Requests.Memory().IsZero() {
		return nil
	}
	return required(s.domain("memory"), "no memory requested, at least one of '%s', '%s' or '%s' must be set", s.domain("memory", "guest"),
		s.domain("memory", "hugepages", "pageSize"), s.domain("resources", "requests", "memory"))
}

// reservedLabels may be set by virtflow alone: it acts on them.
func reservedLabels(labels, old map[string]string, at, message string) []metav1.StatusCause {
	for _, name := range []string{
		kubevirtv1.CreatedByLabel, kubevirtv1.MigrationJobLabel, kubevirtv1.NodeNameLabel,
		kubevirtv1.MigrationTargetNodeNameLabel, kubevirtv1.NodeSchedulable, kubevirtv1.InstallStrategyLabel,
	} {
		value, set := labels[name]
		before, had := old[name]
		if set != had || value != before {
			return []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueNotSupported, Field: at, Message: message}}
		}
	}
	return nil
}

// reservedAnnotation may be set by virtflow alone: a replica set counts on it.
func reservedAnnotation(annotations, old map[string]string) []metav1.StatusCause {
	value, set := annotations[contract.AnnotationReplica]
	before, had := old[contract.AnnotationReplica]
	if set == had && value == before {
		return nil
	}
	return invalid(field.NewPath("metadata", "annotations").Key(contract.AnnotationReplica),
		"annotation %s is the number that a replica set has given to an instance: only virtflow sets or changes it", contract.AnnotationReplica)
}
