package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/defaults"
	"github.com/virtflow/virtflow/workflows/contract"
)

// ReplicaSet applies the rules for a VirtualMachineInstanceReplicaSet whose template's spec has been filled in (expanded), as its VMIs' would
// be. Every field may change later: KubeVirt makes none immutable.
func ReplicaSet(set *kubevirtv1.VirtualMachineInstanceReplicaSet, expanded *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster) []metav1.StatusCause {
	spec := field.NewPath("spec")
	if set.Spec.Template == nil {
		return required(spec.Child("template"), "missing virtual machine template.")
	}
	path := spec.Child("template", "spec")
	causes := Spec(path, expanded, cluster)
	causes = append(causes, volumesUsed(subject{spec: expanded, path: path, cluster: cluster})...)
	reserved := spec.Child("template", "metadata", "labels").String()
	causes = append(causes, reservedLabels(set.Spec.Template.ObjectMeta.Labels, nil, reserved, reservedOnCreate)...)
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	switch {
	case err != nil:
		causes = append(causes, invalid(spec.Child("selector"), "%s", err.Error())...)
	case !selector.Matches(labels.Set(set.Spec.Template.ObjectMeta.Labels)):
		causes = append(causes, invalid(spec.Child("selector"), "selector does not match labels.")...)
	case selector.Empty():
		// KubeVirt takes it and then does nothing for it, since the template has no labels, or everything in the namespace would match.
		causes = append(causes, invalid(spec.Child("selector"), "selector must not be empty")...)
	}
	if r := set.Spec.Replicas; r != nil && *r < 0 {
		causes = append(causes, invalid(spec.Child("replicas"), "%s '%d' must be greater than or equal to 0.", spec.Child("replicas"), *r)...)
	} else if r != nil && *r > contract.MaxReplicas {
		causes = append(causes, invalid(spec.Child("replicas"), "%s '%d': a replica set can have %d replicas at most; make several sets for more.",
			spec.Child("replicas"), *r, contract.MaxReplicas)...)
	}
	return causes
}
