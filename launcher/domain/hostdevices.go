package domain

import (
	"fmt"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// HostDevices are addresses of devices, by the name of the extended resource that they are.
type HostDevices struct {
	// PCI as 0000:60:00.0, Mediated as UUIDs, USB as bus:device.
	PCI, Mediated, USB map[string][]string
}

// taken counts the addresses that are in use, by kind and resource.
type taken map[string]int

// next is an address of a resource that is not in use yet; "": there is none.
func (t taken) next(kind string, of map[string][]string, name string) string {
	at := kind + " " + name
	if t[at] >= len(of[name]) {
		return ""
	}
	t[at]++
	return of[name][t[at]-1]
}

// attach gives the guest the host's devices that it asks for. That the pod has too few of them is no *InvalidError: the
// node's device plugin says so.
func attach(list *libvirtxml.DomainDeviceList, spec *v1.DomainSpec, there HostDevices) error {
	used := taken{}
	absent := func(field string, i int, name string) error {
		return fmt.Errorf("spec.domain.devices.%s[%d].deviceName: the device plugin of %s has told the pod of no (further) device",
			field, i, name)
	}
	display := defaultDisplay(spec.Devices.GPUs)
	for i := range spec.Devices.GPUs {
		g := &spec.Devices.GPUs[i]
		var device *libvirtxml.DomainHostdev
		if address := used.next("PCI", there.PCI, g.DeviceName); address != "" {
			var err error
			if device, err = pciDeviceAt(address); err != nil {
				return err
			}
		} else if address := used.next("mediated", there.Mediated, g.DeviceName); address != "" {
			device = mediated(address)
			showOn(device.SubsysMDev, g.VirtualGPUOptions, display)
			display = false
		} else {
			return absent("gpus", i, g.DeviceName)
		}
		device.Alias = userAlias("gpu-" + g.Name)
		list.Hostdevs = append(list.Hostdevs, *device)
	}
	for i, h := range spec.Devices.HostDevices {
		var device *libvirtxml.DomainHostdev
		var err error
		alias := "hostdevice-"
		if address := used.next("PCI", there.PCI, h.DeviceName); address != "" {
			device, err = pciDeviceAt(address)
		} else if address := used.next("mediated", there.Mediated, h.DeviceName); address != "" {
			device = mediated(address)
		} else if address := used.next("USB", there.USB, h.DeviceName); address != "" {
			device, err = usbDeviceAt(address)
			alias = "usb-host-"
			withUSB(list)
		} else {
			err = absent("hostDevices", i, h.DeviceName)
		}
		if err != nil {
			return err
		}
		device.Alias = userAlias(alias + h.Name)
		list.Hostdevs = append(list.Hostdevs, *device)
	}
	return nil
}

// withUSB makes sure that there is a controller that a device can be attached to.
func withUSB(list *libvirtxml.DomainDeviceList) {
	for i := range list.Controllers {
		if c := &list.Controllers[i]; c.Type == "usb" && c.Model == "none" {
			c.Model = "qemu-xhci"
		}
	}
}

// defaultDisplay says that the first mediated GPU is the guest's display: no GPU says anything else.
func defaultDisplay(gpus []v1.GPU) bool {
	for i := range gpus {
		if o := gpus[i].VirtualGPUOptions; o != nil && o.Display != nil {
			return false
		}
	}
	return true
}

// showOn has the guest's display be that of a GPU, from the start by a frame buffer in memory.
func showOn(m *libvirtxml.DomainHostdevSubsysMDev, o *v1.VGPUOptions, byDefault bool) {
	if o == nil || o.Display == nil {
		if byDefault {
			m.Display, m.RamFB = "on", "on"
		}
		return
	}
	if !unlessFalse(o.Display.Enabled) {
		m.Display = "off"
		return
	}
	m.Display = "on"
	if o.Display.RamFB == nil || enabled(o.Display.RamFB) {
		m.RamFB = "on"
	}
}

func mediated(uuid string) *libvirtxml.DomainHostdev {
	return &libvirtxml.DomainHostdev{SubsysMDev: &libvirtxml.DomainHostdevSubsysMDev{
		Model:  "vfio-pci",
		Source: &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: uuid}},
	}}
}

// pciDeviceAt takes an address such as 0000:60:00.0. The device's driver is vfio-pci already: its plugin has seen to
// that.
func pciDeviceAt(address string) (*libvirtxml.DomainHostdev, error) {
	var domain, bus, slot, function uint
	n, err := fmt.Sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function)
	if err != nil || n != 4 {
		return nil, fmt.Errorf("the device plugin tells of a PCI device at %.64q, which is no address", address)
	}
	return &libvirtxml.DomainHostdev{Managed: "no", SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
		Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: &libvirtxml.DomainAddressPCI{
			Domain: &domain, Bus: &bus, Slot: &slot, Function: &function,
		}},
	}}, nil
}

// usbDeviceAt takes bus and device, as 1:2.
func usbDeviceAt(address string) (*libvirtxml.DomainHostdev, error) {
	first, second, _ := strings.Cut(address, ":")
	bus, err := strconv.ParseUint(first, 10, 16)
	device, err2 := strconv.ParseUint(second, 10, 16)
	if err != nil || err2 != nil {
		return nil, fmt.Errorf("the device plugin tells of a USB device at %.64q, which is no bus:device", address)
	}
	return &libvirtxml.DomainHostdev{SubsysUSB: &libvirtxml.DomainHostdevSubsysUSB{
		Source: &libvirtxml.DomainHostdevSubsysUSBSource{
			Address: &libvirtxml.DomainAddressUSB{Bus: ptr(uint(bus)), Device: ptr(uint(device))}},
	}}, nil
}
