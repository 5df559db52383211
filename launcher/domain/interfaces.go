package domain

import (
	"fmt"
	"regexp"
	"strconv"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

func buildInterfaces(in Input) ([]libvirtxml.DomainInterface, error) {
	spec := &in.VMI.Spec.Domain
	out := make([]libvirtxml.DomainInterface, 0, len(spec.Devices.Interfaces))
	for i := range spec.Devices.Interfaces {
		iface := &spec.Devices.Interfaces[i]
		field := fmt.Sprintf("spec.domain.devices.interfaces[%d]", i)
		if iface.State == v1.InterfaceStateAbsent || iface.SRIOV != nil {
			continue
		}
		device, ok := in.Interfaces[iface.Name]
		if !ok || device.Tap == "" {
			return nil, invalid(field, "no network device was prepared for network %q", iface.Name)
		}
		built, err := buildInterface(in, iface, device)
		if err != nil {
			return nil, invalid(field+".pciAddress", "%s", err)
		}
		out = append(out, built)
	}
	return out, nil
}

// SRIOVAlias begins the aliases of the host's network devices; the interface's name follows.
const SRIOVAlias = "ua-sriov-"

// hostNetworks returns the host's network devices, which the guest gets whole. Multus' plugin or the driver of the
// ResourceClaim sets their MACs before.
func hostNetworks(in Input) ([]libvirtxml.DomainHostdev, error) {
	var out []libvirtxml.DomainHostdev
	for i := range in.VMI.Spec.Domain.Devices.Interfaces {
		iface := &in.VMI.Spec.Domain.Devices.Interfaces[i]
		if iface.SRIOV == nil {
			continue
		}
		field := fmt.Sprintf("spec.domain.devices.interfaces[%d]", i)
		at, err := pciAddress(in.Interfaces[iface.Name].PCI)
		if err != nil {
			return nil, invalid(field, "host device for network %q: %s", iface.Name, err)
		}
		d := libvirtxml.DomainHostdev{
			Managed: "no",
			SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
				Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: at.PCI}},
			Alias: &libvirtxml.DomainAlias{Name: SRIOVAlias + iface.Name},
		}
		if iface.PciAddress != "" {
			if d.Address, err = pciAddress(iface.PciAddress); err != nil {
				return nil, invalid(field+".pciAddress", "%s", err)
			}
		}
		if iface.BootOrder != nil {
			d.Boot = &libvirtxml.DomainDeviceBoot{Order: *iface.BootOrder}
		}
		out = append(out, d)
	}
	return out, nil
}

// maxQueues is the kernel's limit for a tap device.
const maxQueues = 256

// Queues returns the number of queues of a virtio interface: one, or one for each CPU of the guest with
// networkInterfaceMultiqueue.
func Queues(vmi *v1.VirtualMachineInstance, iface *v1.Interface) uint {
	if !isTrue(vmi.Spec.Domain.Devices.NetworkInterfaceMultiQueue) || !isVirtio(iface) {
		return 1
	}
	t := Topology(vmi)
	return uint(max(1, min(maxQueues, t.Sockets*t.Cores*t.Threads)))
}

func isVirtio(iface *v1.Interface) bool { return iface.Model == "" || iface.Model == busVirtio }

// buildInterface builds one interface. It fails if its PCI address is malformed.
func buildInterface(in Input, iface *v1.Interface, device Interface) (libvirtxml.DomainInterface, error) {
	d := libvirtxml.DomainInterface{
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: MAC(in.VMI, iface, device.MAC)},
		Source: &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}},
		// managed=no: the node worker, which is privileged, has made the tap. QEMU only opens it.
		Target: &libvirtxml.DomainInterfaceTarget{Dev: device.Tap, Managed: "no"},
		Model:  &libvirtxml.DomainInterfaceModel{Type: iface.Model},
		Alias:  userAlias(iface.Name),
	}
	if isVirtio(iface) {
		d.Model.Type = virtioModel(&in.VMI.Spec.Domain)
		if isTrue(in.VMI.Spec.Domain.Devices.NetworkInterfaceMultiQueue) {
			// No driver name is set: libvirt then uses vhost-net where the node has it, and QEMU's own backend
			// elsewhere. A fixed name would migrate with the guest to nodes without vhost-net.
			d.Driver = &libvirtxml.DomainInterfaceDriver{Queues: Queues(in.VMI, iface)}
		}
	}
	if iface.PciAddress != "" {
		address, err := pciAddress(iface.PciAddress)
		if err != nil {
			return d, err
		}
		d.Address = address
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
		// Without a boot order the guest does not boot from the network: the option ROM would only cost memory and
		// time.
		d.ROM = &libvirtxml.DomainROM{Enabled: "no"}
	}
	return d, nil
}

// pciAddress parses an address such as 0000:81:01.0; the bits of each part are PCI's.
func pciAddress(text string) (*libvirtxml.DomainAddress, error) {
	parts := pciParts.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("%.32q is not a PCI address", text)
	}
	var numbers [4]*uint
	for i, bits := range []int{16, 8, 5, 3} {
		n, err := strconv.ParseUint(parts[i+1], 16, bits)
		if err != nil {
			return nil, fmt.Errorf("%.32q is not a PCI address", text)
		}
		numbers[i] = ptr(uint(n))
	}
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{
		Domain: numbers[0], Bus: numbers[1], Slot: numbers[2], Function: numbers[3]}}, nil
}

var pciParts = regexp.MustCompile(`^([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])$`)
