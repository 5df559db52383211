package domain

import (
	"fmt"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// HostDevices has addresses of devices: those of device plugins by the name of their extended resource, and those of a
// ResourceClaim by claim and request.
type HostDevices struct {
	// PCI as 0000:60:00.0, Mediated as UUIDs, USB as bus:device.
	PCI, Mediated, USB map[string][]string
	Claimed            map[v1.ClaimRequest]HostAddress
}

// HostAddress is the address of one device: one of its fields is set.
type HostAddress struct{ PCI, Mediated, USB string }

// devicesLeft assigns the host's devices, each once.
type devicesLeft struct {
	HostDevices
	used map[string]int // by kind and resource
}

// next returns a device that is not in use yet, or a zero value if there is none.
func (d *devicesLeft) next(resource string, claim *v1.ClaimRequest) HostAddress {
	if claim != nil {
		return d.Claimed[*claim]
	}
	of := func(kind string, all map[string][]string) string {
		at := kind + " " + resource
		if d.used[at] >= len(all[resource]) {
			return ""
		}
		d.used[at]++
		return all[resource][d.used[at]-1]
	}
	if address := of("PCI", d.PCI); address != "" {
		return HostAddress{PCI: address}
	}
	if address := of("mediated", d.Mediated); address != "" {
		return HostAddress{Mediated: address}
	}
	return HostAddress{USB: of("USB", d.USB)}
}

// attach gives the guest the host's devices that it requests. If the pod has too few of them, the error is no
// *InvalidError: the node's device plugin, or the driver of the ResourceClaim, is the cause.
func attach(list *libvirtxml.DomainDeviceList, spec *v1.DomainSpec, there HostDevices) error {
	left := devicesLeft{HostDevices: there, used: map[string]int{}}
	absent := func(field string, i int, resource string, claim *v1.ClaimRequest) error {
		if claim != nil {
			return fmt.Errorf("spec.domain.devices.%s[%d].requestName: the driver of claim %s has given the pod no "+
				"device for its request %s that a guest can use", field, i, claim.ClaimName, claim.RequestName)
		}
		return fmt.Errorf("spec.domain.devices.%s[%d].deviceName: the device plugin of %s has given the pod no "+
			"(further) device", field, i, resource)
	}
	display := defaultDisplay(spec.Devices.GPUs)
	for i := range spec.Devices.GPUs {
		g := &spec.Devices.GPUs[i]
		var device *libvirtxml.DomainHostdev
		switch at := left.next(g.DeviceName, g.ClaimRequest); {
		case at.PCI != "":
			var err error
			if device, err = pciDeviceAt(at.PCI); err != nil {
				return err
			}
		case at.Mediated != "":
			device = mediated(at.Mediated)
			showOn(device.SubsysMDev, g.VirtualGPUOptions, display)
			display = false
		default:
			return absent("gpus", i, g.DeviceName, g.ClaimRequest)
		}
		device.Alias = userAlias("gpu-" + g.Name)
		list.Hostdevs = append(list.Hostdevs, *device)
	}
	for i := range spec.Devices.HostDevices {
		h := &spec.Devices.HostDevices[i]
		var device *libvirtxml.DomainHostdev
		var err error
		alias := "hostdevice-"
		switch at := left.next(h.DeviceName, h.ClaimRequest); {
		case at.PCI != "":
			device, err = pciDeviceAt(at.PCI)
		case at.Mediated != "":
			device = mediated(at.Mediated)
		case at.USB != "":
			device, err = usbDeviceAt(at.USB)
			alias = "usb-host-"
			withUSB(list)
		default:
			err = absent("hostDevices", i, h.DeviceName, h.ClaimRequest)
		}
		if err != nil {
			return err
		}
		device.Alias = userAlias(alias + h.Name)
		list.Hostdevs = append(list.Hostdevs, *device)
	}
	return nil
}

// withUSB adds a USB controller if there is none.
func withUSB(list *libvirtxml.DomainDeviceList) {
	for i := range list.Controllers {
		if c := &list.Controllers[i]; c.Type == "usb" && c.Model == "none" {
			c.Model = "qemu-xhci"
		}
	}
}

// defaultDisplay reports whether the first mediated GPU is the guest's display: no GPU has a setting for it.
func defaultDisplay(gpus []v1.GPU) bool {
	for i := range gpus {
		if o := gpus[i].VirtualGPUOptions; o != nil && o.Display != nil {
			return false
		}
	}
	return true
}

// showOn makes a GPU the guest's display, from the boot on by a frame buffer in memory.
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

// pciDeviceAt returns the device at an address such as 0000:60:00.0. Its plugin, or the driver of the ResourceClaim,
// has already bound it to vfio-pci.
func pciDeviceAt(address string) (*libvirtxml.DomainHostdev, error) {
	var domain, bus, slot, function uint
	n, err := fmt.Sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function)
	if err != nil || n != 4 {
		return nil, fmt.Errorf("the pod was given a PCI device at %.64q, which is not an address", address)
	}
	return &libvirtxml.DomainHostdev{Managed: "no", SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
		Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: &libvirtxml.DomainAddressPCI{
			Domain: &domain, Bus: &bus, Slot: &slot, Function: &function,
		}},
	}}, nil
}

// usbDeviceAt returns the device at a bus and device number, as 1:2.
func usbDeviceAt(address string) (*libvirtxml.DomainHostdev, error) {
	first, second, _ := strings.Cut(address, ":")
	bus, err := strconv.ParseUint(first, 10, 16)
	device, err2 := strconv.ParseUint(second, 10, 16)
	if err != nil || err2 != nil {
		return nil, fmt.Errorf("the pod was given a USB device at %.64q, which is not bus:device", address)
	}
	return &libvirtxml.DomainHostdev{SubsysUSB: &libvirtxml.DomainHostdevSubsysUSB{
		Source: &libvirtxml.DomainHostdevSubsysUSBSource{
			Address: &libvirtxml.DomainAddressUSB{Bus: ptr(uint(bus)), Device: ptr(uint(device))}},
	}}, nil
}
