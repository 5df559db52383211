package domains

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// ofTheHost returns the devices, and parts of devices, that a guest does not see, and those that are compared apart.
func ofTheHost() []string {
	return []string{
		"emulator", "audio", "console", "serial/source", "serial/log", "channel/source", "graphics/listen",
		"disk/source", "disk/backingStore", "disk/capacity", "disk/filesystemOverhead", "disk/auth",
		"interface/source", "interface/target", "interface/backend", "filesystem/source", "hostdev/source",
		"redirdev/source", "sound/audio", "tpm/backend/encryption", "tpm/backend/source",
	}
}

func devices(f Facts, list *element, vmi *kubevirtv1.VirtualMachineInstance) {
	list.drop(ofTheHost()...)
	withSerialController(list)
	ports(f, list)
	for _, e := range list.children {
		switch e.name {
		case "disk":
			diskFacts(f, e)
		case "interface":
			interfaceFacts(f, e, vmi)
		case "controller":
			if e.attrs["type"] == "pci" && e.attrs["model"] != "pcie-root" {
				continue // counted
			}
			f.add("controllers", deviceFacts(e, e.attrs["type"]+e.attrs["index"])...)
		case "video":
			if e.first("model").attrs["type"] != "none" {
				f.add("video", deviceFacts(e, "video")...)
			}
		default:
			if e.name == "hostdev" {
				e.attrs["mode"] = "subsystem" // libvirt's own
			}
			key := alias(e)
			e.drop("alias")
			if e.name == "hostdev" && e.attrs["mode"] == "subsystem" {
				delete(e.attrs, "mode") // libvirt's own
			}
			if e.name == "filesystem" { // KubeVirt spells it so that libvirt ignores it, and it is the default
				delete(e.attrs, "accessMode")
				delete(e.attrs, "accessmode")
			}
			f.add(e.name, deviceFacts(e, strings.TrimSpace(e.name+" "+key))...)
		}
	}
}

// withSerialController adds the controller of a channel without one, as libvirt does.
func withSerialController(list *element) {
	for _, e := range list.all("controller") {
		if e.attrs["type"] == "virtio-serial" {
			return
		}
	}
	if list.has("channel") {
		list.children = append(list.children, &element{name: "controller", attrs: map[string]string{
			"type": "virtio-serial", "index": "0", "model": "virtio"}})
	}
}

func deviceFacts(e *element, key string) []string {
	facts := e.facts(key)
	for i := range facts {
		facts[i] = oneVirtio(facts[i])
	}
	return facts
}

// oneVirtio treats virtio and virtio-non-transitional as one device, as they are on q35.
func oneVirtio(fact string) string {
	return strings.Replace(fact, "=virtio-non-transitional", "=virtio", 1)
}

// controllerUnit is the controller's own unit, which no disk has.
const controllerUnit = 7

// diskFacts returns what the guest sees of a disk, and how its content is read and written.
func diskFacts(f Facts, e *element) {
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
		if n := int(e.first("target").attrs["dev"][len("sd")] - 'a'); address == "" {
			if n >= controllerUnit {
				n++
			}
			address = strconv.Itoa(n)
		}
		f.add("disks", key+" unit="+address)
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
	free, conventional := 0, 0
	for _, e := range list.children {
		switch {
		case e.name == "controller" && e.attrs["model"] == "pcie-root-port":
			free++
		case isOnBridge(e):
			conventional = 1
		case isOnRootPort(e):
			free--
		}
	}
	f.add("free ports", strconv.Itoa(max(free-conventional, 0)))
}

// isOnBridge reports whether a device is a conventional PCI device: libvirt puts all of them behind one bridge.
func isOnBridge(e *element) bool {
	model := e.attrs["model"]
	if e.name == "interface" {
		model = e.first("model").attrs["type"]
	}
	return slices.Contains([]string{"ac97", "e1000", "ne2k_pci", "pcnet", "rtl8139", "virtio-transitional"}, model)
}

// isOnRootPort reports whether libvirt gives a device a root port of its own.
func isOnRootPort(e *element) bool {
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
	case "hostdev":
		return e.attrs["type"] != "usb"
	case "rng", "filesystem", "vsock":
		return true
	default:
		return false
	}
}
