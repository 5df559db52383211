package domain

import (
	"maps"
	"slices"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// PCIe root ports that stay free for hot-plugged devices, as in KubeVirt: enough for a total that includes those in
// use, and never less than a minimum. A guest with much memory gets more of both.
const (
	portsTotal, portsFree           = 8, 3
	portsTotalLarge, portsFreeLarge = 16, 6
	largeMemory                     = 2 << 30
)

// arrangePCI adds free ports for hot-plugged devices, or puts all devices on the root complex, where nothing can be
// plugged in.
func arrangePCI(d *libvirtxml.Domain, vmi *v1.VirtualMachineInstance) error {
	if vmi.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" {
		return onRootComplex(d.Devices)
	}
	// libvirt puts each device into the first free port, in the order of their kinds. So the last ports stay free, and
	// no device gets another address because of them.
	bridges := bridgesAsked(d.Devices)
	if bridges[1] {
		return invalid("spec.domain.devices", "a conventional PCI device has an address on bus 1, which must be a port: the "+
			"bridge of such a device is behind it")
	}
	highest := slices.Max(slices.AppendSeq([]uint{0}, maps.Keys(bridges)))
	buses := max(portsInUse(d.Devices, len(bridges))+freePorts(d)+len(bridges), int(highest)) // highest is a byte
	for i := range buses {                                                                    // 0 is the root complex
		index, model := count(i+1), "pcie-root-port"
		if bridges[index] {
			model = "pcie-to-pci-bridge"
		}
		d.Devices.Controllers = append(d.Devices.Controllers,
			libvirtxml.DomainController{Type: "pci", Index: &index, Model: model})
	}
	return nil
}

// bridgesAsked returns the buses that must be bridges, because a conventional PCI device has an address there.
func bridgesAsked(list *libvirtxml.DomainDeviceList) map[uint]bool {
	buses := map[uint]bool{}
	for _, at := range pciDevices(list) {
		if at.kind != conventional || *at.address == nil {
			continue
		}
		if pci := (*at.address).PCI; pci != nil && pci.Bus != nil && *pci.Bus > 0 {
			buses[*pci.Bus] = true
		}
	}
	return buses
}

// freePorts counts as KubeVirt does, which counts the USB controller even where there is none.
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

// portsInUse counts the ports that libvirt's devices occupy. Each bridge is behind one: the bridges that are asked for,
// or the one of all conventional PCI devices.
func portsInUse(list *libvirtxml.DomainDeviceList, bridges int) int {
	used, bridge := 0, 0
	for _, at := range pciDevices(list) {
		switch at.kind {
		case express:
			used++
		case conventional:
			bridge = 1
		case integrated, none: // always on the root complex
		}
	}
	return used + max(bridge, bridges)
}

// pciKind distinguishes where libvirt puts a device.
type pciKind int

const (
	express      pciKind = iota // behind a port of its own
	conventional                // behind a bridge
	integrated                  // on the root complex
	none                        // the device does not exist
)

// kindOf returns the kind of a device by its model. Transitional models also have I/O ports, which only conventional
// PCI has.
func kindOf(model string) pciKind {
	switch model {
	case modelTransitional, "e1000", "ne2k_pci", "pcnet", "rtl8139", "ac97":
		return conventional
	default:
		return express
	}
}

// pciDevice is a device with its address on PCI.
type pciDevice struct {
	address **libvirtxml.DomainAddress
	kind    pciKind
}

// pciDevices returns the devices without an address of their own, in KubeVirt's order: the first display, the SATA
// controller and the chip set's sound have fixed ones. Those that KubeVirt leaves to libvirt come last.
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
	for i := range list.Controllers {
		switch c := &list.Controllers[i]; {
		case c.Type == "usb" && c.Model == "none":
			add(nil, none)
		case c.Type == "scsi", c.Type == "virtio-serial", c.Type == "usb":
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
	for i := range list.RNGs {
		add(&list.RNGs[i].Address, kindOf(list.RNGs[i].Model))
	}
	if list.MemBalloon.Model != "none" {
		add(&list.MemBalloon.Address, kindOf(list.MemBalloon.Model))
	}
	for i := range list.Filesystems {
		add(&list.Filesystems[i].Address, express)
	}
	for i := range list.Sounds {
		if kind := kindOf(list.Sounds[i].Model); kind == conventional {
			add(&list.Sounds[i].Address, kind)
		}
	}
	return out
}

// rootSlots returns the free slots of the root complex, in KubeVirt's order, so that a guest that comes from KubeVirt
// keeps the addresses of its devices. q35 uses 0x1b for its sound, and 0x1f for its SATA controller.
func rootSlots() []uint {
	const first, sound, sata = 0x02, 0x1b, 0x1f
	var out []uint
	for slot := uint(first); slot < sata; slot++ {
		if slot != sound {
			out = append(out, slot)
		}
	}
	return out
}

// onRootComplex gives each device a slot of the root complex. As in KubeVirt, a missing USB controller occupies one,
// too, and more devices than slots are refused.
func onRootComplex(list *libvirtxml.DomainDeviceList) error {
	slots := rootSlots()
	for _, at := range pciDevices(list) {
		if at.kind != none && *at.address != nil && (*at.address).PCI != nil {
			continue
		}
		if len(slots) == 0 {
			return invalid("metadata.annotations["+v1.PlacePCIDevicesOnRootComplex+"]",
				"the root complex has only %d free slots", len(rootSlots()))
		}
		if at.kind != none {
			*at.address = &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{
				Domain: ptr(uint(0)), Bus: ptr(uint(0)), Slot: ptr(slots[0]), Function: ptr(uint(0)),
			}}
		}
		slots = slots[1:]
	}
	return nil
}
