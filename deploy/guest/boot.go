package guest

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/tree"
)

// addBoot adds what the kernel starts in an initramfs: the first process, and the modules that it loads.
func addBoot(ctx context.Context, t *tree.Tree, from Unpacked, wanted []string) error {
	if err := t.FS(files, "initramfs"); err != nil {
		return err
	}
	available, err := findModules(from.Kernel)
	if err != nil {
		return err
	}
	modules, err := available.order(ctx, wanted)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, file := range modules {
		if err := t.File("usr/lib/modules/"+filepath.Base(file), file); err != nil {
			return err
		}
		list.WriteString(filepath.Base(file) + "\n")
	}
	t.Bytes("etc/modules.order", 0o644, []byte(list.String()))
	return nil
}

// writeBoot writes what every guest's disk begins with: the kernel, the initramfs, and UEFI's loaders.
func (from Unpacked) writeBoot(dir string, initramfs *tree.Tree) error {
	vmlinuz, err := filepath.Glob(filepath.Join(from.Kernel, "boot", "vmlinuz-*"))
	if err != nil || len(vmlinuz) != 1 {
		return fmt.Errorf("%d kernels in the kernel package, want 1", len(vmlinuz))
	}
	for name, source := range map[string]string{
		"vmlinuz": vmlinuz[0],
		shim:      filepath.Join(from.Loaders, "usr/lib/shim/shimx64.efi.signed"),
		grub:      filepath.Join(from.Loaders, "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"),
	} {
		if err := copyFile(filepath.Join(dir, name), source); err != nil {
			return err
		}
	}
	if err := writeInitramfs(filepath.Join(dir, "initrd"), initramfs); err != nil {
		return fmt.Errorf("write the initramfs: %w", err)
	}
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
