package cloudimage

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rootLabel is the label of the root file system, as in Debian's cloud images.
const rootLabel = "cloudimg-rootfs"

// Packages are installed, with their dependencies and Debian's base system.
func Packages() []string {
	return []string{
		"systemd-sysv", "systemd-resolved", "dbus", "udev", "linux-image-cloud-amd64", "initramfs-tools", "kmod",
		"cloud-init", "cloud-guest-utils", "fdisk", "openssh-server", "sudo", "qemu-guest-agent", "iproute2",
		"iputils-ping", "mokutil",
		// The boot loaders. The signed ones are what UEFI with secure boot starts.
		"grub-common", "grub-pc-bin", "grub-efi-amd64-signed", "shim-signed",
	}
}

//go:embed system.go disk.go
var sources embed.FS

// Inputs returns the files of this package on which the disk depends.
func Inputs() (string, error) {
	var b strings.Builder
	for _, name := range []string{"system.go", "disk.go"} {
		content, err := sources.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read the cloud image's sources: %w", err)
		}
		b.Write(content)
	}
	return b.String(), nil
}

// HostTools are the packages that building needs on this machine.
func HostTools() []string {
	return []string{"mmdebstrap", "e2fsprogs", "dosfstools", "mtools", "fdisk"}
}

// files of the root file system. An empty machine-id has systemd make one at the first boot.
func files() map[string]string {
	return map[string]string{
		"etc/fstab":      "LABEL=" + rootLabel + " / ext4 defaults 0 1\n",
		"etc/machine-id": "",
		"etc/hostname":   "localhost\n",
		"etc/cloud/cloud.cfg.d/90_datasources.cfg": "datasource_list: [NoCloud, ConfigDrive, None]\n",
		// Nothing is installed at boot, so no mirror is asked for.
		"etc/cloud/cloud.cfg.d/91_packages.cfg": "apt_preserve_sources_list: true\npackage_update: false\n",
		"boot/grub/grub.cfg": "serial --unit=0 --speed=115200\nterminal_input console serial\n" +
			"terminal_output console serial\nlinux /vmlinuz root=LABEL=" + rootLabel +
			" ro console=tty0 console=ttyS0,115200\ninitrd /initrd.img\nboot\n",
	}
}

// setUp runs in the installed system: its first boot makes the keys of its SSH server, and has cloud-init set up the
// network by systemd. core.img is the BIOS's boot loader, with everything that it needs to read grub.cfg.
const setUp = `set -e
rm -f /etc/ssh/ssh_host_*
systemctl enable systemd-networkd systemd-resolved qemu-guest-agent
systemctl disable apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer || true
grub-mkimage -O i386-pc -o /boot/grub/core.img -p '(hd0,gpt3)/boot/grub' \
  biosdisk part_gpt ext2 normal configfile linux serial terminal search
`

// install installs the system in the folder root.
func install(ctx context.Context, release, sources, root string) error {
	out, err := run(ctx, "mmdebstrap", "--mode=root", "--variant=minbase", "--include="+strings.Join(Packages(), ","),
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", release, root, sources)
	if err != nil {
		return fmt.Errorf("install Debian %s: %w: %s", release, err, out)
	}
	for name, content := range files() {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("set up Debian: %w", err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("set up Debian: %w", err)
		}
	}
	if out, err := run(ctx, "chroot", root, "/bin/sh", "-c", setUp); err != nil {
		return fmt.Errorf("set up Debian: %w: %s", err, out)
	}
	return nil
}

// run runs a command and returns the last lines of its output in its error.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n"), err
}
