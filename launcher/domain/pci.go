package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// PCIe root ports that are kept free for devices that are plugged in, as KubeVirt has them: as many as make up a total
// with those in use, and never less than a minimum; a guest with much memory gets more of both.
const (
	portsTotal, portsFree           = 8, 3
	portsTotalLarge, portsFreeLarge = 16, 6
	largeMemory                     = 2 << 30
)

// arrangePCI makes room for devices that are plugged in, or puts all devices where nothing can be plugged in: on the
// root complex.
func arrangePCI(d *libvirtxml.Domain, vmi *v1.VirtualMachineInstance) error {
	if vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" {
		return onRootComplex(d.Devices)
	}
	// libvirt puts each device into the first free port, in the order of their kinds: the ports that stay free are the
	// last, and nothing that is there gets another address because of them.
	ports := portsInUse(d.Devices) + freePorts(d)
	for i := range ports { // 0 is the root complex
		d.Devices.Controllers = append(d.Devices.Controllers,
			libvirtxml.DomainController{Type: "pci", Index: ptr(count(i + 1)), Model: "pcie-root-port"})
	}
	return nil
}

// freePorts counts as KubeVirt does: the USB controller counts also where there is none.
func freePorts(d *libvirtxml.Domain) int {
	list := d.Devices
	used := len(list.Interfaces) + len(list.Hostdevs) + len(list.RNGs)
	for i := range list.Disks {
		if list.Disks[i].Target.Bus == busVirtio {
			used++
		}
	}
	for _, c := range list.Controllers {
		if c.Type != "pci" {
			used++
		}
	}
	if list.MemBalloon.Model != "none" {
		used++
	}
	if d.Memory.Value > largeMemory {
		return max(portsTotalLarge-used, portsFreeLarge)
	}
	return max(portsTotal-used, portsFree)
}

// portsInUse are those that libvirt's devices take. All conventional PCI devices are behind one bridge.
func portsInUse(list *libvirtxml.DomainDeviceList) int {
	used, bridge := 0, 0
	for _, at := range pciDevices(list) {
		switch at.kind {
		case express:
			used++
		case conventional:
			bridge = 1
		case integrated: // on the root complex anyway
		}
	}
	return used + bridge
}

// pciKind says where libvirt puts a device.
type pciKind int

const (
	express      pciKind = iota // behind a port of its own
	conventional                // behind a bridge
	integrated                  // on the root complex
)

// kindOf says what a device is by its model. Transitional ones also have what only conventional PCI has: I/O ports.
func kindOf(model string) pciKind {
	switch model {
	case modelTransitional, "e1000", "ne2k_pci", "pcnet", "rtl8139", "ac97":
		return conventional
	default:
		return express
	}
}

// pciDevice is the place of a device on PCI.
type pciDevice struct {
	address **libvirtxml.DomainAddress
	kind    pciKind
}

// pciDevices are those that have no place by themselves: the first display, the SATA controller and the sound of the
// machine's own chip set do.
func pciDevices(list *libvirtxml.DomainDeviceList) []pciDevice {
	var out []pciDevice
	add := func(address **libvirtxml.DomainAddress, kind pciKind) {
		out = append(out, pciDevice{address, kind})
	}
	for i := range list.Interfaces {
		add(&list.Interfaces[i].Address, kindOf(list.Interfaces[i].Model.Type))
	}
	for i := range list.Hostdevs {
		if list.Hostdevs[i].SubsysUSB == nil {
			add(&list.Hostdevs[i].Address, express)
		}
	}
	for i := range list.Filesystems {
		add(&list.Filesystems[i].Address, express)
	}
	for i := range list.Controllers {
		switch c := &list.Controllers[i]; {
		case c.Type == "scsi", c.Type == "virtio-serial", c.Type == "usb" && c.Model != "none":
			add(&c.Address, kindOf(c.Model))
		}
	}
	for i := range list.Disks {
		if list.Disks[i].Target.Bus == busVirtio {
			add(&list.Disks[i].Address, kindOf(list.Disks[i].Model))
		}
	}
	for i := range list.Inputs {
		if list.Inputs[i].Bus == busVirtio {
			add(&list.Inputs[i].Address, kindOf(list.Inputs[i].Model))
		}
	}
	for i := range list.Watchdogs {
		add(&list.Watchdogs[i].Address, integrated)
	}
	for i := range list.Sounds {
		if kind := kindOf(list.Sounds[i].Model); kind == conventional {
			add(&list.Sounds[i].Address, kind)
		}
	}
	for i := range list.RNGs {
		add(&list.RNGs[i].Address, kindOf(list.RNGs[i].Model))
	}
	if list.MemBalloon.Model != "none" {
		add(&list.MemBalloon.Address, kindOf(list.MemBalloon.Model))
	}
	return out
}

// The slots of the root complex that q35 leaves for others.
const firstSlot, lastSlot = 0x02, 0x1a

func onRootComplex(list *libvirtxml.DomainDeviceList) error {
	slot := uint(firstSlot)
	for _, at := range pciDevices(list) {
		if *at.address != nil && (*at.address).PCI != nil {
			continue
		}
		if slot > lastSlot {
			return invalid("metadata.annotations["+v1.PlacePCIDevicesOnRootComplex+"]",
				"the root complex has room for %d devices", lastSlot-firstSlot+1)
		}
		*at.address = &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{
			Domain: ptr(uint(0)), Bus: ptr(uint(0)), Slot: ptr(slot), Function: ptr(uint(0)),
		}}
		slot++
	}
	return nil
}
