package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/tree"
)

// bootMenu is the BIOS loader's configuration; the kernel's command line follows.
const bootMenu = `SERIAL 0 115200
DEFAULT guest
PROMPT 0
LABEL guest
 KERNEL vmlinuz
 INITRD initrd
 APPEND `

// What UEFI starts from a disk that it knows nothing of, which starts its neighbour, which reads grubConfig.
const (
	shim, grub, grubConfig = "BOOTX64.EFI", "grubx64.efi", "grub.cfg"
	loaderFolder           = "::/EFI/BOOT"
	configFolder           = "::/EFI/debian" // as Debian's GRUB was built to look for
)

// diskKiB is the size of a disk for files of so many bytes: with room for FAT and the boot loader, and a multiple of 63
// sectors of 512 bytes twice over, because mtools insists on whole tracks.
func diskKiB(content int64) int64 {
	const spare, track = 1536, 63
	return (content/1024 + spare + track) / track * track
}

// writeDisk makes dir/disk.img: one FAT file system over the whole disk. It is raw, not a compressed qcow2, which takes
// the guest twice as long to read.
func writeDisk(ctx context.Context, dir string) error {
	image := filepath.Join(dir, "disk.img")
	content, err := writeMenus(dir, CommandLine)
	if err == nil {
		err = os.WriteFile(image, nil, 0o644)
	}
	if err == nil {
		err = os.Truncate(image, diskKiB(content)*1024)
	}
	if err == nil {
		err = writeFAT(ctx, dir, image, 0, diskKiB(content)*1024/sector)
	}
	if err != nil {
		return fmt.Errorf("make the guest's disk: %w", err)
	}
	return nil
}

// writeMenus writes the loaders' configurations, and returns the size of all that boots a guest.
func writeMenus(dir, commandLine string) (content int64, err error) {
	for name, text := range map[string]string{
		"syslinux.cfg": bootMenu + commandLine + "\n",
		grubConfig:     "linux /vmlinuz " + commandLine + "\ninitrd /initrd\nboot\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return 0, err
		}
	}
	for _, name := range []string{"vmlinuz", "initrd", "syslinux.cfg", shim, grub, grubConfig} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		content += info.Size()
		if err := os.Chtimes(path, tree.Epoch, tree.Epoch); err != nil {
			return 0, err
		}
	}
	return content, nil
}

// writeFAT makes a FAT file system in the image, of so many sectors from one on, with what dir has for booting: by BIOS
// with syslinux, and by UEFI with and without secure boot.
func writeFAT(ctx context.Context, dir, image string, begin, sectors int64) error {
	offset := strconv.FormatInt(begin*sector, 10)
	at := image + "@@" + offset
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, step := range [][]string{
		{"/sbin/mkfs.vfat", "--invariant", "-n", "GUEST", "--offset", strconv.FormatInt(begin, 10),
			"-h", strconv.FormatInt(begin, 10), image, strconv.FormatInt(sectors*sector/1024, 10)},
		{"mcopy", "-m", "-i", at, in("vmlinuz"), in("initrd"), in("syslinux.cfg"), "::"},
		{"mmd", "-i", at, "::/EFI", loaderFolder, configFolder},
		{"mcopy", "-m", "-i", at, in(shim), in(grub), loaderFolder},
		{"mcopy", "-m", "-i", at, in(grubConfig), configFolder},
		{"syslinux", "--install", "--offset", offset, image},
	} {
		if err := run(ctx, step[0], step[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program that makes a disk.
func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	// The first two keep the files' times the same in every build.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(tree.Epoch.Unix(), 10), "TZ=UTC",
		"MTOOLS_SKIP_CHECK=1")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(said.String()))
	}
	return err
}
