package domain

import (
	"slices"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

const (
	// tbCacheMiB is the size of QEMU's cache of translated code under emulation. QEMU's own default may take a quarter
	// of the pod's memory; less than this doubles a guest's boot time.
	tbCacheMiB = 64
)

func sysInfo(vmi *v1.VirtualMachineInstance, maker v1.SMBiosConfiguration) []libvirtxml.DomainSysInfo {
	spec := &vmi.Spec.Domain
	serial := ""
	if spec.Firmware != nil {
		serial = spec.Firmware.Serial
	}
	system := entries([]libvirtxml.DomainSysInfoEntry{
		{Name: "manufacturer", Value: maker.Manufacturer},
		{Name: "product", Value: maker.Product},
		{Name: "version", Value: maker.Version},
		{Name: "uuid", Value: UUID(vmi)},
		{Name: "sku", Value: maker.Sku},
		{Name: "family", Value: maker.Family},
		{Name: "serial", Value: serial},
	})
	smbios := &libvirtxml.DomainSysInfoSMBIOS{System: &libvirtxml.DomainSysInfoSystem{Entry: system}}
	if c := spec.Chassis; c != nil {
		chassis := entries([]libvirtxml.DomainSysInfoEntry{
			{Name: "manufacturer", Value: c.Manufacturer}, {Name: "version", Value: c.Version},
			{Name: "serial", Value: c.Serial},
			{Name: "asset", Value: c.Asset}, {Name: "sku", Value: c.Sku},
		})
		if len(chassis) > 0 {
			smbios.Chassis = &libvirtxml.DomainSysInfoChassis{Entry: chassis}
		}
	}
	return []libvirtxml.DomainSysInfo{{SMBIOS: smbios}}
}

// entries leaves out entries without a value.
func entries(list []libvirtxml.DomainSysInfoEntry) []libvirtxml.DomainSysInfoEntry {
	return slices.DeleteFunc(list, func(e libvirtxml.DomainSysInfoEntry) bool { return e.Value == "" })
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
	if kvm && spec.CPU != nil && spec.CPU.DedicatedCPUPlacement {
		list.KVM = &libvirtxml.DomainFeatureKVM{HintDedicated: &libvirtxml.DomainFeatureState{State: "on"}}
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
		if list.KVM == nil {
			list.KVM = &libvirtxml.DomainFeatureKVM{}
		}
		list.KVM.Hidden = &libvirtxml.DomainFeatureState{State: "on"}
	}
	if kvm {
		list.PVSpinlock = featureState(f.Pvspinlock)
		list.HyperV = hyperv(f)
	}
	return list
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
