package recipes

import (
	"context"
	"embed"
	"errors"
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
)

//go:embed cdi.go
var cdiSource embed.FS

// CDI lists the images of KubeVirt's Containerized Data Importer, one for each of its programs in the folder. They are
// the local cluster's, when it is asked for them, so they are none of All.
func CDI(programs string) ([]Recipe, error) {
	files, err := os.ReadDir(programs)
	if err != nil {
		return nil, fmt.Errorf("looking for CDI's programs: %w", err)
	}
	var base cdiBase
	var all []Recipe
	for _, f := range files {
		name := f.Name()
		if !strings.HasPrefix(name, "cdi-") {
			continue
		}
		all = append(all, Recipe{Name: name, build: func(ctx context.Context, b *Builder) (Image, error) {
			return base.imageOf(ctx, b, name, filepath.Join(programs, name))
		}})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has none of CDI's programs", programs)
	}
	return all, nil
}

// cdiPackages returns the Debian packages that have the programs in CDI's images, other than CDI's own. They are of the
// launcher's Debian release.
func cdiPackages() []string {
	return []string{"coreutils", "nbdkit", "qemu-utils", "tar", "util-linux"}
}

// cdiPrograms returns the programs that CDI runs: the importer reads from a server by nbdkit, through filters, and
// writes by qemu-img, or by tar for archives. By "cat" the controller's pod reports that it is ready.
func cdiPrograms() []string {
	const nbdkit = "/usr/lib/x86_64-linux-gnu/nbdkit/"
	return []string{
		"/usr/bin/cat", "/usr/bin/dd", "/usr/bin/ln", "/usr/bin/tar", "/usr/sbin/blockdev",
		"/usr/bin/qemu-img", "/usr/bin/nbdkit",
		nbdkit + "plugins/nbdkit-curl-plugin.so",
		nbdkit + "filters/nbdkit-readahead-filter.so", nbdkit + "filters/nbdkit-retry-filter.so",
		nbdkit + "filters/nbdkit-gzip-filter.so", nbdkit + "filters/nbdkit-xz-filter.so",
	}
}

// certificates is the file with the CAs that this machine trusts: a proxy may have its own.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// cdiBase is the layer with what CDI's programs run, which is looked for, or built, with the first of the images.
type cdiBase struct {
	folder, key string
	packages    []debian.Package
}

// imageOf builds the image of one program: a layer with it on top of the common one.
func (base *cdiBase) imageOf(ctx context.Context, b *Builder, name, program string) (Image, error) {
	if base.folder == "" {
		if err := base.buildLayer(ctx, b); err != nil {
			return Image{}, err
		}
	}
	digest, err := archive.FileDigest(program)
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	tag := cache.Key("cdi 1", name, base.key, digest)
	if image, found := b.cached(name, tag); found {
		return image, nil
	}
	top := tree.New()
	if err := top.File("usr/bin/"+name, program); err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	layer, err := temporaryLayer(top)
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	defer os.Remove(layer)
	config := archive.Config{User: unprivileged, Entrypoint: []string{"/usr/bin/" + name},
		Env: []string{"PATH=/usr/bin:/usr/sbin"}, WorkingDir: "/"}
	contents := bom.Contents{Programs: []string{program}, Packages: base.packages}
	return b.finish(name, tag, config, contents, filepath.Join(base.folder, "layer.tar"), layer)
}

// buildLayer builds the layer unless it is in the cache.
func (base *cdiBase) buildLayer(ctx context.Context, b *Builder) error {
	packages, err := b.LauncherDebian.Resolve(ctx, cdiPackages()...)
	if err != nil {
		return err
	}
	source, err := cdiSource.ReadFile("cdi.go")
	if err != nil {
		return fmt.Errorf("read the recipe: %w", err)
	}
	trusted, err := os.ReadFile(certificates)
	if err != nil {
		return fmt.Errorf("read this machine's CA certificates: %w", err)
	}
	key := cache.Key("cdi-base 1", debian.List(packages), string(source), string(trusted))
	folder := b.Cache.Path("cdi-base-" + key)
	err = cache.Folder(folder, func(dir string) error {
		b.Log.Info().Int("packages", len(packages)).Msg("building the layer that CDI's images have in common")
		return b.buildCDIBase(ctx, packages, trusted, dir)
	})
	if err == nil {
		base.folder, base.key, base.packages = folder, key, packages
	}
	return err
}

func (b *Builder) buildCDIBase(ctx context.Context, packages []debian.Package, trusted []byte, dir string) error {
	root, err := os.MkdirTemp("", "virtflow-cdi-")
	if err != nil {
		return fmt.Errorf("build the base of CDI's images: %w", err)
	}
	defer os.RemoveAll(root)
	if err := b.LauncherDebian.Fetch(ctx, packages); err != nil {
		return err
	}
	if err := b.LauncherDebian.Extract(ctx, packages, root); err != nil {
		return err
	}
	files := tree.New()
	accounts(files, "nonroot:65532", "qemu:107")
	files.Dir("tmp", 0o1777)
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		files.Symlink(name, "usr/"+name)
	}
	files.Bytes(certificates, 0o644, trusted)
	if err := closure.Root(root).Add(files, cdiPrograms()...); err != nil {
		return fmt.Errorf("build the base of CDI's images: %w", err)
	}
	b.Log.Info().Int64("MiB", files.Size()>>20).Int("files", len(files.Paths())).Msg("built base layer of CDI's images")
	layer, err := os.Create(filepath.Join(dir, "layer.tar"))
	if err != nil {
		return fmt.Errorf("build the base of CDI's images: %w", err)
	}
	return errors.Join(files.WriteTar(layer), layer.Close())
}
