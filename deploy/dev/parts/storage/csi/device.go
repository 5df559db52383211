package csi

import (
	"context"
	"errors"
	"os/exec"
	"strings"
)

// attach has a loop device for a file, as large as the file is now, and returns its path: always the same device while
// there is one, so that all who use the file see one cache.
func attach(ctx context.Context, file string) (string, error) {
	device, err := output(ctx, "losetup", "--find", "--show", "--nooverlap", file)
	if err != nil {
		return "", err
	}
	return device, run(ctx, "losetup", "--set-capacity", device)
}

// detach takes a file's loop devices away; those in use go as soon as they are not.
func detach(ctx context.Context, file string) error {
	devices, err := output(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", file)
	if err != nil {
		return err
	}
	for _, device := range strings.Fields(devices) {
		if err := run(ctx, "losetup", "--detach", device); err != nil {
			return err
		}
	}
	return nil
}

// fill has the ext4 on a device that is about to be mounted fill it. Where another node has it mounted, it stays as it
// is: that node grows it, or the kernel does not let it.
func fill(ctx context.Context, device string) error {
	if run(ctx, "resize2fs", device) == nil {
		return nil
	}
	// It wants the file system checked before it grows.
	const cannotBeOpened = 8
	err := run(ctx, "e2fsck", "-f", "-p", device)
	if code := new(exec.ExitError); errors.As(err, &code) && code.ExitCode() == cannotBeOpened {
		return nil
	}
	return errors.Join(err, run(ctx, "resize2fs", device))
}
