package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/claims"
)

const (
	defaultMachine = "q35"
	// startPausedBootMenuMillis gives a user who resumes a guest that was started paused the time to enter its boot
	// menu.
	startPausedBootMenuMillis = "10000"
)

func operatingSystem(in Input) *libvirtxml.DomainOS {
	spec := &in.VMI.Spec.Domain
	os := &libvirtxml.DomainOS{
		Type:   &libvirtxml.DomainOSType{Arch: "x86_64", Machine: defaultMachine, Type: "hvm"},
		SMBios: &libvirtxml.DomainSMBios{Mode: "sysinfo"},
	}
	if m := spec.Machine; m != nil && m.Type != "" {
		os.Type.Machine = m.Type
	}
	if StartPaused(in.VMI) {
		os.BootMenu = &libvirtxml.DomainBootMenu{Enable: "yes", Timeout: startPausedBootMenuMillis}
	}
	firmware := spec.Firmware
	if firmware == nil {
		return os
	}
	if boot := firmware.KernelBoot; boot != nil && boot.Container != nil {
		os.Kernel, os.Initrd, os.Cmdline = in.Boot.Kernel, in.Boot.Initrd, boot.KernelArgs
	}
	if b := firmware.Bootloader; b != nil && b.BIOS != nil && isTrue(b.BIOS.UseSerial) {
		os.BIOS = &libvirtxml.DomainBIOS{UseSerial: "yes"}
	}
	os.ACPI = acpiTables(in.ACPITables)
	if claims.PersistentEFI(spec) {
		os.NVRam = &libvirtxml.DomainNVRam{NVRam: in.Paths.NVRAM}
	}
	if hasEFI(spec) {
		secure := yesNo(secureBoot(spec))
		os.Firmware = "efi"
		// Without enrolled keys, secure boot would let everything boot.
		os.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{Features: []libvirtxml.DomainOSFirmwareFeature{
			{Enabled: secure, Name: "enrolled-keys"}, {Enabled: secure, Name: "secure-boot"},
		}}
	}
	return os
}

func acpiTables(files ACPITables) *libvirtxml.DomainACPI {
	var out []libvirtxml.DomainACPITable
	if files.SLIC != "" {
		out = append(out, libvirtxml.DomainACPITable{Type: "slic", Path: files.SLIC})
	}
	if files.MSDM != "" {
		out = append(out, libvirtxml.DomainACPITable{Type: "msdm", Path: files.MSDM})
	}
	if len(out) == 0 {
		return nil
	}
	return &libvirtxml.DomainACPI{Tables: out}
}

func hasEFI(spec *v1.DomainSpec) bool {
	return spec.Firmware != nil && spec.Firmware.Bootloader != nil && spec.Firmware.Bootloader.EFI != nil
}

func secureBoot(spec *v1.DomainSpec) bool {
	return hasEFI(spec) && unlessFalse(spec.Firmware.Bootloader.EFI.SecureBoot)
}

// needsSMM reports whether the guest needs system management mode: only that can write the variables of secure boot.
func needsSMM(spec *v1.DomainSpec) bool {
	return spec.Features != nil && enabled(spec.Features.SMM) || secureBoot(spec)
}
