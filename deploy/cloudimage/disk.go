package cloudimage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The layout, in sectors of 512 bytes: a partition for the BIOS's boot loader, the EFI system partition, and the root
// file system as the last, which grows with the disk.
const (
	sector   = 512
	mebibyte = 1 << 20

	biosBegins, biosSectors = 1 * mebibyte / sector, 1 * mebibyte / sector
	espBegins, espSectors   = 2 * mebibyte / sector, 16 * mebibyte / sector
	rootBegins              = 18 * mebibyte / sector
	// spareSectors hold the second partition table.
	spareSectors = 1 * mebibyte / sector
)

// Offsets in GRUB's boot.img and core.img. The BIOS starts the disk's first sector, whose code ends where the partition
// table begins, and which has the address of the second stage; that one's first sector has the address of its rest.
const (
	bootCode   = 440
	nextStage  = 0x5c
	restOfCore = sector - 12
)

// espConfig makes the signed GRUB, which looks for it beneath this name, continue with the root's own configuration.
const espConfig = "search --no-floppy --label " + rootLabel + " --set=root\nset prefix=($root)/boot/grub\n" +
	"configfile /boot/grub/grub.cfg\n"

// Build makes disk.img in dir, a Debian of that release from the sources in the named file. It takes a minute or two,
// and needs root.
func Build(ctx context.Context, release, sources, dir string) error {
	work, err := os.MkdirTemp("", "virtflow-cloudimage-")
	if err != nil {
		return fmt.Errorf("build the cloud image: %w", err)
	}
	defer os.RemoveAll(work)
	root := filepath.Join(work, "root")
	if err := install(ctx, release, sources, root); err != nil {
		return err
	}
	disk := filepath.Join(dir, "disk.img")
	for _, step := range []func() error{
		func() error { return partition(ctx, root, disk) },
		func() error { return writeESP(ctx, root, work, disk) },
		func() error { return writeBIOS(root, disk) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("build the cloud image: %w", err)
		}
	}
	return nil
}

// partition makes the disk with its root file system, which has half as much space again as it needs.
func partition(ctx context.Context, root, disk string) error {
	said, err := run(ctx, "du", "-s", "--block-size=1M", root)
	if err != nil {
		return fmt.Errorf("measuring the system: %w: %s", err, said)
	}
	used, err := strconv.ParseInt(strings.Fields(said)[0], 10, 64)
	if err != nil {
		return fmt.Errorf("measuring the system: %w", err)
	}
	rootSectors := (used + used/2) * mebibyte / sector
	if err := os.WriteFile(disk, nil, 0o644); err != nil {
		return err
	}
	if err := os.Truncate(disk, (rootBegins+rootSectors+spareSectors)*sector); err != nil {
		return err
	}
	const bios, esp, linux = "21686148-6449-6E6F-744E-656564454649", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
		"0FC63DAF-8483-4772-8E79-3D69D8477DE4"
	table := fmt.Sprintf("label: gpt\nstart=%d, size=%d, type=%s\nstart=%d, size=%d, type=%s\nstart=%d, size=%d, type=%s\n",
		biosBegins, biosSectors, bios, espBegins, espSectors, esp, rootBegins, rootSectors, linux)
	if said, err := run(ctx, "sh", "-c", `printf %s "$1" | sfdisk --quiet "$0"`, disk, table); err != nil {
		return fmt.Errorf("making partitions: %w: %s", err, said)
	}
	// GRUB cannot read either feature.
	if said, err := run(ctx, "mkfs.ext4", "-q", "-F", "-L", rootLabel, "-O", "^metadata_csum_seed,^orphan_file",
		"-d", root, "-E", "offset="+strconv.Itoa(rootBegins*sector), disk,
		strconv.FormatInt(rootSectors*sector/1024, 10)+"k"); err != nil {
		return fmt.Errorf("making the root file system: %w: %s", err, said)
	}
	return nil
}

// writeESP makes the EFI system partition, with Debian's signed loaders.
func writeESP(ctx context.Context, root, work, disk string) error {
	config := filepath.Join(work, "grub.cfg")
	if err := os.WriteFile(config, []byte(espConfig), 0o644); err != nil {
		return err
	}
	at := fmt.Sprintf("%s@@%d", disk, espBegins*sector)
	for _, step := range [][]string{
		{"mkfs.vfat", "-F", "16", "-n", "ESP", "--offset", strconv.Itoa(espBegins), disk,
			strconv.Itoa(espSectors * sector / 1024)},
		{"mmd", "-i", at, "::/EFI", "::/EFI/BOOT", "::/EFI/debian"},
		{"mcopy", "-i", at, filepath.Join(root, "usr/lib/shim/shimx64.efi.signed"), "::/EFI/BOOT/BOOTX64.EFI"},
		{"mcopy", "-i", at, filepath.Join(root, "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"),
			"::/EFI/BOOT/grubx64.efi"},
		{"mcopy", "-i", at, config, "::/EFI/debian/grub.cfg"},
	} {
		if said, err := run(ctx, step[0], step[1:]...); err != nil {
			return fmt.Errorf("making the EFI system partition: %s: %w: %s", step[0], err, said)
		}
	}
	return nil
}

// writeBIOS writes GRUB's two stages to where the BIOS and each other find them.
func writeBIOS(root, disk string) error {
	boot, err := os.ReadFile(filepath.Join(root, "usr/lib/grub/i386-pc/boot.img"))
	if err != nil {
		return err
	}
	core, err := os.ReadFile(filepath.Join(root, "boot/grub/core.img"))
	if err != nil {
		return err
	}
	if boot, core, err = linked(boot, core); err != nil {
		return err
	}
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(boot, 0)
	if err == nil {
		_, err = f.WriteAt(core, biosBegins*sector)
	}
	return errors.Join(err, f.Close())
}

// linked returns both stages of the boot loader with the addresses that they need.
func linked(boot, core []byte) (code, rest []byte, err error) {
	if len(boot) != sector || len(core) < 2*sector || len(core) > biosSectors*sector {
		return nil, nil, fmt.Errorf("GRUB's stages are of %d and %d bytes: want %d, and at most %d", len(boot), len(core),
			sector, biosSectors*sector)
	}
	code, rest = append([]byte(nil), boot[:bootCode]...), append([]byte(nil), core...)
	binary.LittleEndian.PutUint64(code[nextStage:], biosBegins)
	binary.LittleEndian.PutUint64(rest[restOfCore:], biosBegins+1)
	return code, rest, nil
}
