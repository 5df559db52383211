package recipes

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/daemon"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// launcherRelease is the Debian release that the launcher's packages are of. It may be newer than the machine's:
// nothing of it runs outside the image.
const launcherRelease = "trixie"

// launcherPackages are the packages that the launcher's files come from; libvirt-clients (virsh) is used by the build
// only.
func launcherPackages() []string {
	return []string{
		"libvirt-daemon", "libvirt-daemon-driver-qemu", "libvirt-clients", "qemu-system-x86", "qemu-utils", "seabios",
		"ipxe-qemu", "ovmf", "swtpm", "swtpm-tools", "virtiofsd",
		"tzdata",
	}
}

// launcherPrograms are taken with all libraries that they are linked with. Of libvirt's drivers only QEMU's is there:
// the monolithic daemon loads what it finds and is half as large so.
func launcherPrograms() []string {
	const libvirt, qemu = "/usr/lib/x86_64-linux-gnu/libvirt/", "/usr/lib/x86_64-linux-gnu/qemu/"
	return []string{
		"/usr/sbin/libvirtd",
		libvirt + "connection-driver/libvirt_driver_qemu.so",
		"/usr/lib/libvirt/libvirt_iohelper",
		"/usr/bin/qemu-system-x86_64",
		"/usr/bin/qemu-img",
		qemu + "hw-display-virtio-gpu.so",
		qemu + "hw-display-virtio-gpu-pci.so",
		qemu + "hw-display-virtio-vga.so",
		// Of USB, devices of the host (hostDevices) and of callers (clientPassthrough).
		qemu + "hw-usb-host.so", qemu + "hw-usb-redirect.so",
		// A TPM: libvirt runs swtpm, and swtpm_setup for its certificates, which these make.
		"/usr/bin/swtpm", "/usr/bin/swtpm_ioctl", "/usr/bin/swtpm_setup", "/usr/bin/swtpm_localca",
		"/usr/bin/swtpm_cert", "/usr/bin/certtool",
		"/usr/libexec/virtiofsd",
		// What cmd/launcher itself is linked with.
		"/usr/lib/x86_64-linux-gnu/libvirt.so.0",
		"/usr/lib/x86_64-linux-gnu/libvirt-qemu.so.0",
		"/usr/lib/x86_64-linux-gnu/libvirt-lxc.so.0",
		"/usr/lib/x86_64-linux-gnu/libvirt-admin.so.0",
	}
}

// launcherData are files and folders taken as they are: firmware of the machine and its devices, the keyboard map that
// VNC needs, CPU models and XML schemas, and the time zones that guests' clocks can be in.
func launcherData() []string {
	const seabios, ovmf, qemu = "/usr/share/seabios/", "/usr/share/OVMF/", "/usr/share/qemu/"
	return []string{
		seabios + "bios-256k.bin", seabios + "vgabios-stdvga.bin", seabios + "vgabios-virtio.bin",
		seabios + "vgabios-bochs-display.bin", seabios + "vgabios-ramfb.bin", seabios + "vgabios-cirrus.bin",
		// UEFI, without secure boot, with it, and with it and the keys that distributions are signed with; libvirt
		// chooses by their descriptions.
		ovmf + "OVMF_CODE_4M.fd", ovmf + "OVMF_CODE_4M.secboot.fd", ovmf + "OVMF_CODE_4M.ms.fd",
		ovmf + "OVMF_VARS_4M.fd", ovmf + "OVMF_VARS_4M.ms.fd", qemu + "firmware",
		qemu + "efi-virtio.rom", qemu + "efi-e1000.rom", qemu + "efi-e1000e.rom", qemu + "efi-rtl8139.rom",
		qemu + "efi-ne2k_pci.rom", qemu + "efi-pcnet.rom",
		qemu + "kvmvapic.bin", qemu + "linuxboot.bin", qemu + "linuxboot_dma.bin", qemu + "multiboot.bin",
		qemu + "multiboot_dma.bin", qemu + "pvh.bin",
		qemu + "keymaps/en-us",
		"/usr/share/libvirt/cpu_map", "/usr/share/libvirt/schemas",
		"/usr/share/zoneinfo",
	}
}

// launcherTree puts the base layer together from unpacked packages.
func launcherTree(root closure.Root) (*tree.Tree, error) {
	t := tree.New()
	for _, dir := range []string{
		"proc", "sys", "dev", "etc/virtflow", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "var/lib", "var/log",
		"var/cache", "run/virtflow",
		"mnt",
	} {
		t.Dir(dir, 0o755)
	}
	t.Dir("tmp", 0o1777)
	t.Dir("run/lock", 0o1777)
	// Where the pod mounts its volumes.
	for _, dir := range []string{"sockets", "private", "disks", "container-disks", "cloud-init", "user-data",
		"network-data", "files", "access-credentials"} {
		t.Dir("run/virtflow/"+dir, 0o755)
	}
	t.Own("run/virtflow", daemon.User, daemon.User)
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		t.Symlink(dir, "usr/"+dir)
	}
	t.Symlink("var/run", "../run")
	accounts(t)
	id := daemon.User
	t.Bytes("etc/passwd", 0o644,
		fmt.Appendf(nil, "root:x:0:0:root:/:/bin/false\nqemu:x:%d:%d:qemu:%s:/bin/false\n", id, id, daemon.Private))
	t.Bytes("etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nqemu:x:%d:\n", id))

	if err := root.Add(t, launcherPrograms()...); err != nil {
		return nil, err
	}
	for _, name := range launcherData() {
		if err := addData(t, root, name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// addData adds a file, or a folder with its files.
func addData(t *tree.Tree, root closure.Root, name string) error {
	// A link to a neighbour stays one: firmware is large.
	if to, err := os.Readlink(filepath.Join(string(root), name)); err == nil && filepath.Base(to) == to {
		t.Symlink(name, to)
		return addData(t, root, filepath.Join(filepath.Dir(name), to))
	}
	source, err := root.Source(name)
	if err != nil {
		return err
	}
	return filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return err
		}
		return t.File(filepath.Join(slices.DeleteFunc([]string{name, relative}, func(s string) bool {
			return s == "."
		})...), path)
	})
}
