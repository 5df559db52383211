package launcher

import (
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// forPodNetwork gives the interface that was prepared for "the pod's network" the name which this VMI has for that. The
// node's worker does not know the VMI, so it names none. A guest without an interface there has no use for it.
func forPodNetwork(vmi *v1.VirtualMachineInstance, prepared []*rpc.PodInterface) []*rpc.PodInterface {
	var out []*rpc.PodInterface
	for _, p := range prepared {
		if p.GetNetwork() == "" {
			if p.Network = podNetwork(vmi); p.Network == "" {
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// podNetwork is the name of the VMI's network that is the pod's, where an interface of the guest belongs to it, or "".
func podNetwork(vmi *v1.VirtualMachineInstance) string {
	for i := range vmi.Spec.Networks {
		if vmi.Spec.Networks[i].Pod == nil {
			continue
		}
		for j := range vmi.Spec.Domain.Devices.Interfaces {
			iface := &vmi.Spec.Domain.Devices.Interfaces[j]
			if iface.Name == vmi.Spec.Networks[i].Name && iface.State != v1.InterfaceStateAbsent {
				return iface.Name
			}
		}
	}
	return ""
}
