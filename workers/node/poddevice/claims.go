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
func giveClaims(dev int) error {
	opened, err := openDir(dev, claims.DevicesName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	dir := os.NewFile(uintptr(opened), claims.DevicesName) //nolint:gosec // a descriptor
	defer dir.Close()                                      //nolint:errcheck // only read from
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
		if is.Mode&unix.S_IFMT != unix.S_IFBLK {
			return fmt.Errorf("%s is no block device", name)
		}
		if err := give(opened, name, &is, &in); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
