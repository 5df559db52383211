package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

func TestAffinityLeavesNodesOutInEveryAlternative(t *testing.T) {
	vmi := example()
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpExists}
	without := func(keys ...string) (list []corev1.NodeSelectorRequirement) {
		for _, k := range keys {
			list = append(list, corev1.NodeSelectorRequirement{Key: k, Operator: corev1.NodeSelectorOpDoesNotExist})
		}
		return list
	}
	terms := func(vmi *kubevirt.VirtualMachineInstance) []corev1.NodeSelectorTerm {
		return affinity(vmi).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	vmi.Spec.Domain.CPU = &kubevirt.CPU{Model: "host-model", Features: []kubevirt.CPUFeature{{Name: "svm", Policy: "forbid"}}}
	both := without("cpu-feature.node.kubevirt.io/svm", "node-labeller.kubevirt.io/obsolete-host-model")
	require.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: both}}, terms(vmi))

	vmi.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {}},
	}}}
	require.Equal(t, []corev1.NodeSelectorTerm{
		{MatchExpressions: append([]corev1.NodeSelectorRequirement{zone}, both...)}, {},
	}, terms(vmi), "an empty term matches nothing")
	require.Len(t, vmi.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions, 1, "the VMI's own stays as it is")

	vmi.Spec.Affinity, vmi.Spec.Domain.CPU = nil, &kubevirt.CPU{Model: "host-passthrough"}
	require.Nil(t, affinity(vmi).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
}
