package recipes

import (
	"context"
	"fmt"

	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/daemon"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// launcherShellPackages returns the packages of the programs that KubeVirt's functional tests run in a launcher's pod.
func launcherShellPackages() []string {
	return []string{"bash", "busybox-static", "iproute2", "libvirt-clients"}
}

// launcherWithShell is the launcher's image with what KubeVirt's launchers have besides, and its functional tests run:
// virsh, a shell, and programs such as stat. The launcher is the same.
func launcherWithShell(ctx context.Context, b *Builder) (Image, error) {
	packages, err := b.LauncherDebian.Resolve(ctx, launcherShellPackages()...)
	if err != nil {
		return Image{}, err
	}
	source, err := conformanceSources.ReadFile("conformancelauncher.go")
	if err != nil {
		return Image{}, fmt.Errorf("read the recipe: %w", err)
	}
	shell, err := b.LauncherDebian.Unpack(ctx, "launcher-shell", packages)
	if err != nil {
		return Image{}, err
	}
	const socket = "run/libvirt/virtqemud-sock"
	key := cache.Key("launcher-with-shell 1", debian.List(packages), string(source))
	return b.launcherImage(ctx, "launcher-with-shell", key, func(top *tree.Tree) error {
		root := closure.Root(shell)
		if err := root.Add(top, "/usr/bin/bash", "/usr/bin/virsh", "/usr/sbin/ip"); err != nil {
			return err
		}
		// KubeVirt's libvirt is another daemon, with another socket.
		top.Symlink(socket, daemon.Private+"/run/libvirt/libvirt-sock")
		return addApplets(ctx, top, root, "usr/bin")
	}, "LIBVIRT_DEFAULT_URI=qemu+unix:///session?socket=/"+socket)
}
