package recipes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/deploy/guest"
	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// guestDisk is the image with the test guest's disk, in the form of a containerDisk: one file beneath /disk. Its kernel
// and initramfs lie beneath /boot as well, for firmware.kernelBoot.
func guestDisk(ctx context.Context, b *Builder) (Image, error) {
	folder, tag, packages, err := b.guestFolder(ctx)
	if err != nil {
		return Image{}, err
	}
	files, err := containerDisk(map[string]string{
		"disk/disk.img": filepath.Join(folder, "disk.img"),
		"boot/vmlinuz":  filepath.Join(folder, "vmlinuz"),
		"boot/initrd":   filepath.Join(folder, "initrd"),
	})
	if err != nil {
		return Image{}, fmt.Errorf("build image guest: %w", err)
	}
	return b.finishTree("guest", tag, archive.Config{}, bom.Contents{Packages: packages}, files)
}

// containerDisk returns a tree with files, by their paths in it. Disks belong to the launcher's user.
func containerDisk(contents map[string]string) (*tree.Tree, error) {
	files := tree.New()
	for name, source := range contents {
		if err := files.File(name, source); err != nil {
			return nil, err
		}
		if folder := filepath.Dir(name); folder != "boot" {
			files.Own(folder, 107, 107)
		}
	}
	return files, nil
}

// guestFolder builds the test guest's kernel, initramfs and disk unless they are in the cache. The packages are those
// that they were made of.
func (b *Builder) guestFolder(ctx context.Context) (folder, tag string, all []debian.Package, err error) {
	return b.guests(ctx, "guest", b.Debian, guest.Packages(), guest.HostTools(), guest.Build)
}

// standInFolder is guestFolder for the stand-ins. The kernel of the launcher's release is unpacked by zstd, that of
// Debian 12 by xz, which is half of a boot's time under emulation.
func (b *Builder) standInFolder(ctx context.Context) (folder, tag string, all []debian.Package, err error) {
	return b.guests(ctx, "stand-ins", b.LauncherDebian, guest.StandInPackages(), guest.StandInHostTools(),
		guest.BuildStandIns)
}

// guests builds the files of one kind of guests, from the kernel, the loaders and the named packages, unless they are
// in the cache.
func (b *Builder) guests(
	ctx context.Context, kind string, kernels *debian.Archive, names, hostTools []string,
	build func(context.Context, guest.Unpacked, string) error,
) (folder, tag string, all []debian.Package, err error) {
	kernel, err := kernels.Resolve(ctx, guest.Kernel)
	if err != nil {
		return "", "", nil, err
	}
	kernel = keepNamed(kernel, "linux-image-*")
	// Both are named linux-image; the one with the version in its name holds the files.
	for i, p := range kernel {
		if p.Name() == guest.Kernel {
			kernel = append(kernel[:i], kernel[i+1:]...)
			break
		}
	}
	if len(kernel) != 1 {
		return "", "", nil, fmt.Errorf("build the guest: %s leads to %d kernels, want 1", guest.Kernel, len(kernel))
	}
	packages, err := b.Debian.Resolve(ctx, names...)
	if err != nil {
		return "", "", nil, err
	}
	loaders, err := b.Debian.Resolve(ctx, guest.Loaders()...)
	if err != nil {
		return "", "", nil, err
	}
	loaders = keepNamed(loaders, guest.Loaders()...)
	inputs, err := guest.Inputs()
	if err != nil {
		return "", "", nil, err
	}
	userland := slices.Concat(packages, loaders)
	all = slices.Concat(kernel, userland)
	tag = cache.Key(kind+" 3", debian.List(kernel), debian.List(packages), debian.List(loaders), inputs)
	folder = b.Cache.Path(kind + "-" + tag)
	err = cache.Folder(folder, func(dir string) error {
		b.Log.Info().Str("image", kind).
			Msg("building guests: kernel, initramfs, disk (half a minute: the kernel package is large)")
		if err := b.Debian.EnsureInstalled(ctx, hostTools...); err != nil {
			return fmt.Errorf("install what builds guests' disks (%s): %w", strings.Join(hostTools, ", "), err)
		}
		if err := errors.Join(kernels.Fetch(ctx, kernel), b.Debian.Fetch(ctx, userland)); err != nil {
			return err
		}
		work, err := os.MkdirTemp("", "virtflow-guest-")
		if err != nil {
			return fmt.Errorf("build the guest: %w", err)
		}
		defer os.RemoveAll(work)
		root, boot, efi := filepath.Join(work, "root"), filepath.Join(work, "kernel"), filepath.Join(work, "loaders")
		if err := b.Debian.Extract(ctx, packages, root); err != nil {
			return err
		}
		if err := kernels.Extract(ctx, kernel, boot); err != nil {
			return err
		}
		if err := b.Debian.Extract(ctx, loaders, efi); err != nil {
			return err
		}
		return build(ctx, guest.Unpacked{Root: closure.Root(root), Kernel: boot, Loaders: efi}, dir)
	})
	return folder, tag, all, err
}
