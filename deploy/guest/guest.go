package guest

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

//go:embed all:initramfs all:rootfs all:testguest all:standins all:tools
var files embed.FS

//go:embed *.go
var sources embed.FS

// CommandLine is the kernel's command line: messages and login appear on the serial line and the screen, and the serial
// line is the console. No panic= on purpose: a guest that crashed stays crashed for the host to see.
const CommandLine = "console=tty0 console=ttyS0 quiet loglevel=3"

// Kernel is the package whose newest version names the kernel; it has no files of its own. The "cloud" kernel would be
// smaller, but has no AHCI, and sata is the bus that disks get by default.
const Kernel = "linux-image-amd64"

// MinimumMiB is the least memory that the guest starts with: with 96 MiB the kernel finds no room to unpack the
// initramfs.
const MinimumMiB = 128

// Packages are the packages from which the guest is made, besides the kernel.
func Packages() []string { return []string{"busybox-static", "dropbear-bin", "qemu-guest-agent"} }

// Loaders are the packages with what UEFI starts, signed for secure boot: shim, and GRUB, which starts the kernel; and
// with what the BIOS starts from a disk with partitions.
func Loaders() []string { return []string{"shim-signed", "grub-efi-amd64-signed", "syslinux-common"} }

// HostTools are the packages whose programs make the disk.
func HostTools() []string { return []string{"busybox-static", "dosfstools", "mtools", "syslinux"} }

// StandInHostTools are the packages whose programs make the stand-ins' disks.
func StandInHostTools() []string {
	return append(HostTools(), "e2fsprogs", "fdisk", "qemu-utils", "xz-utils")
}

// Inputs is everything of this package that the disk depends on: its code and the guest's own files.
func Inputs() (string, error) {
	var b strings.Builder
	for _, from := range []fs.FS{sources, files} {
		err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
				return err
			}
			data, err := fs.ReadFile(from, name)
			fmt.Fprintf(&b, "%s %d\n%s", name, len(data), data)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read the guest's sources: %w", err)
		}
	}
	return b.String(), nil
}

// Unpacked has the folders with unpacked packages from which guests are built.
type Unpacked struct {
	Root    closure.Root // Packages, or StandInPackages
	Kernel  string
	Loaders string
}

// Build makes the test guest's files: dir/vmlinuz, dir/initrd, and dir/disk.img, a bootable disk with both.
func Build(ctx context.Context, from Unpacked, dir string) error {
	root, err := testGuest(ctx, from.Root)
	if err == nil {
		err = addBoot(ctx, root, from, wantedModules())
	}
	if err == nil {
		err = from.writeBoot(dir, root)
	}
	if err != nil {
		return fmt.Errorf("build the guest: %w", err)
	}
	return writeDisk(ctx, dir)
}

// testGuest puts the test guest's root file system together.
func testGuest(ctx context.Context, root closure.Root) (*tree.Tree, error) {
	t, err := newRoot(ctx, root, "testguest", "/usr/sbin/qemu-ga", "/usr/sbin/dropbear", "/usr/bin/dropbearkey")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"poweroff", "reboot", "panic", "fetch"} {
		t.Symlink("www/cgi-bin/"+name, "control")
	}
	enable(t, "dropbear", "httpd", "qemu-guest-agent")
	return t, nil
}
