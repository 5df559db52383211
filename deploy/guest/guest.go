package guest

import (
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

//go:embed all:rootfs
var rootfs embed.FS

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

// Loaders are the packages with what UEFI starts, signed for secure boot: shim, and GRUB, which starts the kernel.
func Loaders() []string { return []string{"shim-signed", "grub-efi-amd64-signed"} }

// HostTools are the packages whose programs make the disk.
func HostTools() []string { return []string{"busybox-static", "dosfstools", "mtools", "syslinux"} }

// Inputs is everything of this package that the disk depends on: its code and the guest's own files.
func Inputs() (string, error) {
	var b strings.Builder
	for _, files := range []fs.FS{sources, rootfs} {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
				return err
			}
			data, err := fs.ReadFile(files, name)
			fmt.Fprintf(&b, "%s %d\n%s", name, len(data), data)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read the guest's sources: %w", err)
		}
	}
	return b.String(), nil
}

// Build makes the guest's files from unpacked packages (root), an unpacked kernel package, and the unpacked Loaders:
// dir/vmlinuz, dir/initrd, and dir/disk.img, a bootable disk with both.
func Build(ctx context.Context, root, kernel, loaders, dir string) error {
	vmlinuz, err := filepath.Glob(filepath.Join(kernel, "boot", "vmlinuz-*"))
	if err != nil || len(vmlinuz) != 1 {
		return fmt.Errorf("build the guest: %d kernels in the kernel package, want 1", len(vmlinuz))
	}
	if err := copyFile(filepath.Join(dir, "vmlinuz"), vmlinuz[0]); err != nil {
		return fmt.Errorf("build the guest: %w", err)
	}
	files, err := assemble(ctx, closure.Root(root), kernel)
	if err != nil {
		return fmt.Errorf("build the guest: %w", err)
	}
	if err := writeInitramfs(filepath.Join(dir, "initrd"), files); err != nil {
		return fmt.Errorf("build the guest's initramfs: %w", err)
	}
	for name, from := range map[string]string{
		shim: "usr/lib/shim/shimx64.efi.signed", grub: "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
	} {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(loaders, from)); err != nil {
			return fmt.Errorf("build the guest: %w", err)
		}
	}
	return writeDisk(ctx, dir)
}

// assemble puts the guest's root file system together.
func assemble(ctx context.Context, root closure.Root, kernel string) (*tree.Tree, error) {
	t := tree.New()
	for _, dir := range []string{"dev", "proc", "sys", "run", "mnt", "var/log", "etc/dropbear", "usr/bin", "usr/sbin",
		"usr/lib64", "lib/modules"} {
		t.Dir(dir, 0o755)
	}
	t.Dir("tmp", 0o1777)
	t.Dir("root", 0o700)
	t.Symlink("var/run", "../run")
	t.Symlink("lib64", "usr/lib64")
	t.Symlink("init", "bin/busybox")
	if err := t.FS(rootfs, "rootfs"); err != nil {
		return nil, err
	}
	for _, name := range []string{"poweroff", "reboot", "halt"} {
		t.Symlink("sbin/"+name, "shutdown")
	}
	for _, name := range []string{"poweroff", "reboot", "panic", "fetch"} {
		t.Symlink("www/cgi-bin/"+name, "control")
	}

	if err := root.Add(t, "/usr/sbin/qemu-ga", "/usr/sbin/dropbear", "/usr/bin/dropbearkey"); err != nil {
		return nil, err
	}
	if err := addBusybox(ctx, t, root); err != nil {
		return nil, err
	}
	return t, addModules(t, kernel)
}

// addBusybox adds busybox and a link for each of its applets that the guest has no program of its own for.
func addBusybox(ctx context.Context, t *tree.Tree, root closure.Root) error {
	busybox, err := root.Source("/bin/busybox")
	if err != nil {
		return err
	}
	if err := t.File("bin/busybox", busybox); err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, busybox, "--list-full").Output()
	if err != nil {
		return fmt.Errorf("list busybox's applets: %w", err)
	}
	for _, applet := range strings.Fields(string(applets)) {
		if !t.Has(applet) && !t.Has("sbin/"+filepath.Base(applet)) {
			t.Symlink(applet, "/bin/busybox")
		}
	}
	return nil
}

func addModules(t *tree.Tree, kernel string) error {
	available, err := findModules(filepath.Join(kernel, "lib", "modules"))
	if err != nil {
		return err
	}
	files, err := available.order(wantedModules())
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, file := range files {
		if err := t.File("lib/modules/"+filepath.Base(file), file); err != nil {
			return err
		}
		list.WriteString(filepath.Base(file) + "\n")
	}
	t.Bytes("etc/modules.order", 0o644, []byte(list.String()))
	return nil
}

func writeInitramfs(name string, files *tree.Tree) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := files.WriteCPIO(packed); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return out.Close()
}

func copyFile(target, source string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
