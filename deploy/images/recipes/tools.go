package recipes

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// tools is busybox with all its applets, for pods of tests: wget, nc, ping, sh.
func tools(ctx context.Context, b *Builder) (Image, error) {
	packages, err := b.Debian.Resolve(ctx, "busybox-static")
	if err != nil {
		return Image{}, err
	}
	packages = keepNamed(packages, "busybox-static")
	tag := cache.Key("tools 1", debian.List(packages))
	if image, found := b.cached("tools", tag); found {
		return image, nil
	}
	dir, err := b.Debian.Unpack(ctx, "tools", packages)
	if err != nil {
		return Image{}, err
	}
	files := tree.New()
	accounts(files, "nonroot:65532", "qemu:107")
	files.Dir("tmp", 0o1777)
	if err := addApplets(ctx, files, closure.Root(dir), "bin"); err != nil {
		return Image{}, fmt.Errorf("build image tools: %w", err)
	}
	return b.finishTree("tools", tag, archive.Config{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}},
		bom.Contents{Packages: packages}, files)
}

// addApplets adds busybox to a folder, and a link for each of its applets whose name is not another program's there.
func addApplets(ctx context.Context, files *tree.Tree, root closure.Root, folder string) error {
	busybox, err := root.Source("/bin/busybox")
	if err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("list busybox's applets: %w", err)
	}
	if err := files.File(folder+"/busybox", busybox); err != nil {
		return err
	}
	for _, applet := range strings.Fields(string(applets)) {
		if link := folder + "/" + applet; !files.Has(link) {
			files.Symlink(link, "busybox")
		}
	}
	return nil
}

// keepNamed keeps the packages whose names are given, or begin with a given prefix that ends in "*".
func keepNamed(packages []debian.Package, names ...string) []debian.Package {
	var kept []debian.Package
	for _, p := range packages {
		for _, name := range names {
			prefix, wild := strings.CutSuffix(name, "*")
			if p.Name() == name || wild && strings.HasPrefix(p.Name(), prefix) {
				kept = append(kept, p)
				break
			}
		}
	}
	return kept
}
