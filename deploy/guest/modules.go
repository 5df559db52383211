package guest

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// wantedModules returns the kernel modules for the disk and network models that a VirtualMachine may have, its
// watchdog, the file systems, the firmware's tables and UEFI's variables, the power button and the guest agent. The
// test guest loads all of them, with their dependencies, at every boot.
func wantedModules() []string {
	return []string{
		"virtio_pci", "virtio_blk", "virtio_net", "virtio_scsi", "virtio_balloon", "virtio_console", "virtio_rng",
		"ahci", "sd_mod", "sr_mod", "e1000", "e1000e",
		"efivarfs", "qemu_fw_cfg", "i6300esb",
		"button", "evdev", "pvpanic_pci", "pvpanic_mmio",
		"crc32c_generic", "ext4", "isofs", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8", "virtiofs",
	}
}

// deviceModules returns the modules of devices and networks that only stand-ins have.
func deviceModules() []string {
	return []string{
		"dummy", "uas", "usb-storage", "veth", "virtio_mem", "vmw_vsock_virtio_transport", "xhci-pci",
	}
}

// rootModules returns the modules of what a stand-in's root file system may be on. The others are loaded from there,
// for the devices that there are.
func rootModules() []string {
	return []string{"virtio_pci", "virtio_blk", "virtio_scsi", "ahci", "sd_mod", "crc32c_generic", "ext4"}
}

// modules finds kernel modules by name in an unpacked package.
type modules map[string]string // normal name → file

// packed ends the names of modules that are compressed, as in Debian 13. Busybox would take long to unpack them.
const packed = ".xz"

// builtin takes the place of the file of a module that is part of the kernel.
const builtin = ""

// moduleName returns the name of the module that a file has, as the kernel knows it.
func moduleName(file string) (name string, ok bool) {
	base, ok := strings.CutSuffix(strings.TrimSuffix(file, packed), ".ko")
	return normal(base), ok
}

// normal is a module's name as the kernel knows it: file names may have dashes instead.
func normal(name string) string { return strings.ReplaceAll(name, "-", "_") }

func findModules(dir string) (modules, error) {
	found := modules{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if module, ok := moduleName(d.Name()); ok {
			found[module] = name
		}
		if d.Name() != "modules.builtin" {
			return nil
		}
		list, err := os.ReadFile(name)
		for line := range strings.Lines(string(list)) {
			if module, ok := moduleName(path.Base(strings.TrimSpace(line))); ok {
				found[module] = builtin
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for kernel modules: %w", err)
	}
	return found, nil
}

// order lists the files of the wanted modules and of all that they need, each after what it needs. It unpacks them in
// their folders.
func (m modules) order(ctx context.Context, wanted []string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		name = normal(name)
		if seen[name] {
			return nil
		}
		seen[name] = true
		file, ok := m[name]
		if !ok {
			return fmt.Errorf("the kernel package has no module %s", name)
		}
		if file == builtin {
			return nil
		}
		if strings.HasSuffix(file, packed) {
			if err := run(ctx, "xz", "-d", file); err != nil {
				return err
			}
			file = strings.TrimSuffix(file, packed)
			m[name] = file
		}
		needs, err := moduleNeeds(file)
		if err != nil {
			return err
		}
		for _, need := range needs {
			if err := visit(need); err != nil {
				return fmt.Errorf("%w (needed by %s)", err, name)
			}
		}
		files = append(files, file)
		return nil
	}
	for _, name := range wanted {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// moduleNeeds reads the names of other modules that a module's own header says it needs.
func moduleNeeds(file string) ([]string, error) {
	object, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	defer object.Close()
	section := object.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("read module %s: no .modinfo", file)
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	return parseDepends(data), nil
}

// parseDepends reads "depends=a,b" of zero-separated key=value pairs.
func parseDepends(info []byte) []string {
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if value, ok := strings.CutPrefix(string(field), "depends="); ok && value != "" {
			return strings.Split(value, ",")
		}
	}
	return nil
}
