package podnet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// tunNumber is the device number of /dev/net/tun on every Linux.
var tunNumber = unix.Mkdev(10, 200) //nolint:gochecknoglobals // constant

// ensureTunDevice makes sure that the launcher's user may open /dev/net/tun in the pod. Usually the device plugin and the
// container runtime have seen to it. A runtime without device_ownership_from_security_context leaves the device to root, and a
// pod made without the plugin has none: then it is given away or made here. The container's /dev is walked without following
// links, and a device that is the node's own (bind-mounted) is not given away.
func ensureTunDevice(root *os.File) error {
	dev, err := openDir(int(root.Fd()), "dev")
	if err != nil {
		return fmt.Errorf("opening /dev in the pod: %w", err)
	}
	defer unix.Close(dev)
	if err := unix.Mkdirat(dev, "net", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making /dev/net in the pod: %w", err)
	}
	net, err := openDir(dev, "net")
	if err != nil {
		return fmt.Errorf("opening /dev/net in the pod: %w", err)
	}
	defer unix.Close(net)
	if err := unix.Mknodat(net, "tun", unix.S_IFCHR|0o600, int(tunNumber)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making /dev/net/tun in the pod: %w", err)
	}
	var tun, dir unix.Stat_t
	if err := unix.Fstatat(net, "tun", &tun, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("looking at /dev/net/tun in the pod: %w", err)
	}
	if err := unix.Fstat(dev, &dir); err != nil {
		return fmt.Errorf("looking at /dev in the pod: %w", err)
	}
	switch {
	case tun.Mode&unix.S_IFMT != unix.S_IFCHR || tun.Rdev != tunNumber:
		return errors.New("/dev/net/tun in the pod is something else than that device")
	case tun.Mode&0o006 == 0o006 || tun.Uid == launcherUser && tun.Mode&0o600 == 0o600 || tun.Gid == launcherUser && tun.Mode&0o060 == 0o060:
		return nil
	case tun.Dev != dir.Dev:
		return fmt.Errorf("/dev/net/tun in the pod is the node's own and not usable by user %d: make it 0666 on the node, or set "+
			"device_ownership_from_security_context in containerd's configuration", launcherUser)
	}
	if err := unix.Fchownat(net, "tun", launcherUser, launcherUser, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("giving /dev/net/tun in the pod to user %d: %w", launcherUser, err)
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
