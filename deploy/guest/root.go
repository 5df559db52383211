package guest

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// newRoot puts a root file system together: the files that all guests have, those beneath the folder kind, the
// programs with their libraries, and busybox.
func newRoot(ctx context.Context, root closure.Root, kind string, programs ...string) (*tree.Tree, error) {
	t := newTree()
	for _, dir := range []string{"var/log", "etc/dropbear", "etc/rc.d"} {
		t.Dir(dir, 0o755)
	}
	t.Dir("root", 0o700)
	t.Symlink("var/run", "../run")
	for _, folder := range []string{"rootfs", kind} {
		if err := t.FS(files, folder); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"poweroff", "reboot", "halt"} {
		t.Symlink("usr/sbin/"+name, "shutdown")
	}
	if err := root.Add(t, programs...); err != nil {
		return nil, err
	}
	return t, addBusybox(ctx, t, root)
}

// newTree returns the folders that an initramfs and a root file system have.
func newTree() *tree.Tree {
	t := tree.New()
	for _, dir := range []string{"dev", "mnt", "proc", "run", "sys"} {
		t.Dir(dir, 0o755)
	}
	t.Dir("tmp", 0o1777)
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		t.Dir("usr/"+dir, 0o755)
		t.Symlink(dir, "usr/"+dir)
	}
	return t
}

// enable has services start at boot.
func enable(t *tree.Tree, services ...string) {
	for _, name := range services {
		t.Symlink("etc/rc.d/"+name, "../init.d/"+name)
	}
}

// addBusybox adds busybox and a link for each of its applets that the guest has no program of its own for.
func addBusybox(ctx context.Context, t *tree.Tree, root closure.Root) error {
	const target = "usr/bin/busybox"
	busybox, err := root.Source("/bin/busybox")
	if err != nil {
		return err
	}
	if err := t.File(target, busybox); err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, busybox, "--list-full").Output()
	if err != nil {
		return fmt.Errorf("list busybox's applets: %w", err)
	}
	for _, applet := range strings.Fields(string(applets)) {
		name := path.Base(applet)
		if !t.Has("usr/bin/"+name) && !t.Has("usr/sbin/"+name) {
			t.Symlink(closure.Merged("/"+applet), "/"+target)
		}
	}
	return nil
}
