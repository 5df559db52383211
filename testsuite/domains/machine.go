package domains

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Facts are the facts of a machine or a pod, by subject, sorted.
type Facts map[string][]string

func (f Facts) add(subject string, facts ...string) { f[subject] = append(f[subject], facts...) }

func (f Facts) sort() Facts {
	for _, list := range f {
		slices.Sort(list)
	}
	return f
}

const generated = "generated"

// machine returns what a guest sees of its domain, without what only the host sees: paths, sockets, threads and their
// CPUs, and the memory's backing. The VMI has the random values: its UUID and MAC addresses.
func machine(document string, vmi *kubevirtv1.VirtualMachineInstance) (Facts, error) {
	d, err := parse(document)
	if err != nil {
		return nil, err
	}
	f := Facts{}
	f.add("machine", "type="+d.first("os/type").attrs["machine"], "arch="+d.first("os/type").attrs["arch"],
		"virt="+d.attrs["type"])
	f.add("memory", "bytes="+bytesOf(d.first("memory")))
	if d.has("maxMemory") {
		f.add("memory", "most="+bytesOf(d.first("maxMemory")))
	}
	processor(f, d)
	firmware(f, d)
	smbios(f, d, vmi)
	clock(f, d)
	features(f, d)
	for event, usual := range map[string]string{"poweroff": "destroy", "reboot": "restart", "crash": "destroy"} {
		action := d.first("on_" + event).text
		if action == "" {
			action = usual
		}
		f.add("lifecycle", event+"="+action)
	}
	for _, e := range d.all("launchSecurity") {
		f.add("launch security", e.facts("launchSecurity")...)
	}
	for _, e := range d.all("vsock") {
		f.add("vsock", e.facts("vsock")...)
	}
	devices(f, d.first("devices"), vmi)
	return f.sort(), nil
}

func bytesOf(e *element) string {
	n, err := strconv.ParseInt(e.text, 10, 64)
	if err != nil {
		return e.text
	}
	switch e.attrs["unit"] {
	case "b", "bytes":
	case "MiB":
		n <<= 20
	default: // libvirt's own
		n <<= 10
	}
	return strconv.FormatInt(n, 10)
}

func processor(f Facts, d *element) {
	cpu := d.first("cpu")
	f.add("cpu", "mode="+cpu.attrs["mode"], "model="+cpu.first("model").text)
	for _, e := range cpu.all("feature") {
		policy := e.attrs["policy"]
		if policy == "" { // libvirt's own
			policy = "require"
		}
		f.add("cpu", "feature "+e.attrs["name"]+"="+policy)
	}
	t := cpu.first("topology").attrs
	f.add("topology", fmt.Sprintf("sockets=%s cores=%s threads=%s", t["sockets"], t["cores"], t["threads"]))
	online := 0
	for _, e := range d.all("vcpus/vcpu") {
		if e.attrs["enabled"] == "yes" {
			online++
		}
	}
	f.add("topology", "CPUs="+d.first("vcpu").text)
	if d.has("vcpus") {
		f.add("topology", "online="+strconv.Itoa(online))
	} else {
		f.add("topology", "online="+d.first("vcpu").text)
	}
	for _, e := range cpu.all("numa/cell") {
		memory := &element{text: e.attrs["memory"], attrs: map[string]string{"unit": e.attrs["unit"]}}
		f.add("NUMA", "cell "+e.attrs["id"]+" cpus="+numbers(e.attrs["cpus"])+
			" memory="+bytesOf(memory))
	}
}

// numbers expands a list such as 0-2,5 to its numbers.
func numbers(list string) string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if !isRange || err != nil || err2 != nil {
			out = append(out, part)
			continue
		}
		for ; from <= to; from++ {
			out = append(out, strconv.Itoa(from))
		}
	}
	return strings.Join(out, ",")
}

// firmware adds the firmware, which a file (KubeVirt) or its features identify.
func firmware(f Facts, d *element) {
	os := d.first("os")
	loader := os.first("loader")
	switch {
	case os.attrs["firmware"] == "efi":
		secure := "no"
		for _, e := range os.all("firmware/feature") {
			if e.attrs["name"] == "secure-boot" {
				secure = e.attrs["enabled"]
			}
		}
		f.add("firmware", "EFI secure="+secure)
	case loader.attrs["type"] == "pflash":
		f.add("firmware", "EFI secure="+loader.attrs["secure"])
	case loader.text != "":
		f.add("firmware", "EFI in ROM "+loader.text[strings.LastIndexByte(loader.text, '/')+1:])
	default:
		f.add("firmware", "BIOS")
	}
	if os.first("bios").attrs["useserial"] == "yes" {
		f.add("firmware", "serial")
	}
	f.add("firmware", os.first("bootmenu").facts("bootmenu")...)
	for _, part := range []string{"kernel", "initrd"} {
		if path := os.first(part).text; path != "" {
			f.add("firmware", part+"="+path[strings.LastIndexByte(path, '/')+1:])
		}
	}
	if line := os.first("cmdline").text; line != "" {
		f.add("firmware", "cmdline="+line)
	}
	for _, e := range os.all("acpi/table") {
		f.add("firmware", "ACPI table "+e.attrs["type"])
	}
}

func smbios(f Facts, d *element, vmi *kubevirtv1.VirtualMachineInstance) {
	f.add("SMBIOS", "mode="+d.first("os/smbios").attrs["mode"])
	firmware := vmi.Spec.Domain.Firmware
	for _, part := range d.first("sysinfo").children {
		for _, e := range part.all("entry") {
			value := e.text
			if e.attrs["name"] == "uuid" && (firmware == nil || firmware.UUID == "") {
				value = generated
			}
			if value != "" {
				f.add("SMBIOS", part.name+" "+e.attrs["name"]+"="+value)
			}
		}
	}
}

// clock adds the clock: without one it is UTC, and libvirt reads one with an adjustment as variable.
func clock(f Facts, d *element) {
	c := d.first("clock")
	offset, adjustment := c.attrs["offset"], c.attrs["adjustment"]
	if offset == "" {
		offset = "utc"
	}
	if offset == "utc" && adjustment != "" && adjustment != "reset" {
		offset = "variable"
	}
	f.add("clock", fmt.Sprintf("offset=%s adjustment=%s timezone=%s", offset, adjustment, c.attrs["timezone"]))
	for _, e := range c.all("timer") {
		name := e.attrs["name"]
		delete(e.attrs, "name")
		f.add("timers", e.facts(name)...)
	}
}

func features(f Facts, d *element) {
	for _, e := range d.first("features").children {
		switch {
		case e.name == "tcg", e.name == "apic" && e.attrs["eoi"] == "":
			continue // the host's; nothing
		case e.name == "smm" && e.attrs["state"] == "":
			e.attrs["state"] = "on"
		case e.name == "hyperv" && e.attrs["mode"] == "custom":
			delete(e.attrs, "mode")
		}
		f.add("features", e.facts(e.name)...)
	}
}

// alias returns the spec's name of a device.
func alias(e *element) string { return strings.TrimPrefix(e.first("alias").attrs["name"], "ua-") }
