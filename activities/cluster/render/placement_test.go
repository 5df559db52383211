package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
)

func TestNodeSelectorAsksForWhatTheGuestNeeds(t *testing.T) {
	vmi := example()
	vmi.Spec.Domain.Machine = &kubevirt.Machine{Type: "q35"}
	vmi.Spec.Domain.CPU = &kubevirt.CPU{Model: "Nehalem", Features: []kubevirt.CPUFeature{
		{Name: "aes"}, {Name: "avx", Policy: "require"}, {Name: "pcid", Policy: "optional"},
		{Name: "svm", Policy: "forbid"},
	}}
	base := map[string]string{"kubernetes.io/arch": "amd64"}
	want := map[string]string{
		"machine-type.node.kubevirt.io/q35": "true", "cpu-model.node.kubevirt.io/Nehalem": "true",
		"cpu-feature.node.kubevirt.io/aes": "true", "cpu-feature.node.kubevirt.io/avx": "true",
	}
	for k, v := range base {
		want[k] = v
	}
	require.Equal(t, want, nodeSelector(vmi, settings.Default()))
	for _, model := range []string{"", "host-model", "host-passthrough"} {
		vmi.Spec.Domain.CPU, vmi.Spec.Domain.Machine = &kubevirt.CPU{Model: model}, nil
		require.Equal(t, base, nodeSelector(vmi, settings.Default()))
	}
	vmi.Spec.Domain.Machine, vmi.Status.Machine = &kubevirt.Machine{Type: "q35"}, &kubevirt.Machine{Type: "pc-q35-7.2"}
	require.Equal(t, "true", nodeSelector(vmi, settings.Default())["machine-type.node.kubevirt.io/pc-q35-7.2"])
}

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
	vmi.Spec.Domain.CPU = &kubevirt.CPU{Model: "host-model",
		Features: []kubevirt.CPUFeature{{Name: "svm", Policy: "forbid"}}}
	both := without("node-labeller.kubevirt.io/obsolete-host-model", "cpu-feature.node.kubevirt.io/svm")
	require.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: both}}, terms(vmi))

	required := &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}, {}},
	}
	vmi.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required},
	}
	require.Equal(t, []corev1.NodeSelectorTerm{
		{MatchExpressions: append([]corev1.NodeSelectorRequirement{zone}, both...)}, {},
	}, terms(vmi), "an empty term matches nothing")
	require.Len(t, required.NodeSelectorTerms[0].MatchExpressions, 1, "the VMI's own stays as it is")

	vmi.Spec.Affinity, vmi.Spec.Domain.CPU = nil, &kubevirt.CPU{Model: "host-passthrough"}
	require.Nil(t, affinity(vmi).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
}
