package machinemetrics

import (
	"cmp"

	kubevirt "kubevirt.io/api/core/v1"
)

// vnic is one series of kubevirt_vm_vnic_info or kubevirt_vmi_vnic_info.
type vnic struct{ name, bindingType, network, binding, model string }

func (v vnic) labels() []string {
	return []string{v.name, v.bindingType, v.network, v.binding, v.model}
}

// podNetwork is KubeVirt's value of the label network.
const podNetwork = "pod networking"

// vnics returns the interfaces that have a network.
func vnics(spec *kubevirt.VirtualMachineInstanceSpec) []vnic {
	networks := map[string]string{}
	for n := range spec.Networks {
		switch o := &spec.Networks[n]; {
		case o.Pod != nil:
			networks[o.Name] = podNetwork
		case o.Multus != nil:
			networks[o.Name] = o.Multus.NetworkName
		}
	}
	var out []vnic
	for n := range spec.Domain.Devices.Interfaces {
		i := &spec.Domain.Devices.Interfaces[n]
		network, ok := networks[i.Name]
		if !ok {
			continue
		}
		v := vnic{name: i.Name, network: network, model: cmp.Or(i.Model, "<none>"), bindingType: "core"}
		switch {
		case i.Masquerade != nil:
			v.binding = "masquerade"
		case i.Bridge != nil:
			v.binding = "bridge"
		case i.SRIOV != nil:
			v.binding = "sriov"
		case i.Binding != nil:
			v.bindingType, v.binding = "plugin", i.Binding.Name
		default:
			v.bindingType = ""
		}
		out = append(out, v)
	}
	return out
}

// address is one series of kubevirt_vmi_status_addresses.
type address struct{ vnic, device, address, kind string }

// addresses returns the interfaces of a status that have an address or a name.
func addresses(interfaces []kubevirt.VirtualMachineInstanceNetworkInterface) []address {
	var out []address
	for n := range interfaces {
		i := &interfaces[n]
		a := address{vnic: i.Name, device: i.InterfaceName, address: i.IP, kind: "ExternalInterface"}
		if i.IP == "" {
			if i.Name == "" && i.InterfaceName == "" {
				continue
			}
			a.kind = "SystemInterface"
		}
		out = append(out, a)
	}
	return out
}

// metricLabel returns KubeVirt's name for a label of a VM.
func metricLabel(key string) string {
	if key == "" || key[0] >= '0' && key[0] <= '9' {
		key = "_" + key
	}
	return "label_" + key
}
