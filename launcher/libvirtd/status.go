package libvirtd

import (
	"slices"

	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

// stateOf translates libvirt's state and reason. started means that the domain has been running: being shut off without
// a reason then means that libvirt missed its end, rather than that it was only defined.
func stateOf(state libvirt.DomainState, reason int, started bool) guest.State {
	switch state {
	case libvirt.DOMAIN_RUNNING, libvirt.DOMAIN_BLOCKED:
		return guest.Running
	case libvirt.DOMAIN_PAUSED:
		if libvirt.DomainPausedReason(reason) == libvirt.DOMAIN_PAUSED_SHUTTING_DOWN {
			return guest.GoingDown
		}
		return guest.Paused
	case libvirt.DOMAIN_PMSUSPENDED:
		return guest.Paused
	case libvirt.DOMAIN_SHUTDOWN:
		return guest.GoingDown
	case libvirt.DOMAIN_CRASHED:
		return guest.Crashed
	case libvirt.DOMAIN_SHUTOFF:
		return shutoff(libvirt.DomainShutoffReason(reason), started)
	default:
		return guest.Absent
	}
}

// pauseReason translates libvirt's reason for a paused domain.
func pauseReason(state libvirt.DomainState, reason int) guest.PauseReason {
	if state != libvirt.DOMAIN_PAUSED {
		return guest.ByOther // suspended by the guest
	}
	switch libvirt.DomainPausedReason(reason) {
	case libvirt.DOMAIN_PAUSED_USER:
		return guest.ByUser
	case libvirt.DOMAIN_PAUSED_IOERROR:
		return guest.ByIOError
	case libvirt.DOMAIN_PAUSED_MIGRATION, libvirt.DOMAIN_PAUSED_POSTCOPY:
		return guest.ByMigration
	default:
		return guest.ByOther
	}
}

// fullDisk reports whether one of the disks has run out of space.
func fullDisk(disks []libvirt.DomainDiskError) bool {
	return slices.ContainsFunc(disks, func(d libvirt.DomainDiskError) bool {
		return d.Error == libvirt.DOMAIN_DISK_ERROR_NO_SPACE
	})
}

func shutoff(reason libvirt.DomainShutoffReason, started bool) guest.State {
	switch reason {
	case libvirt.DOMAIN_SHUTOFF_SHUTDOWN:
		return guest.Off
	case libvirt.DOMAIN_SHUTOFF_MIGRATED:
		return guest.Migrated
	case libvirt.DOMAIN_SHUTOFF_DESTROYED:
		return guest.Killed
	case libvirt.DOMAIN_SHUTOFF_CRASHED, libvirt.DOMAIN_SHUTOFF_DAEMON:
		return guest.Crashed
	case libvirt.DOMAIN_SHUTOFF_FAILED:
		// A start that failed; one that ran cannot end so.
		if !started {
			return guest.Absent
		}
		return guest.Crashed
	default:
		if !started {
			return guest.Absent
		}
		return guest.Gone
	}
}
