package recipes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/deploy/guest"
	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
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
	files := tree.New()
	files.Dir("disk", 0o755)
	if err := files.File("disk/disk.img", filepath.Join(folder, "disk.img")); err != nil {
		return Image{}, fmt.Errorf("build image guest: %w", err)
	}
	files.Own("disk", 107, 107)
	files.Dir("boot", 0o755)
	for _, name := range []string{"vmlinuz", "initrd"} {
		if err := files.File("boot/"+name, filepath.Join(folder, name)); err != nil {
			return Image{}, fmt.Errorf("build image guest: %w", err)
		}
	}
	return b.finishTree("guest", tag, archive.Config{}, bom.Contents{Packages: packages}, files)
}

// guestFolder builds the guest's kernel, initramfs and disk unless they are in the cache. The packages are those that
// they were made of.
func (b *Builder) guestFolder(ctx context.Context) (folder, tag string, all []debian.Package, err error) {
	kernel, err := b.Debian.Resolve(ctx, guest.Kernel)
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
	packages, err := b.Debian.Resolve(ctx, guest.Packages()...)
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
	all = slices.Concat(kernel, packages, loaders)
	tag = cache.Key("guest 2", debian.List(kernel), debian.List(packages), debian.List(loaders), inputs)
	folder = b.Cache.Path("guest-" + tag)
	err = cache.Folder(folder, func(dir string) error {
		b.Log.Info().Str("image", "guest").
			Msg("building the test guest: kernel, initramfs, disk (half a minute: the kernel package is large)")
		if err := b.Debian.EnsureInstalled(ctx, guest.HostTools()...); err != nil {
			return fmt.Errorf("install what builds the guest's disk (%s): %w", strings.Join(guest.HostTools(), ", "),
				err)
		}
		if err := b.Debian.Fetch(ctx, all); err != nil {
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
		if err := b.Debian.Extract(ctx, kernel, boot); err != nil {
			return err
		}
		if err := b.Debian.Extract(ctx, loaders, efi); err != nil {
			return err
		}
		return guest.Build(ctx, root, boot, efi, dir)
	})
	return folder, tag, all, err
}
