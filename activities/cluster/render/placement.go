package render

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
)

// nodeSelector: nodes of the guest's architecture, whose libvirt and QEMU offer the guest's machine type, CPU model and
// features. What the administrator and the user ask for comes on top.
//
// Whether a node takes VMs is not asked here: a kubelet that starts again fails every pod whose node selector its node
// does not meet any more, running or not. A node without a node worker has none of the devices that every launcher asks
// for, and one that is cordoned, lost or out of service is the scheduler's own business.
func nodeSelector(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) map[string]string {
	n := map[string]string{}
	maps.Copy(n, s.NodeSelectors)
	maps.Copy(n, vmi.Spec.NodeSelector)
	delete(n, contract.LabelSchedulable)
	n[corev1.LabelArchStable] = instance.Architecture(&vmi.Spec)
	if machine := machineType(vmi); machine != "" {
		n[kubevirt.SupportedMachineTypeLabel+machine] = "true"
	}
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil {
		return n
	}
	if cpu.DedicatedCPUPlacement {
		n[contract.LabelCPUManager] = "true"
	}
	if !hasHostCPU(cpu) {
		n[kubevirt.CPUModelLabel+cpu.Model] = "true"
	}
	for _, f := range cpu.Features {
		if f.Policy == "" || f.Policy == "require" {
			n[kubevirt.CPUFeatureLabel+f.Name] = "true"
		}
	}
	return n
}

// machineType returns the one that the guest has, or gets.
func machineType(vmi *kubevirt.VirtualMachineInstance) string {
	if m := vmi.Status.Machine; m != nil && m.Type != "" {
		return m.Type
	}
	if m := vmi.Spec.Domain.Machine; m != nil {
		return m.Type
	}
	return ""
}

// hasHostCPU reports whether the guest takes what the host has.
func hasHostCPU(cpu *kubevirt.CPU) bool {
	return cpu == nil || cpu.Model == "" || cpu.Model == kubevirt.CPUModeHostModel ||
		cpu.Model == kubevirt.CPUModeHostPassthrough
}

// affinity returns the VMI's own affinity, with the nodes left out that have a forbidden CPU feature, or whose own CPU
// model no guest should get, and a preference for nodes that take VMs: kubelets take no notice of preferences.
func affinity(vmi *kubevirt.VirtualMachineInstance) *corev1.Affinity {
	var without []corev1.NodeSelectorRequirement
	avoid := func(label string) {
		without = append(without,
			corev1.NodeSelectorRequirement{Key: label, Operator: corev1.NodeSelectorOpDoesNotExist})
	}
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil || cpu.Model == "" || cpu.Model == kubevirt.CPUModeHostModel {
		avoid(kubevirt.NodeHostModelIsObsoleteLabel)
	}
	if cpu != nil {
		for _, f := range cpu.Features {
			if f.Policy == "forbid" {
				avoid(kubevirt.CPUFeatureLabel + f.Name)
			}
		}
	}
	out := vmi.Spec.Affinity.DeepCopy()
	if out == nil {
		out = &corev1.Affinity{}
	}
	if out.NodeAffinity == nil {
		out.NodeAffinity = &corev1.NodeAffinity{}
	}
	list := &out.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*list = append(*list, corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: contract.LabelSchedulable, Operator: corev1.NodeSelectorOpIn, Values: []string{"true"}}},
	}})
	if len(without) == 0 {
		return out
	}
	required := out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{}
		out.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: without}}
		return out
	}
	// The terms are alternatives: each of them has to leave these nodes out. An empty one matches no node, and must not
	// begin to.
	for i := range required.NodeSelectorTerms {
		if t := &required.NodeSelectorTerms[i]; len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			t.MatchExpressions = append(t.MatchExpressions, without...)
		}
	}
	return out
}
