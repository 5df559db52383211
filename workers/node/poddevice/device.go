package poddevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/internal/claims"
)

// launcherUser is the user and group of launchers: qemu's in KubeVirt's images.
const launcherUser = 107

// device is a device that launchers open. The numbers are the same on every Linux.
type device struct {
	path  string // beneath /dev
	minor uint32 // of the major number 10
	// make it where the pod has none. A container's default rules let every pod use tun; KVM is only for those that its
	// device plugin gave it to.
	make bool
}

func devices() []device {
	return []device{
		{path: "net/tun", minor: 200, make: true},
		{path: "kvm", minor: 232},
		{path: "vhost-net", minor: 238},
	}
}

// Ensure gives the launcher's user the devices in a pod whose root directory is given. The container runtime normally
// creates a device file with the owner that it has on the node, such as root:kvm with mode 0660 (see containerd's
// device_ownership_from_security_context). Ensure changes that owner where the user cannot use the device. It walks the
// container's /dev without following links. A file that is bind-mounted from the node keeps its owner.
func Ensure(root *os.File) error {
	dev, err := openDir(int(root.Fd()), "dev")
	if err != nil {
		return fmt.Errorf("opening /dev in the pod: %w", err)
	}
	defer unix.Close(dev)
	for _, d := range devices() {
		if err := d.ensure(dev); err != nil {
			return fmt.Errorf("/dev/%s in the pod: %w", d.path, err)
		}
	}
	if err := giveClaims(dev); err != nil {
		return fmt.Errorf("/dev/%s in the pod: %w", claims.DevicesName, err)
	}
	return giveHostDevices(dev)
}

func (d device) ensure(dev int) error {
	dir, name := dev, path.Base(d.path)
	if parent := strings.TrimSuffix(path.Dir(d.path), "."); parent != "" {
		if err := unix.Mkdirat(dev, parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making its directory: %w", err)
		}
		opened, err := openDir(dev, parent)
		if err != nil {
			return fmt.Errorf("opening its directory: %w", err)
		}
		defer unix.Close(opened)
		dir = opened
	}
	number := unix.Mkdev(10, d.minor)
	if d.make {
		if err := unix.Mknodat(dir, name, unix.S_IFCHR|0o600, int(number)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making it: %w", err)
		}
	}
	var is, in unix.Stat_t
	if err := unix.Fstatat(dir, name, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if !d.make && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("looking at it: %w", err)
	}
	if err := unix.Fstat(dev, &in); err != nil {
		return fmt.Errorf("looking at its directory: %w", err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFCHR || is.Rdev != number {
		return errors.New("it is something else than that device")
	}
	return grantDevice(dir, name, &is, &in)
}

// grantDevice lets the launcher's user have a device of the pod's own.
func grantDevice(dir int, name string, is, in *unix.Stat_t) error {
	switch {
	case is.Mode&0o006 == 0o006 || is.Uid == launcherUser && is.Mode&0o600 == 0o600 || is.Gid == launcherUser &&
		is.Mode&0o060 == 0o060:
		return nil
	case is.Dev != in.Dev:
		return fmt.Errorf("it is the node's own and not usable by user %d: make it 0666 on the node", launcherUser)
	}
	if err := unix.Fchownat(dir, name, launcherUser, launcherUser, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("giving it to user %d: %w", launcherUser, err)
	}
	return nil
}

// openDir opens a directory of a container by one element of its path.
func openDir(parent int, name string) (int, error) {
	return unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}
