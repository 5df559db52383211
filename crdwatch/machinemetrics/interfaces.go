package machinemetrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"

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

// labelsOf returns the labels of a VM as labels of a metric. Of keys with the same name, the first counts.
func labelsOf(vm *kubevirt.VirtualMachine) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(vm.Labels)) {
		name := "label_" + labelName(key)
		if _, taken := out[name]; !taken {
			out[name] = vm.Labels[key]
		}
	}
	return out
}

// labelName returns a label's key as KubeVirt writes it in a metric.
func labelName(key string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, key)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
