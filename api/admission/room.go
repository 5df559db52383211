package admission

import (
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/defaults"
)

// expand fills in a VMI's spec as KubeVirt would, but for the room to grow that the rollout strategy LiveUpdate gives a VMI by itself: nothing
// plugs CPUs or memory into running guests yet, so none is promised. Room that a user asks for stays, and is refused by name.
func expand(vmi *kubevirtv1.VirtualMachineInstance, fill func(*kubevirtv1.VirtualMachineInstance) error) error {
	asked := vmi.Spec.DeepCopy()
	if err := fill(vmi); err != nil {
		return err
	}
	if c := vmi.Spec.Domain.CPU; c != nil && (asked.Domain.CPU == nil || asked.Domain.CPU.MaxSockets == 0) {
		c.MaxSockets = 0
	}
	if m := vmi.Spec.Domain.Memory; m != nil && (asked.Domain.Memory == nil || asked.Domain.Memory.MaxGuest == nil) {
		m.MaxGuest = nil
	}
	return nil
}

// expandSpec is expand for the spec alone.
func expandSpec(vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster) error {
	return expand(vmi, func(v *kubevirtv1.VirtualMachineInstance) error { return defaults.Spec(v, cluster) })
}
