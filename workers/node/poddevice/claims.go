package poddevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/internal/claims"
)

// giveClaims gives the launcher's user the PersistentVolumeClaims that are devices. Dev is the pod's /dev. What a pod
// may do with one of them its device rules say, which the kubelet has had made for the claims of the pod.
func giveClaims(dev int) error { return giveIn(dev, dev, claims.DevicesName, unix.S_IFBLK, 0) }

// giveIn gives the launcher's user the devices in a directory of the pod's /dev, and in as many levels below. It is no
// error that there is no such directory; it is one that something else is in it.
func giveIn(dev, parent int, name string, kind uint32, deeper int) error {
	opened, err := openDir(parent, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	dir := os.NewFile(uintptr(opened), name)
	defer dir.Close()
	var in unix.Stat_t
	if err := unix.Fstat(dev, &in); err != nil {
		return fmt.Errorf("looking at /dev: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	for _, name := range names {
		var is unix.Stat_t
		if err := unix.Fstatat(opened, name, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("looking at %s: %w", name, err)
		}
		switch is.Mode & unix.S_IFMT {
		case kind:
			err = grantDevice(opened, name, &is, &in)
		case unix.S_IFDIR:
			err = errors.New("is a directory")
			if deeper > 0 {
				err = giveIn(dev, opened, name, kind, deeper-1)
			}
		default:
			what := map[uint32]string{unix.S_IFBLK: "block", unix.S_IFCHR: "character"}
			err = errors.New("is no " + what[kind] + " device")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
