package launcher

import (
	"fmt"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/domain"
)

// hostNetworks adds the host's devices that the kubelet has given to the pod for SR-IOV networks. A claim's driver says
// which one is for which network. A device plugin says which devices of its resource they are, and not for which
// network: several of one resource are given where nobody could tell them apart.
func hostNetworks(
	vmi *v1.VirtualMachineInstance, env func(string) string, claimed map[v1.ClaimRequest]domain.HostAddress,
	into map[string]domain.Interface,
) error {
	given := map[string][]string{}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		iface := &vmi.Spec.Domain.Devices.Interfaces[i]
		if iface.SRIOV == nil {
			continue
		}
		problem := func(format string, args ...any) error {
			return &domain.InvalidError{Field: fmt.Sprintf("spec.domain.devices.interfaces[%d].sriov", i),
				Problem: fmt.Sprintf(format, args...)}
		}
		network := networkOf(vmi, iface.Name)
		if network != nil && network.ResourceClaim != nil {
			address := claimed[*network.ResourceClaim].PCI
			if address == "" {
				return problem("the device of claim %s is none on the PCI bus", network.ResourceClaim.ClaimName)
			}
			into[iface.Name] = domain.Interface{PCI: address}
			continue
		}
		if network == nil || network.Multus == nil {
			return problem("network %q is neither one of Multus' nor a device of a claim", iface.Name)
		}
		resource := env(multus.ResourceVariable(iface.Name))
		if resource == "" {
			return problem("the NetworkAttachmentDefinition %s names no resource: it needs the annotation %s",
				network.Multus.NetworkName, multus.AnnotationResourceName)
		}
		if _, known := given[resource]; !known {
			given[resource] = strings.FieldsFunc(env(multus.DevicesVariable(resource)),
				func(r rune) bool { return r == ',' })
		}
		for j := range vmi.Spec.Domain.Devices.Interfaces {
			other := &vmi.Spec.Domain.Devices.Interfaces[j]
			if i != j && env(multus.ResourceVariable(other.Name)) == resource && !alike(vmi, iface, other) {
				return problem("interfaces %s and %s are of one resource, %s, and nobody says which device is whose: "+
					"give each its own", iface.Name, other.Name, resource)
			}
		}
		if len(given[resource]) == 0 {
			return problem("the pod has no device of %s left", resource)
		}
		into[iface.Name] = domain.Interface{PCI: given[resource][0]}
		given[resource] = given[resource][1:]
	}
	return nil
}

// alike says that neither the network nor the guest could tell the devices of two interfaces apart.
func alike(vmi *v1.VirtualMachineInstance, a, b *v1.Interface) bool {
	plain := func(f *v1.Interface) bool {
		return f.SRIOV != nil && f.MacAddress == "" && f.PciAddress == "" && f.BootOrder == nil && f.ACPIIndex == 0 &&
			f.Tag == ""
	}
	at, bt := networkOf(vmi, a.Name), networkOf(vmi, b.Name)
	return plain(a) && plain(b) && at != nil && bt != nil && at.Multus != nil && bt.Multus != nil &&
		at.Multus.NetworkName == bt.Multus.NetworkName
}
