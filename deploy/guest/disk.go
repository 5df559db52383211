package guest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/tree"
)

const bootMenu = `SERIAL 0 115200
DEFAULT guest
PROMPT 0
LABEL guest
 KERNEL vmlinuz
 INITRD initrd
 APPEND ` + CommandLine + "\n"

// What UEFI starts from a disk that it knows nothing of, which starts its neighbour, which reads grubMenu.
const (
	shim, grub, grubConfig = "BOOTX64.EFI", "grubx64.efi", "grub.cfg"
	loaderFolder           = "::/EFI/BOOT"
	configFolder           = "::/EFI/debian" // as Debian's GRUB was built to look for
)

const grubMenu = "linux /vmlinuz " + CommandLine + "\ninitrd /initrd\nboot\n"

// diskKiB is the size of a disk for files of so many bytes: with room for FAT and the boot loader, and a multiple of 63
// sectors of 512 bytes twice over, because mtools insists on whole tracks.
func diskKiB(content int64) int64 {
	const spare, track = 1536, 63
	return (content/1024 + spare + track) / track * track
}

// writeDisk makes dir/disk.img: one FAT file system over the whole disk, bootable by BIOS with syslinux, and by UEFI
// with and without secure boot. It is raw, not a compressed qcow2, which takes the guest twice as long to read.
func writeDisk(ctx context.Context, dir string) error {
	for name, content := range map[string]string{"syslinux.cfg": bootMenu, grubConfig: grubMenu} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("make the guest's disk: %w", err)
		}
	}
	files := []string{"vmlinuz", "initrd", "syslinux.cfg", shim, grub, grubConfig}
	var content int64
	for _, name := range files {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("make the guest's disk: %w", err)
		}
		content += info.Size()
		if err := os.Chtimes(path, tree.Epoch, tree.Epoch); err != nil {
			return fmt.Errorf("make the guest's disk: %w", err)
		}
	}
	image := filepath.Join(dir, "disk.img")
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		return fmt.Errorf("make the guest's disk: %w", err)
	}
	if err := os.Truncate(image, diskKiB(content)*1024); err != nil {
		return fmt.Errorf("make the guest's disk: %w", err)
	}
	steps := [][]string{
		{"/sbin/mkfs.vfat", "--invariant", "-n", "GUEST", image},
		{"mcopy", "-m", "-i", image, filepath.Join(dir, files[0]), filepath.Join(dir, files[1]),
			filepath.Join(dir, files[2]), "::"},
		{"mmd", "-i", image, "::/EFI", loaderFolder, configFolder},
		{"mcopy", "-m", "-i", image, filepath.Join(dir, shim), filepath.Join(dir, grub), loaderFolder},
		{"mcopy", "-m", "-i", image, filepath.Join(dir, grubConfig), configFolder},
		{"syslinux", "--install", image},
	}
	for _, step := range steps {
		cmd := exec.CommandContext(ctx, step[0], step[1:]...)
		// The first two keep the files' times the same in every build.
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(tree.Epoch.Unix(), 10), "TZ=UTC",
			"MTOOLS_SKIP_CHECK=1")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("make the guest's disk: %s: %w: %s", step[0], err, strings.TrimSpace(said.String()))
		}
	}
	return nil
}
