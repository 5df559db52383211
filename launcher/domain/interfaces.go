package domain

import (
	"fmt"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

func buildInterfaces(in Input) ([]libvirtxml.DomainInterface, error) {
	spec := &in.VMI.Spec.Domain
	out := make([]libvirtxml.DomainInterface, 0, len(spec.Devices.Interfaces))
	for i := range spec.Devices.Interfaces {
		iface := &spec.Devices.Interfaces[i]
		field := fmt.Sprintf("spec.domain.devices.interfaces[%d]", i)
		if iface.State == v1.InterfaceStateAbsent {
			continue
		}
		if iface.PciAddress != "" {
			return nil, invalid(field+".pciAddress", "is not supported yet")
		}
		device, ok := in.Interfaces[iface.Name]
		if !ok || device.Tap == "" {
			return nil, invalid(field, "no network device was prepared for network %q", iface.Name)
		}
		out = append(out, buildInterface(in, iface, device))
	}
	return out, nil
}

func buildInterface(in Input, iface *v1.Interface, device Interface) libvirtxml.DomainInterface {
	d := libvirtxml.DomainInterface{
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: MAC(in.VMI, iface)},
		Source: &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}},
		// managed=no: the tap is there already, made by somebody who may; QEMU only opens it.
		Target: &libvirtxml.DomainInterfaceTarget{Dev: device.Tap, Managed: "no"},
		Model:  &libvirtxml.DomainInterfaceModel{Type: iface.Model},
		Alias:  &libvirtxml.DomainAlias{Name: "ua-" + iface.Name},
	}
	if iface.Model == "" || iface.Model == busVirtio {
		d.Model.Type = virtioModel(&in.VMI.Spec.Domain)
	}
	if device.MTU > 0 {
		d.MTU = &libvirtxml.DomainInterfaceMTU{Size: uint(device.MTU)}
	}
	if iface.State == v1.InterfaceStateLinkDown {
		d.Link = &libvirtxml.DomainInterfaceLink{State: "down"}
	}
	if iface.ACPIIndex > 0 {
		d.ACPI = &libvirtxml.DomainDeviceACPI{Index: uint(iface.ACPIIndex)}
	}
	if iface.BootOrder != nil {
		d.Boot = &libvirtxml.DomainDeviceBoot{Order: *iface.BootOrder}
	} else {
		// Without a boot order nobody boots from the network: the option ROM would only cost memory and time.
		d.ROM = &libvirtxml.DomainROM{Enabled: "no"}
	}
	return d
}
