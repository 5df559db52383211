package defaults

import kubevirtv1 "kubevirt.io/api/core/v1"

// architecture sets the defaults that depend on the architecture.
func architecture(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	bus := kubevirtv1.DiskBusSATA
	switch spec.Architecture {
	case arm64:
		bus = kubevirtv1.DiskBusVirtio
		armBootloader(spec)
		if spec.Domain.CPU.Model == "" {
			spec.Domain.CPU.Model = kubevirtv1.CPUModeHostPassthrough
		}
	case s390x:
		bus = kubevirtv1.DiskBusVirtio
		zWatchdog(spec.Domain.Devices.Watchdog)
	default:
		intelWatchdog(spec.Domain.Devices.Watchdog)
	}
	diskBuses(spec, bus)
}

func armBootloader(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	if spec.Domain.Firmware == nil {
		spec.Domain.Firmware = &kubevirtv1.Firmware{}
	}
	f := spec.Domain.Firmware
	if f.Bootloader == nil {
		f.Bootloader = &kubevirtv1.Bootloader{EFI: &kubevirtv1.EFI{}}
	}
	if f.Bootloader.EFI != nil && f.Bootloader.EFI.SecureBoot == nil {
		insecure := false
		f.Bootloader.EFI.SecureBoot = &insecure
	}
}

func intelWatchdog(w *kubevirtv1.Watchdog) {
	if w == nil {
		return
	}
	if w.I6300ESB == nil {
		w.I6300ESB = &kubevirtv1.I6300ESBWatchdog{}
	}
	if w.I6300ESB.Action == "" {
		w.I6300ESB.Action = kubevirtv1.WatchdogActionReset
	}
}

func zWatchdog(w *kubevirtv1.Watchdog) {
	if w == nil {
		return
	}
	if w.Diag288 == nil {
		w.Diag288 = &kubevirtv1.Diag288Watchdog{}
	}
	if w.Diag288.Action == "" {
		w.Diag288.Action = kubevirtv1.WatchdogActionReset
	}
}

// zFeatures turns ACPI off, which these machines do not have.
func zFeatures(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	if spec.Architecture != s390x {
		return
	}
	if spec.Domain.Features == nil {
		spec.Domain.Features = &kubevirtv1.Features{}
	}
	if acpi := &spec.Domain.Features.ACPI; acpi.Enabled == nil {
		off := false
		acpi.Enabled = &off
	}
}

func diskBuses(spec *kubevirtv1.VirtualMachineInstanceSpec, bus kubevirtv1.DiskBus) {
	for i := range spec.Domain.Devices.Disks {
		d := &spec.Domain.Devices.Disks[i].DiskDevice
		if d.Disk != nil && d.Disk.Bus == "" {
			d.Disk.Bus = bus
		}
		if d.CDRom != nil && d.CDRom.Bus == "" {
			d.CDRom.Bus = bus
		}
		if d.LUN != nil && d.LUN.Bus == "" {
			d.LUN.Bus = bus
		}
	}
}
