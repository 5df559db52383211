package launcher

import (
	"fmt"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/domain"
)

// hostNetworks adds the host's devices that the kubelet has given to the pod for SR-IOV networks. A device plugin says
// which devices of its resource they are, and not for which network: that is clear as long as the networks of one
// resource are the same.
func hostNetworks(
	vmi *v1.VirtualMachineInstance, env func(string) string, into map[string]domain.Interface,
) error {
	given := map[string][]string{}
	definition := map[string]string{}
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
		if network == nil || network.Multus == nil {
			return problem("network %q is not one of Multus'", iface.Name)
		}
		resource := env(multus.ResourceVariable(iface.Name))
		if resource == "" {
			return problem("the NetworkAttachmentDefinition %s names no resource: it needs the annotation %s",
				network.Multus.NetworkName, multus.AnnotationResourceName)
		}
		if _, known := given[resource]; !known {
			given[resource] = strings.FieldsFunc(env(multus.DevicesVariable(resource)),
				func(r rune) bool { return r == ',' })
			definition[resource] = network.Multus.NetworkName
		}
		switch {
		case definition[resource] != network.Multus.NetworkName:
			return problem("networks %s and %s are of one resource, %s, and nobody says which device is whose: give "+
				"each its own", definition[resource], network.Multus.NetworkName, resource)
		case len(given[resource]) == 0:
			return problem("the pod has no device of %s left", resource)
		}
		into[iface.Name] = domain.Interface{PCI: given[resource][0]}
		given[resource] = given[resource][1:]
	}
	return nil
}
