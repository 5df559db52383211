package domains

import (
	"fmt"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// ofTheHost are the devices and their parts that a guest does not see, and those that are looked at apart.
func ofTheHost() []string {
	return []string{
		"emulator", "audio", "console", "serial/source", "serial/log", "channel/source", "graphics/listen",
		"disk/source", "disk/backingStore", "disk/capacity", "disk/filesystemOverhead", "disk/auth",
		"interface/source", "interface/target", "interface/backend", "filesystem/source", "hostdev/source",
		"redirdev/source", "tpm/backend/encryption",
	}
}

func devices(f Facts, list *element, vmi *kubevirtv1.VirtualMachineInstance) {
	list.drop(ofTheHost()...)
	ports(f, list)
	unit := map[string]int{}
	for _, e := range list.children {
		switch e.name {
		case "disk":
			diskFacts(f, e, unit)
		case "interface":
			interfaceFacts(f, e, vmi)
		case "controller":
			if e.attrs["type"] == "pci" && e.attrs["model"] != "pcie-root" {
				continue // counted
			}
			f.add("controllers", deviceFacts(e, e.attrs["type"]+e.attrs["index"])...)
		default:
			key := alias(e)
			e.drop("alias")
			f.add(e.name, deviceFacts(e, strings.TrimSpace(e.name+" "+key))...)
		}
	}
}

func deviceFacts(e *element, key string) []string {
	facts := e.facts(key)
	for i := range facts {
		facts[i] = oneVirtio(facts[i])
	}
	return facts
}

// oneVirtio: on q35, virtio and virtio-non-transitional are one device.
func oneVirtio(fact string) string {
	return strings.Replace(fact, "=virtio-non-transitional", "=virtio", 1)
}

// diskFacts: what the guest sees of a disk, and how its content is read and written.
func diskFacts(f Facts, e *element, unit map[string]int) {
	key := alias(e)
	e.drop("alias")
	driver := e.first("driver").attrs
	for _, name := range []string{"cache", "io", "error_policy", "discard"} {
		if driver[name] != "" {
			f.add("disk I/O", fmt.Sprintf("%s %s=%s", key, name, driver[name]))
		}
	}
	bus := e.first("target").attrs["bus"]
	if bus == "scsi" {
		address := e.first("address").attrs["unit"]
		e.drop("address")
		if n := unit[bus]; address == "" {
			if n >= 7 { // the controller's own
				n++
			}
			address = fmt.Sprint(n)
		}
		f.add("disks", key+" unit="+address)
		unit[bus]++
	}
	for _, name := range []string{"name", "type", "iothread", "cache", "io", "error_policy", "discard"} {
		delete(driver, name)
	}
	if len(driver) == 0 {
		e.drop("driver")
	}
	delete(e.attrs, "type")
	f.add("disks", deviceFacts(e, key)...)
}

func interfaceFacts(f Facts, e *element, vmi *kubevirtv1.VirtualMachineInstance) {
	key := alias(e)
	e.drop("alias")
	given := false
	for _, i := range vmi.Spec.Domain.Devices.Interfaces {
		given = given || i.Name == key && i.MacAddress != ""
	}
	if mac := e.first("mac").attrs; !given && len(mac) > 0 {
		mac["address"] = generated
	}
	if e.first("link").attrs["state"] == "up" {
		e.drop("link")
	}
	driver := e.first("driver").attrs
	delete(driver, "name")
	if len(driver) == 0 {
		e.drop("driver")
	}
	f.add("interfaces", deviceFacts(e, key)...)
}

// ports counts the PCIe root ports that no device of the domain needs.
func ports(f Facts, list *element) {
	free := 0
	for _, e := range list.children {
		switch {
		case e.name == "controller" && e.attrs["model"] == "pcie-root-port":
			free++
		case onRootPort(e):
			free--
		}
	}
	f.add("free ports", fmt.Sprint(max(free, 0)))
}

// onRootPort says that libvirt gives a device a root port of its own.
func onRootPort(e *element) bool {
	if e.first("address").attrs["type"] == "pci" {
		return e.first("address").attrs["bus"] != "0x00"
	}
	switch e.name {
	case "disk":
		return e.first("target").attrs["bus"] == "virtio"
	case "interface":
		return true
	case "controller":
		return e.attrs["type"] == "scsi" || e.attrs["type"] == "virtio-serial" ||
			e.attrs["type"] == "usb" && e.attrs["model"] == "qemu-xhci"
	case "memballoon":
		return e.attrs["model"] != "none"
	case "input":
		return e.attrs["bus"] == "virtio"
	case "rng", "filesystem", "hostdev", "vsock":
		return true
	default:
		return false
	}
}
