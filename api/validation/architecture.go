package validation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// machine has the machine types and devices of KubeVirt on one architecture.
type machine struct {
	name   string
	videos []string
	rules  []rule
}

func machines() []machine {
	return []machine{
		{amd64, []string{"vga", "cirrus", "virtio", "ramfb", "bochs"}, []rule{{"watchdog", intelWatchdog}}},
		{s390x, []string{"virtio"}, []rule{{"watchdog", zWatchdog}}},
		{arm64, []string{"virtio", "ramfb"}, []rule{
			{"boot loader", armBootloader},
			{"CPU model", armCPUModel},
			{"disk buses", armDiskBuses},
			{"watchdog", armWatchdog},
			{"sound", armSound},
		}},
	}
}

// architectureRules apply to an instance on its architecture.
func architectureRules(s subject) []metav1.StatusCause {
	all := machines()
	i := slices.IndexFunc(all, func(m machine) bool { return m.name == s.spec.Architecture })
	if i < 0 {
		return invalid(s.path.Child("architecture"), "unsupported architecture: %s", s.spec.Architecture)
	}
	causes := s.apply(all[i].rules)
	if v := s.spec.Domain.Devices.Video; v != nil && !slices.Contains(all[i].videos, v.Type) {
		causes = append(causes, unsupported(s.domain("devices", "video", "type"),
			"video model '%s' is not supported on %s architecture", v.Type, all[i].name)...)
	}
	return causes
}

func intelWatchdog(s subject) []metav1.StatusCause {
	if w := s.spec.Domain.Devices.Watchdog; w == nil || w.I6300ESB != nil && w.Diag288 == nil {
		return nil
	}
	return unsupported(s.domain("devices", "watchdog"), "amd64 only supports I6300ESB watchdog device")
}

func zWatchdog(s subject) []metav1.StatusCause {
	if w := s.spec.Domain.Devices.Watchdog; w == nil || w.Diag288 != nil && w.I6300ESB == nil {
		return nil
	}
	return unsupported(s.domain("devices", "watchdog"), "s390x only supports Diag288 watchdog device")
}

func armWatchdog(s subject) []metav1.StatusCause {
	if s.spec.Domain.Devices.Watchdog == nil {
		return nil
	}
	return unsupported(s.domain("devices", "watchdog"), "Arm64 not support Watchdog device")
}

func armBootloader(s subject) []metav1.StatusCause {
	if f := s.spec.Domain.Firmware; f == nil || f.Bootloader == nil || f.Bootloader.BIOS == nil {
		return nil
	}
	return unsupported(s.domain("firmware", "bootloader", "bios"),
		"Arm64 does not support bios boot, please change to uefi boot")
}

func armCPUModel(s subject) []metav1.StatusCause {
	if c := s.spec.Domain.CPU; c == nil || c.Model == "" || c.Model == kubevirtv1.CPUModeHostPassthrough {
		return nil
	}
	return unsupported(s.cpuPath("model"), "currently, %s is the only model supported on Arm64",
		kubevirtv1.CPUModeHostPassthrough)
}

func armDiskBuses(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	check := func(i int, kind string, bus kubevirtv1.DiskBus) {
		if bus != "" && bus != kubevirtv1.DiskBusVirtio && bus != kubevirtv1.DiskBusSCSI {
			causes = append(causes, unsupported(s.disk(i).Child(kind, "bus"),
				"Arm64 not support this disk bus type, please use virtio or scsi")...)
		}
	}
	for i, d := range s.spec.Domain.Devices.Disks {
		if d.Disk != nil {
			check(i, "disk", d.Disk.Bus)
		}
		if d.CDRom != nil {
			check(i, "cdrom", d.CDRom.Bus)
		}
		if d.LUN != nil {
			check(i, "lun", d.LUN.Bus)
		}
	}
	return causes
}

func armSound(s subject) []metav1.StatusCause {
	if s.spec.Domain.Devices.Sound == nil {
		return nil
	}
	return unsupported(s.domain("devices", "sound"), "Arm64 not support sound device")
}
