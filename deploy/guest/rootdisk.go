package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/virtflow/virtflow/deploy/images/tree"
)

// The layout of a disk with a root file system, in sectors of 512 bytes: a partition with the loaders, the kernel and
// the initramfs, as large as those need, and behind it the root file system.
const (
	sector    = 512
	mebibyte  = 1 << 20
	bootBegin = mebibyte / sector
	// rootSize leaves space for what tests write. The image has only what is written.
	rootSize = 256 * mebibyte
	// masterBoot is the code with which the BIOS begins: it starts the loader in the active partition.
	masterBoot, masterBootSize = "usr/lib/syslinux/mbr/mbr.bin", 440
)

// writeRootDisk makes dir/NAME.qcow2, a disk with the kernel and the initramfs in dir, and with the root file system,
// whose label is the name.
func (from Unpacked) writeRootDisk(ctx context.Context, dir, name string, root *tree.Tree) error {
	work, err := os.MkdirTemp("", "virtflow-guest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, file := range []string{"vmlinuz", "initrd", shim, grub} {
		if err := os.Symlink(filepath.Join(dir, file), filepath.Join(work, file)); err != nil {
			return err
		}
	}
	content, err := writeMenus(work, CommandLine+" root=LABEL="+name)
	if err != nil {
		return err
	}
	bootSectors := diskKiB(content) * 1024 / sector
	rootBegin := (bootBegin + bootSectors + bootBegin - 1) / bootBegin * bootBegin
	image := filepath.Join(work, "disk.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o644), os.Truncate(image, rootBegin*sector+rootSize)); err != nil {
		return err
	}
	const efi, linux = "ef", "83"
	table := fmt.Sprintf("label: dos\nstart=%d, size=%d, type=%s, bootable\nstart=%d, type=%s\n",
		bootBegin, bootSectors, efi, rootBegin, linux)
	if err := run(ctx, "sh", "-c", `printf %s "$1" | sfdisk --quiet "$0"`, image, table); err != nil {
		return err
	}
	if err := writeFAT(ctx, work, image, bootBegin, bootSectors); err != nil {
		return err
	}
	if err := from.writeRoot(ctx, work, name, root, image, rootBegin); err != nil {
		return err
	}
	if err := from.writeMasterBoot(image); err != nil {
		return err
	}
	return run(ctx, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", image, filepath.Join(dir, name+".qcow2"))
}

// writeRoot makes the root file system in the image, at a sector.
func (from Unpacked) writeRoot(
	ctx context.Context, work, label string, root *tree.Tree, image string, begin int64,
) error {
	folder := filepath.Join(work, "root")
	if err := errors.Join(os.Mkdir(folder, 0o755), root.Unpack(folder)); err != nil {
		return err
	}
	// Busybox itself does nothing as its owner but for the applets that ask for that: su is one.
	busybox := filepath.Join(folder, "usr/bin/busybox")
	if err := os.Chmod(busybox, 0o755|os.ModeSetuid); err != nil {
		return err
	}
	releases, err := filepath.Glob(filepath.Join(folder, "usr/lib/modules/*"))
	if err != nil || len(releases) != 1 {
		return fmt.Errorf("modules of %d kernels in the root file system, want 1", len(releases))
	}
	if err := run(ctx, busybox, "depmod", "-b", folder, filepath.Base(releases[0])); err != nil {
		return err
	}
	// No journal: the image is read only, and what a guest writes ends with its pod.
	return run(ctx, "/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-L", label, "-d", folder,
		"-E", "offset="+strconv.FormatInt(begin*sector, 10), image, strconv.Itoa(rootSize/1024)+"k")
}

// writeMasterBoot puts the BIOS's first code before the partition table.
func (from Unpacked) writeMasterBoot(image string) error {
	code, err := os.ReadFile(filepath.Join(from.Loaders, masterBoot))
	if err != nil {
		return err
	}
	if len(code) > masterBootSize {
		return fmt.Errorf("%s is of %d bytes, want at most %d", masterBoot, len(code), masterBootSize)
	}
	disk, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = disk.WriteAt(code, 0)
	return errors.Join(err, disk.Close())
}
