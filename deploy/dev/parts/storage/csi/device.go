package csi

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// attach has a loop device for a file, as large as the file is now, and returns its path: always the same device while
// there is one, so that all who use the file see one cache.
func attach(ctx context.Context, file string) (string, error) {
	// Each node has a driver of its own, and losetup takes no lock between its look and what it does.
	lock, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
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
	const mended, cannotBeOpened = 1, 8
	err := run(ctx, "e2fsck", "-f", "-p", device)
	if code := new(exec.ExitError); errors.As(err, &code) {
		switch code.ExitCode() {
		case mended:
			err = nil
		case cannotBeOpened:
			return nil
		}
	}
	return errors.Join(err, run(ctx, "resize2fs", device))
}
