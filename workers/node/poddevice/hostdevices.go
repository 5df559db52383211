package poddevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// vfio is the directory of what gives programs devices of PCI, and mediated ones.
const vfio = "vfio"

// giveHostDevices gives the launcher's user the host's devices that device plugins have put into the pod: groups and
// devices of VFIO, and devices of USB (bus/usb/<bus>/<device>).
func giveHostDevices(dev int) error {
	if err := giveIn(dev, dev, vfio, unix.S_IFCHR, 1); err != nil {
		return fmt.Errorf("/dev/%s in the pod: %w", vfio, err)
	}
	if err := giveIn(dev, dev, "bus", unix.S_IFCHR, 2); err != nil {
		return fmt.Errorf("/dev/bus in the pod: %w", err)
	}
	return nil
}

// HasVFIO returns whether a pod has any of those: such a device reads and writes all of the guest's memory, which is
// locked for it.
func HasVFIO(root *os.File) (bool, error) {
	dev, err := openDir(int(root.Fd()), "dev")
	if err != nil {
		return false, fmt.Errorf("opening /dev in the pod: %w", err)
	}
	defer unix.Close(dev)
	dir, err := openDir(dev, vfio)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening /dev/%s in the pod: %w", vfio, err)
	}
	return true, unix.Close(dir)
}
