package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

// ReplicaSet applies KubeVirt's rules for a VirtualMachineInstanceReplicaSet; its template's spec is checked without
// defaults. Every field may change later: KubeVirt makes none immutable.
func ReplicaSet(set *kubevirtv1.VirtualMachineInstanceReplicaSet, cluster defaults.Cluster) []metav1.StatusCause {
	spec := specPath()
	if set.Spec.Template == nil {
		return required(spec.Child("template"), "missing virtual machine template.")
	}
	causes := Spec(TemplatePath(), &set.Spec.Template.Spec, cluster)
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	switch {
	case err != nil:
		causes = append(causes, invalid(spec.Child("selector"), "%s", olderWords(err.Error()))...)
	case !selector.Matches(labels.Set(set.Spec.Template.ObjectMeta.Labels)):
		causes = append(causes, invalid(spec.Child("selector"), "selector does not match labels.")...)
	}
	return causes
}

// OwnReplicaSet applies the rules that are not KubeVirt's. KubeVirt applies some of them when it makes the instances;
// the template's spec has been filled in (expanded) as theirs would be.
func OwnReplicaSet(
	set *kubevirtv1.VirtualMachineInstanceReplicaSet, expanded *kubevirtv1.VirtualMachineInstanceSpec,
	cluster defaults.Cluster,
) []metav1.StatusCause {
	spec := specPath()
	s := subject{spec: expanded, path: TemplatePath(), cluster: cluster}
	causes := s.apply(specRules())
	causes = append(causes, s.apply(instanceRules())...)
	causes = append(causes, s.apply(ownRules())...)
	causes = append(causes, metadata(spec.Child("template", "metadata"), &set.Spec.Template.ObjectMeta, cluster,
		false)...)
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	switch {
	case err != nil: // which KubeVirt's rules say
	case selector.Empty():
		// KubeVirt accepts it and then does nothing, since the template has no labels, or everything in the namespace
		// would match.
		causes = append(causes, invalid(spec.Child("selector"), "selector must not be empty")...)
	case len(selector.String()) > contract.MaxSelector:
		causes = append(causes, invalid(spec.Child("selector"), "selector has %d bytes, and can have %d at most",
			len(selector.String()), contract.MaxSelector)...)
	}
	if r := set.Spec.Replicas; r != nil && *r < 0 {
		causes = append(causes, invalid(spec.Child("replicas"), "%s '%d' must be greater than or equal to 0.",
			spec.Child("replicas"), *r)...)
	} else if r != nil && *r > contract.MaxReplicas {
		causes = append(causes, invalid(spec.Child("replicas"),
			"%s '%d': a replica set can have %d replicas at most; make several sets for more.",
			spec.Child("replicas"), *r, contract.MaxReplicas)...)
	}
	return causes
}
