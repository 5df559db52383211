package validation

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

const (
	reservedOnCreate = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
	reservedOnUpdate = "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited"

	annotationHooks = "hooks.kubevirt.io/hookSidecars"
)

// VMI applies KubeVirt's rules for a VirtualMachineInstance that is being created. Own means that virtflow itself
// creates it.
func VMI(vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster, own bool) []metav1.StatusCause {
	s := subject{spec: &vmi.Spec, path: specPath(), cluster: cluster}
	// KubeVirt reports networks first, and then again among the rest.
	causes := append(Discontinued(&vmi.Spec), networks(s)...)
	causes = append(causes, s.apply(specRules())...)
	causes = append(causes, s.apply(instanceRules())...)
	causes = append(causes, metadata(field.NewPath("metadata"), &vmi.ObjectMeta, cluster, own)...)
	causes = append(causes, hyperv(s)...)
	return append(causes, architectureRules(s)...)
}

// OwnVMI applies the rules that are not KubeVirt's for a VMI that is being created.
func OwnVMI(vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster, own bool) []metav1.StatusCause {
	causes := subject{spec: &vmi.Spec, path: specPath(), cluster: cluster}.apply(ownRules())
	if own {
		return causes
	}
	return append(causes, reservedAnnotation(vmi.Annotations, nil)...)
}

// VMIUpdate applies the rules for changing a VMI: only virtflow itself changes the spec, and only in ways that a
// running guest can follow.
func VMIUpdate(old, vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster, own bool) []metav1.StatusCause {
	changed := !equality.Semantic.DeepEqual(old.Spec, vmi.Spec)
	switch {
	case own && changed:
		return plugged(old, vmi, cluster)
	case own:
		return nil
	case changed:
		return unsupported(nowhere{}, "update of VMI object is restricted")
	}
	if causes := reservedLabels(vmi.Labels, old.Labels, nowhere{}, reservedOnUpdate); len(causes) > 0 {
		return causes
	}
	return reservedAnnotation(vmi.Annotations, old.Annotations)
}

// maxFinalizers is the most finalizers of a new instance: virtflow adds its own, and the policy virtflow-finalizers
// permits an object 32 at most.
const maxFinalizers = 30

// metadata of an instance, or of the template of one.
func metadata(p *field.Path, m *metav1.ObjectMeta, cluster defaults.Cluster, own bool) []metav1.StatusCause {
	var causes []metav1.StatusCause
	if !own {
		causes = reservedLabels(m.Labels, nil, p.Child("labels"), reservedOnCreate)
	}
	annotations := p.Child("annotations")
	if m.Annotations[kubevirtv1.IgnitionAnnotation] != "" && !cluster.Enabled(defaults.GateIgnition) {
		causes = append(causes, invalid(annotations,
			"ExperimentalIgnitionSupport feature gate is not enabled in kubevirt-config, invalid entry %s",
			annotations.Child(kubevirtv1.IgnitionAnnotation))...)
	}
	if len(m.Finalizers) > maxFinalizers {
		causes = append(causes, invalid(p.Child("finalizers"), "there are %d, and can be %d at most", len(m.Finalizers),
			maxFinalizers)...)
	}
	if m.Annotations[annotationHooks] != "" && !cluster.Enabled(defaults.GateSidecar) {
		causes = append(causes, invalid(annotations,
			"sidecar feature gate is not enabled in kubevirt-config, invalid entry %s",
			annotations.Child(annotationHooks))...)
	}
	return causes
}

// reservedLabels may be set by virtflow alone, because its decisions depend on them.
func reservedLabels(
	labels, old map[string]string, at interface{ String() string }, message string,
) []metav1.StatusCause {
	for _, name := range []string{
		kubevirtv1.CreatedByLabel, kubevirtv1.MigrationJobLabel, kubevirtv1.NodeNameLabel,
		kubevirtv1.MigrationTargetNodeNameLabel, kubevirtv1.NodeSchedulable, kubevirtv1.InstallStrategyLabel,
	} {
		value, set := labels[name]
		before, had := old[name]
		if set != had || value != before {
			return unsupported(at, "%s", message)
		}
	}
	return nil
}

// reservedAnnotation may be set by virtflow alone: a replica set depends on it.
func reservedAnnotation(annotations, old map[string]string) []metav1.StatusCause {
	value, set := annotations[contract.AnnotationReplica]
	before, had := old[contract.AnnotationReplica]
	if set == had && value == before {
		return nil
	}
	return invalid(field.NewPath("metadata", "annotations").Key(contract.AnnotationReplica),
		"annotation %s is the number that a replica set has given to an instance: only virtflow sets or changes it",
		contract.AnnotationReplica)
}

// FromNode limits a node to the instances that are on it, or are moving to it. Node is the name of the node.
func FromNode(node string, old, vmi *kubevirtv1.VirtualMachineInstance) []metav1.StatusCause {
	to := ""
	if m := old.Status.MigrationState; m != nil {
		to = m.TargetNode
	}
	after := vmi.Status.MigrationState
	switch {
	case node == "":
		return invalid(nowhere{}, "Node restriction failed, virt-handler service account is missing node name")
	case node != old.Status.NodeName && (to == "" || node != to):
		return invalid(nowhere{}, "Node restriction, virt-handler is only allowed to modify VMIs it owns")
	case to == "" && after != nil && after.TargetNode != "":
		return invalid(nowhere{}, "Node restriction, virt-handler is not allowed to set target node")
	default:
		return nil
	}
}
