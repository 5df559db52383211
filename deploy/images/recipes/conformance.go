package recipes

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/deploy/images/tree"
	"github.com/virtflow/virtflow/launcher/iso"
)

//go:embed conformance.go conformancelauncher.go tools.go
var conformanceSources embed.FS

// Conformance lists the images that KubeVirt's functional tests use, under the names that those know. All have the same
// tag, because the tests take one for all. They are none of All: only the functional tests need them.
func Conformance() []Recipe {
	var parts conformanceParts
	recipe := func(name string, content contentOf, config archive.Config) Recipe {
		return Recipe{Name: name, build: func(ctx context.Context, b *Builder) (Image, error) {
			return parts.imageOf(ctx, b, name, content, config)
		}}
	}
	disk := archive.Config{}
	// A number: Kubernetes cannot see that a name is not root's. It is the one that KubeVirt's images have.
	shell := archive.Config{User: "1001", Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/usr/bin:/usr/sbin"}}
	return []Recipe{
		recipe("alpine-container-disk-demo", diskOf("alpine", "disk/alpine.qcow2"), disk),
		recipe("cirros-container-disk-demo", diskOf("cirros", "disk/cirros.qcow2"), disk),
		recipe("cirros-custom-container-disk-demo", diskOf("cirros", "custom-disk/downloaded"), disk),
		recipe("alpine-with-test-tooling-container-disk", diskOf("alpine-tools", "disk/alpine.qcow2"), disk),
		recipe("fedora-with-test-tooling-container-disk", diskOf("fedora", "disk/fedora.qcow2"), disk),
		recipe("virtio-container-disk", virtioDisk, disk),
		recipe("alpine-ext-kernel-boot-demo", kernelBoot, disk),
		recipe("vm-killer", shellTree, shell),
		recipe("test-helpers", shellTree, shell),
		{Name: "launcher-with-shell", build: launcherWithShell},
	}
}

// conformanceParts has what the images are made of, which is looked for, or built, with the first of them.
type conformanceParts struct {
	tag     string
	guests  string // folder of the stand-ins
	shell   string // folder with the unpacked packages of shellPackages
	failure error  // for all images

	guestPackages, shellPackages []debian.Package
}

// contentOf returns the files of one image, and the packages that they are of.
type contentOf func(context.Context, conformanceParts) (*tree.Tree, []debian.Package, error)

// imageOf builds one image.
func (p *conformanceParts) imageOf(
	ctx context.Context, b *Builder, name string, content contentOf, config archive.Config,
) (Image, error) {
	if p.tag == "" && p.failure == nil {
		p.failure = debian.Again(func() error { return p.prepare(ctx, b) })
	}
	if p.failure != nil {
		return Image{}, p.failure
	}
	if image, found := b.cached(name, p.tag); found {
		return image, nil
	}
	files, packages, err := content(ctx, *p)
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	return b.finishTree(name, p.tag, config, bom.Contents{Packages: packages}, files)
}

// prepare builds the stand-ins, and unpacks the packages of the images with a shell.
func (p *conformanceParts) prepare(ctx context.Context, b *Builder) error {
	guests, key, guestPackages, err := b.standInFolder(ctx)
	if err != nil {
		return err
	}
	packages, err := b.Debian.Resolve(ctx, shellPackages()...)
	if err != nil {
		return err
	}
	sources := make([]string, 0, 2)
	for _, name := range []string{"conformance.go", "tools.go"} {
		source, err := conformanceSources.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read the recipe: %w", err)
		}
		sources = append(sources, string(source))
	}
	shell, err := b.Debian.Unpack(ctx, "conformance-shell", packages)
	if err != nil {
		return err
	}
	*p = conformanceParts{
		tag:    cache.Key("conformance 1", key, debian.List(packages), strings.Join(sources, "")),
		guests: guests, guestPackages: guestPackages, shell: shell, shellPackages: packages,
	}
	return nil
}

// diskOf returns a function that returns the content of a containerDisk with a stand-in's disk at a path.
func diskOf(standIn, path string) contentOf {
	return func(_ context.Context, p conformanceParts) (*tree.Tree, []debian.Package, error) {
		files, err := containerDisk(map[string]string{path: filepath.Join(p.guests, standIn+".qcow2")})
		return files, p.guestPackages, err
	}
}

// kernelBoot is the content of a containerDisk with a kernel and its initramfs beside the disk.
func kernelBoot(_ context.Context, p conformanceParts) (*tree.Tree, []debian.Package, error) {
	files, err := containerDisk(map[string]string{
		"disk/alpine.qcow2":   filepath.Join(p.guests, "alpine.qcow2"),
		"boot/vmlinuz-virt":   filepath.Join(p.guests, "vmlinuz"),
		"boot/initramfs-virt": filepath.Join(p.guests, "initrd"),
	})
	return files, p.guestPackages, err
}

// virtioDisk is the content of a containerDisk that is laid out as the one with virtio's drivers for Windows. It has no
// drivers.
func virtioDisk(context.Context, conformanceParts) (*tree.Tree, []debian.Package, error) {
	dir, err := os.MkdirTemp("", "virtflow-virtio-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	none := []byte("This disk stands in for that with virtio's drivers. It has no drivers.\n")
	image := filepath.Join(dir, "virtio-win.iso")
	if err := iso.Write(image, "virtio-win", []iso.File{
		{Path: "virtio-win_license.txt", Data: none}, {Path: "guest-agent/README.txt", Data: none},
	}); err != nil {
		return nil, nil, err
	}
	content, err := os.ReadFile(image)
	if err != nil {
		return nil, nil, err
	}
	files := tree.New()
	files.Bytes("disk/virtio-win.iso", 0o644, content)
	files.Own("disk", 107, 107)
	return files, nil, nil
}

// shellPackages returns the packages of the images with a shell.
func shellPackages() []string { return []string{"bash", "busybox-static", "ncat", "procps"} }

// shellTree is the content of the images with a shell: bash, ncat, pkill, and busybox's applets. Some of the tests' pods end
// processes of their node by name; nodes of the local cluster have PID namespaces of their own.
func shellTree(ctx context.Context, p conformanceParts) (*tree.Tree, []debian.Package, error) {
	files := tree.New()
	accounts(files, "nonroot:1001", "qemu:107")
	files.Dir("tmp", 0o1777)
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		files.Symlink(name, "usr/"+name)
	}
	root := closure.Root(p.shell)
	const legacy = "/usr/lib/x86_64-linux-gnu/ossl-modules/legacy.so" // ncat warns without it
	if err := root.Add(files, "/bin/bash", "/usr/bin/ncat", "/usr/bin/pkill", legacy); err != nil {
		return nil, nil, err
	}
	files.Symlink("usr/bin/sh", "bash")
	files.Symlink("usr/bin/nc", "ncat")
	return files, p.shellPackages, addApplets(ctx, files, root, "usr/bin")
}
