package domain

import (
	"fmt"

	v1 "kubevirt.io/api/core/v1"
)

// Supported refuses parts of a VMI that no domain can be built for. The list of what is supported is in
// api/support/fields.go, which admission applies and the launcher must not import. This is a second check, for a VMI
// that reached the launcher another way, and it is incomplete: it refuses what would change the guest, not every field
// that would have no effect (a disk's tag, for example).
func Supported(vmi *v1.VirtualMachineInstance) error {
	if a := vmi.Spec.Architecture; a != "" && a != "amd64" {
		return invalid("spec.architecture", "%q is not supported, only amd64", a)
	}
	spec := &vmi.Spec.Domain
	devices := &spec.Devices
	for _, part := range []struct {
		field   string
		present bool
	}{
		{"spec.domain.launchSecurity", spec.LaunchSecurity != nil},
		{"spec.domain.cpu.realtime", spec.CPU != nil && spec.CPU.Realtime != nil},
		{"spec.domain.devices.downwardMetrics", devices.DownwardMetrics != nil},
		{"spec.domain.devices.autoattachVSOCK", isTrue(devices.AutoattachVSOCK)},
		{"spec.domain.devices.watchdog.diag288", devices.Watchdog != nil && devices.Watchdog.Diag288 != nil},
	} {
		if part.present {
			return invalid(part.field, "is not supported yet")
		}
	}
	for i := range devices.Interfaces {
		if iface := &devices.Interfaces[i]; iface.Masquerade == nil && iface.Bridge == nil &&
			iface.SRIOV == nil && iface.Binding == nil {
			return invalid(fmt.Sprintf("spec.domain.devices.interfaces[%d]", i),
				"only the bindings masquerade, bridge and sriov, and binding plugins, are supported yet")
		}
	}
	return nil
}
