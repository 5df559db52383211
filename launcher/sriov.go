package launcher

import (
	"fmt"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/domain"
)

// hostNetworks adds the host devices that the kubelet has given to the pod for SR-IOV networks. For a ResourceClaim,
// the driver reports which device is for which network. A device plugin reports only which devices of a resource they
// are: several of one resource are assigned only where they are interchangeable.
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
				return problem("the device of ResourceClaim %s is not a PCI device", network.ResourceClaim.ClaimName)
			}
			into[iface.Name] = domain.Interface{PCI: address}
			continue
		}
		if network == nil || network.Multus == nil {
			return problem("network %q is neither a Multus network nor a device of a ResourceClaim", iface.Name)
		}
		resource := env(multus.ResourceVariable(iface.Name))
		if resource == "" {
			return problem("the NetworkAttachmentDefinition %s names no resource: add the annotation %s",
				network.Multus.NetworkName, multus.AnnotationResourceName)
		}
		if _, known := given[resource]; !known {
			given[resource] = strings.FieldsFunc(env(multus.DevicesVariable(resource)),
				func(r rune) bool { return r == ',' })
		}
		for j := range vmi.Spec.Domain.Devices.Interfaces {
			other := &vmi.Spec.Domain.Devices.Interfaces[j]
			if i != j && env(multus.ResourceVariable(other.Name)) == resource && !isAlike(vmi, iface, other) {
				return problem("interfaces %s and %s use one resource, %s, and its devices are indistinguishable: "+
					"use one resource for each", iface.Name, other.Name, resource)
			}
		}
		if len(given[resource]) == 0 {
			return problem("the pod has too few devices of resource %s", resource)
		}
		into[iface.Name] = domain.Interface{PCI: given[resource][0]}
		given[resource] = given[resource][1:]
	}
	return nil
}

// isAlike reports whether neither the network nor the guest could distinguish the devices of two interfaces.
func isAlike(vmi *v1.VirtualMachineInstance, a, b *v1.Interface) bool {
	plain := func(f *v1.Interface) bool {
		return f.SRIOV != nil && f.MacAddress == "" && f.PciAddress == "" && f.BootOrder == nil && f.ACPIIndex == 0 &&
			f.Tag == ""
	}
	at, bt := networkOf(vmi, a.Name), networkOf(vmi, b.Name)
	return plain(a) && plain(b) && at != nil && bt != nil && at.Multus != nil && bt.Multus != nil &&
		at.Multus.NetworkName == bt.Multus.NetworkName
}
