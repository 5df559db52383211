package domain

import (
	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

const (
	defaultMachine = "q35"
	// tbCacheMiB is the size of QEMU's cache of translated code under emulation. QEMU's own default may take a quarter
	// of the pod's memory; less than this doubles a guest's boot time.
	tbCacheMiB = 64
	// startPausedBootMenuMillis gives a person who resumes a VM that was started paused the time to enter its boot
	// menu.
	startPausedBootMenuMillis = "10000"
)

// GuestMemory is the memory that the guest sees, in bytes: memory.guest, else what the container requests, else its
// limit.
func GuestMemory(vmi *v1.VirtualMachineInstance) (int64, error) {
	spec := &vmi.Spec.Domain
	if spec.Memory != nil && spec.Memory.Guest != nil {
		if n := spec.Memory.Guest.Value(); n > 0 {
			return n, nil
		}
		return 0, invalid("spec.domain.memory.guest", "must be more than 0, found %s", spec.Memory.Guest)
	}
	for _, list := range []k8sv1.ResourceList{spec.Resources.Requests, spec.Resources.Limits} {
		if q, ok := list[k8sv1.ResourceMemory]; ok && q.Value() > 0 {
			return q.Value(), nil
		}
	}
	return 0, invalid("spec.domain.memory.guest",
		"no memory was given, here or in spec.domain.resources.requests.memory")
}

// Topology is the guest's sockets, cores and threads. Without any in the spec, the CPU limit or request (rounded up)
// are sockets.
func Topology(vmi *v1.VirtualMachineInstance) libvirtxml.DomainCPUTopology {
	spec := &vmi.Spec.Domain
	t := libvirtxml.DomainCPUTopology{Sockets: 1, Cores: 1, Threads: 1}
	if c := spec.CPU; c != nil && (c.Sockets > 0 || c.Cores > 0 || c.Threads > 0) {
		t.Sockets = max(1, int(c.Sockets))
		t.Cores = max(1, int(c.Cores))
		t.Threads = max(1, int(c.Threads))
		return t
	}
	for _, list := range []k8sv1.ResourceList{spec.Resources.Limits, spec.Resources.Requests} {
		if q, ok := list[k8sv1.ResourceCPU]; ok && q.Value() > 0 {
			t.Sockets = int(q.Value())
			return t
		}
	}
	return t
}

func operatingSystem(vmi *v1.VirtualMachineInstance) *libvirtxml.DomainOS {
	spec := &vmi.Spec.Domain
	os := &libvirtxml.DomainOS{
		Type:   &libvirtxml.DomainOSType{Arch: "x86_64", Machine: defaultMachine, Type: "hvm"},
		SMBios: &libvirtxml.DomainSMBios{Mode: "sysinfo"},
	}
	if m := spec.Machine; m != nil && m.Type != "" {
		os.Type.Machine = m.Type
	}
	if StartPaused(vmi) {
		os.BootMenu = &libvirtxml.DomainBootMenu{Enable: "yes", Timeout: startPausedBootMenuMillis}
	}
	if spec.Firmware == nil || spec.Firmware.Bootloader == nil {
		return os
	}
	if bios := spec.Firmware.Bootloader.BIOS; bios != nil && isTrue(bios.UseSerial) {
		os.BIOS = &libvirtxml.DomainBIOS{UseSerial: "yes"}
	}
	if efi := spec.Firmware.Bootloader.EFI; efi != nil {
		secure := "no"
		if unlessFalse(efi.SecureBoot) {
			secure = "yes"
		}
		os.Firmware = "efi"
		os.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
			{Enabled: secure, Name: "secure-boot"},
		}}
	}
	return os
}

func sysInfo(vmi *v1.VirtualMachineInstance) []libvirtxml.DomainSysInfo {
	spec := &vmi.Spec.Domain
	system := []libvirtxml.DomainSysInfoEntry{
		{Name: "manufacturer", Value: "KubeVirt"},
		{Name: "product", Value: "None"},
		{Name: "uuid", Value: UUID(vmi)},
		{Name: "family", Value: "KubeVirt"},
	}
	if spec.Firmware != nil && spec.Firmware.Serial != "" {
		system = append(system, libvirtxml.DomainSysInfoEntry{Name: "serial", Value: spec.Firmware.Serial})
	}
	smbios := &libvirtxml.DomainSysInfoSMBIOS{System: &libvirtxml.DomainSysInfoSystem{Entry: system}}
	if c := spec.Chassis; c != nil {
		chassis := &libvirtxml.DomainSysInfoChassis{}
		for _, e := range []libvirtxml.DomainSysInfoEntry{
			{Name: "manufacturer", Value: c.Manufacturer}, {Name: "version", Value: c.Version},
			{Name: "serial", Value: c.Serial},
			{Name: "asset", Value: c.Asset}, {Name: "sku", Value: c.Sku},
		} {
			if e.Value != "" {
				chassis.Entry = append(chassis.Entry, e)
			}
		}
		if len(chassis.Entry) > 0 {
			smbios.Chassis = chassis
		}
	}
	return []libvirtxml.DomainSysInfo{{SMBIOS: smbios}}
}

func features(spec *v1.DomainSpec, kvm bool) *libvirtxml.DomainFeatureList {
	list := &libvirtxml.DomainFeatureList{
		ACPI:   &libvirtxml.DomainFeature{},
		APIC:   &libvirtxml.DomainFeatureAPIC{},
		VMPort: &libvirtxml.DomainFeatureState{State: "off"},
	}
	if !kvm {
		list.TCG = &libvirtxml.DomainFeatureTCG{
			TBCache: &libvirtxml.DomainFeatureTCGTBCache{Unit: "MiB", Size: tbCacheMiB}}
	}
	if needsSMM(spec) {
		list.SMM = &libvirtxml.DomainFeatureSMM{State: "on"}
	}
	f := spec.Features
	if f == nil {
		return list
	}
	if !unlessFalse(f.ACPI.Enabled) {
		list.ACPI = nil
	}
	if f.APIC != nil {
		if !unlessFalse(f.APIC.Enabled) {
			list.APIC = nil
		} else if f.APIC.EndOfInterrupt {
			list.APIC.EOI = "on"
		}
	}
	if f.KVM != nil && f.KVM.Hidden && kvm {
		list.KVM = &libvirtxml.DomainFeatureKVM{Hidden: &libvirtxml.DomainFeatureState{State: "on"}}
	}
	if f.Pvspinlock != nil && kvm {
		list.PVSpinlock = &libvirtxml.DomainFeatureState{State: onOff(enabled(f.Pvspinlock))}
	}
	return list
}

func needsSMM(spec *v1.DomainSpec) bool {
	if spec.Features != nil && enabled(spec.Features.SMM) {
		return true
	}
	if spec.Firmware == nil || spec.Firmware.Bootloader == nil || spec.Firmware.Bootloader.EFI == nil {
		return false
	}
	return unlessFalse(spec.Firmware.Bootloader.EFI.SecureBoot)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
