package libvirtd

import (
	"fmt"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

// Suspend halts the virtual CPUs.
func (l *Libvirt) Suspend() error {
	return l.operate("pausing the guest", func(d *libvirt.Domain, s guest.State) error {
		if s == guest.Paused {
			return nil
		}
		return d.Suspend()
	})
}

// Resume continues the virtual CPUs, and sets the guest's clock if its agent supports that.
func (l *Libvirt) Resume() error {
	return l.operate("resuming the guest", resume)
}

func resume(d *libvirt.Domain, s guest.State) error {
	if s != guest.Paused {
		return nil
	}
	if err := d.Resume(); err != nil {
		return err
	}
	if d.Ref() == nil {
		go func() {
			defer d.Free() //nolint:errcheck // a handle
			now := time.Now()
			_ = d.SetTime(now.Unix(), uint(now.Nanosecond()), 0)
		}()
	}
	return nil
}

// Reset presses the reset button.
func (l *Libvirt) Reset() error {
	return l.operate("resetting the guest", func(d *libvirt.Domain, _ guest.State) error { return d.Reset(0) })
}

// Resize notifies QEMU that a disk has grown. libvirt identifies the disk by its file or device.
func (l *Libvirt) Resize(path string, bytes int64) error {
	return l.operate("enlarging a disk", func(d *libvirt.Domain, _ guest.State) error {
		return d.BlockResize(path, uint64(bytes), libvirt.DOMAIN_BLOCK_RESIZE_BYTES)
	})
}

// Reboot asks the guest to reboot, by ACPI. Package agent asks the guest's agent, because libvirt's own way waits a
// minute for the reboot.
func (l *Libvirt) Reboot() error {
	return l.operate("rebooting the guest", func(d *libvirt.Domain, _ guest.State) error {
		return d.Reboot(libvirt.DOMAIN_REBOOT_ACPI_POWER_BTN)
	})
}

// operate carries out an operation on the domain if it runs or is paused. Errors are guest.ErrUnavailable or a
// *RefusedError.
func (l *Libvirt) operate(doing string, do func(*libvirt.Domain, guest.State) error) error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	defer l.nudge()
	state, reason, err := d.GetState()
	if err == nil {
		if s := stateOf(state, reason, true); s == guest.Running || s == guest.Paused {
			err = do(d, s)
		} else {
			return &RefusedError{fmt.Errorf("%s: the domain does not run (%s)", doing, s)}
		}
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conn == nil {
			return guest.ErrUnavailable
		}
		return l.failure(doing, err)
	}
	return nil
}
