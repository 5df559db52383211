package validation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

func inputs(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, input := range s.spec.Domain.Devices.Inputs {
		p := s.domain("devices", "inputs").Index(i)
		if input.Bus != kubevirtv1.InputBusVirtio && input.Bus != kubevirtv1.InputBusUSB && input.Bus != "" {
			causes = append(causes, invalid(p.Child("bus"), "Input device can have only virtio or usb bus.")...)
		}
		if input.Type != kubevirtv1.InputTypeTablet {
			causes = append(causes, invalid(p.Child("type"), "Input device can have only tablet type.")...)
		}
	}
	return causes
}

func gpuDisplays(s subject) []metav1.StatusCause {
	displays := 0
	for _, g := range s.spec.Domain.Devices.GPUs {
		o := g.VirtualGPUOptions
		if o != nil && o.Display != nil && on(o.Display.Enabled) &&
			(o.Display.RamFB == nil || isTrue(o.Display.RamFB.Enabled)) {
			displays++
		}
	}
	if displays <= 1 {
		return nil
	}
	return invalid(s.path.Child("GPUs"), "configuring multiple displays with ramfb is not valid ")
}

func hostDevices(s subject) []metav1.StatusCause {
	if s.spec.Domain.Devices.HostDevices == nil || s.cluster.Enabled(defaults.GateHostDevices) {
		return nil
	}
	return invalid(s.path.Child("HostDevices"), "Host Devices feature gate is not enabled in kubevirt-config")
}

func sound(s subject) []metav1.StatusCause {
	d, p := s.spec.Domain.Devices.Sound, s.path.Child("Sound")
	if d == nil {
		return nil
	}
	var causes []metav1.StatusCause
	if d.Model != "" && d.Model != "ich9" && d.Model != "ac97" {
		causes = invalid(p, "Sound device type is not supported. Options: 'ich9' or 'ac97'")
	}
	if d.Name == "" {
		causes = append(causes, invalid(p, "Sound device requires a name field.")...)
	}
	return causes
}

func vsock(s subject) []metav1.StatusCause {
	if !isTrue(s.spec.Domain.Devices.AutoattachVSOCK) || s.cluster.Enabled(defaults.GateVSOCK) {
		return nil
	}
	return invalid(s.domain("devices", "autoattachVSOCK"), "%s feature gate is not enabled in kubevirt-config",
		defaults.GateVSOCK)
}

func persistentReservation(s subject) []metav1.StatusCause {
	reserved := slices.ContainsFunc(s.spec.Domain.Devices.Disks, func(d kubevirtv1.Disk) bool {
		return d.LUN != nil && d.LUN.Reservation
	})
	if !reserved || s.cluster.PersistentReservation() {
		return nil
	}
	return invalid(s.domain("devices", "disks", "luns", "reservation"),
		"persistent reservation is not enabled in kubevirt config")
}

func downwardMetricsDevice(s subject) []metav1.StatusCause {
	if s.spec.Domain.Devices.DownwardMetrics == nil || s.cluster.Enabled(defaults.GateDownwardMetrics) {
		return nil
	}
	return invalid(s.domain("devices", "downwardMetrics"),
		"downwardMetrics virtio serial is not allowed: DownwardMetrics feature gate is not enabled")
}

func filesystems(s subject) []metav1.StatusCause {
	if len(s.spec.Domain.Devices.Filesystems) == 0 || s.cluster.Enabled(defaults.GateVirtioFSStorage) {
		return nil
	}
	storage := map[string]bool{}
	for _, v := range s.spec.Volumes {
		storage[v.Name] = v.PersistentVolumeClaim != nil || v.DataVolume != nil
	}
	var causes []metav1.StatusCause
	for _, f := range s.spec.Domain.Devices.Filesystems {
		if storage[f.Name] {
			causes = append(causes, invalid(s.domain("devices", "filesystems"),
				"virtiofs is not allowed: virtiofs feature gate is not enabled for PVC")...)
		}
	}
	return causes
}

func video(s subject) []metav1.StatusCause {
	if s.spec.Domain.Devices.Video == nil || !isFalse(s.spec.Domain.Devices.AutoattachGraphicsDevice) {
		return nil
	}
	return invalid(s.path.Child("video"),
		"Video configuration is not allowed when autoattachGraphicsDevice is set to false")
}

func panicDevices(s subject) []metav1.StatusCause {
	list, p := s.spec.Domain.Devices.PanicDevices, s.domain("devices", "panicDevices")
	if len(list) == 0 {
		return nil
	}
	var causes []metav1.StatusCause
	if s.architecture() == s390x {
		causes = invalid(p, "custom panic devices are not supported on %s architecture", s390x)
	}
	models := []kubevirtv1.PanicDeviceModel{kubevirtv1.Hyperv, kubevirtv1.Isa, kubevirtv1.Pvpanic}
	for i, d := range list {
		if d.Model != nil && !slices.Contains(models, *d.Model) {
			causes = append(causes, invalid(p.Index(i).Child("model"), "invalid PanicDeviceModel(%s)", *d.Model)...)
		}
	}
	return causes
}

// launchSecurity: memory encryption has requirements on the guest's firmware.
func launchSecurity(s subject) []metav1.StatusCause {
	l, p := s.spec.Domain.LaunchSecurity, s.path.Child("launchSecurity")
	switch {
	case l == nil || s.spec.Architecture == s390x:
		return nil
	case s.spec.Architecture != amd64:
		return invalid(s.path.Child("architecture"), "No launchSecurity support for architecture: %s",
			s.spec.Architecture)
	}
	var kinds []string
	gate := defaults.GateSEV
	if l.SEV != nil {
		kinds = append(kinds, "SEV")
	}
	if l.SNP != nil {
		kinds = append(kinds, "SNP")
	}
	if l.TDX != nil {
		kinds, gate = append(kinds, "TDX"), defaults.GateTDX
	}
	if len(kinds) != 1 {
		return causeOf(metav1.CauseTypeForbidden, p, "One and only one launchSecurity type can be set")
	}
	if !s.cluster.Enabled(gate) {
		return invalid(p, "%s feature gate is not enabled in kubevirt-config", gate)
	}
	return s.checkEncryption(kinds[0], l)
}

// checkEncryption refuses what does not fit together with a kind of launch security, which encrypts the guest's memory.
func (s subject) checkEncryption(kind string, l *kubevirtv1.LaunchSecurity) []metav1.StatusCause {
	p := s.path.Child("launchSecurity")
	var causes []metav1.StatusCause
	refuse := func(when bool, format string, args ...any) {
		if when {
			causes = append(causes, invalid(p, format, args...)...)
		}
	}
	d := &s.spec.Domain
	refuse(l.TDX != nil && d.Features != nil && d.Features.SMM != nil && on(d.Features.SMM.Enabled),
		"TDX does not work along with SMM")
	if d.Firmware == nil || d.Firmware.Bootloader == nil || d.Firmware.Bootloader.EFI == nil {
		refuse(true, "%s requires OVMF (UEFI)", kind)
	} else {
		efi := d.Firmware.Bootloader.EFI
		refuse(l.TDX == nil && on(efi.SecureBoot), "%s does not work along with SecureBoot", kind)
		refuse(l.SEV == nil && isTrue(efi.Persistent), "%s does not work along with Persistent EFI variables", kind)
	}
	paused := s.spec.StartStrategy != nil && *s.spec.StartStrategy == kubevirtv1.StartStrategyPaused
	refuse(l.SEV != nil && l.SEV.Attestation != nil && !paused, "SEV attestation requires VMI StartStrategy '%s'",
		kubevirtv1.StartStrategyPaused)
	for _, f := range d.Devices.Interfaces {
		refuse(f.BootOrder != nil, "%s does not work with bootable NICs: %s", kind, f.Name)
	}
	return causes
}
