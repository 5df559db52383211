package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/deploy/checkout"
	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// Recipe makes one image.
type Recipe struct {
	Name  string
	build func(context.Context, *Builder) (Image, error)
}

// Build makes the image, or finds it in the cache.
func (r Recipe) Build(ctx context.Context, b *Builder) (image Image, err error) {
	err = debian.Again(func() error {
		image, err = r.build(ctx, b)
		return err
	})
	return image, err
}

// Image is one finished image.
type Image struct {
	Tag    string // 12 hexadecimal digits of a hash over its inputs
	Path   string // the archive
	Cached bool   // it was there already
}

// All lists every image, the quick ones first.
func All() []Recipe {
	return []Recipe{
		{Name: "tools", build: tools},
		{Name: "crdwatch", build: static("crdwatch", unprivileged)},
		{Name: "control-worker", build: static("control-worker", unprivileged)},
		{Name: "api-server", build: static("api-server", unprivileged)},
		{Name: "node-gateway", build: static("node-gateway", unprivileged)},
		// It enters pods' network namespaces and makes devices there.
		{Name: "node-worker", build: static("node-worker", "0:0")},
		{Name: "guest", build: guestDisk},
		{Name: "launcher", build: launcher},
	}
}

// Choose picks recipes by name; none means all.
func Choose(names []string) ([]Recipe, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []Recipe
	for _, name := range names {
		i := slices.IndexFunc(all, func(r Recipe) bool { return r.Name == name })
		if i < 0 {
			var known []string
			for _, r := range all {
				known = append(known, r.Name)
			}
			return nil, fmt.Errorf("there is no image %q; there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Builder has the dependencies of recipes.
type Builder struct {
	Cache  cache.Dir
	Debian *debian.Archive // of the machine's own release
	// LauncherDebian has the packages of the launcher's image.
	LauncherDebian *debian.Archive
	Log            zerolog.Logger
	Source         string // root of the source tree
	// Overlay replaces source files, as for `go build -overlay`; "": none.
	Overlay string
}

// NewBuilder finds the source tree above the working directory and clears what killed builds left in the cache.
func NewBuilder(dir cache.Dir, log zerolog.Logger) (*Builder, error) {
	source, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"", "images", "debs", "unpacked"} {
		if err := cache.Sweep(dir.Path(sub), time.Hour); err != nil {
			return nil, err
		}
	}
	return &Builder{
		Cache: dir, Debian: debian.NewArchive(dir, log), LauncherDebian: debian.NewRelease(dir, launcherRelease, log),
		Log: log, Source: source,
	}, nil
}

// imagePath is where an image's archive is kept.
func (b *Builder) imagePath(name, tag string) string {
	return b.Cache.Path("images", name+"-"+tag+".oci.tar")
}

// billPath is where an image's bill of materials is kept.
func (b *Builder) billPath(name, tag string) string {
	return b.Cache.Path("images", name+"-"+tag+".cdx.json")
}

// cached finds an image whose archive and bill of materials are there.
func (b *Builder) cached(name, tag string) (Image, bool) {
	image := Image{Tag: tag, Path: b.imagePath(name, tag), Cached: true}
	return image, cache.Exists(image.Path) && cache.Exists(b.billPath(name, tag))
}

// finish writes the archive of an image from its layers, and beside it what they are made of.
func (b *Builder) finish(
	name, tag string, config archive.Config, contents bom.Contents, layers ...string,
) (Image, error) {
	image, found := b.cached(name, tag)
	if found {
		return image, nil
	}
	image.Cached = false
	const registry = "localhost/virtflow/"
	if err := cache.File(image.Path, func(w io.Writer) error {
		return archive.Write(w, archive.Image{Reference: registry + name + ":" + tag, Layers: layers, Config: config})
	}); err != nil {
		return Image{}, err
	}
	digest, err := archive.Digest(image.Path)
	if err != nil {
		return Image{}, err
	}
	return image, cache.File(b.billPath(name, tag), func(w io.Writer) error {
		return bom.Write(w, registry+name, digest, contents)
	})
}

// finishTree writes the archive of an image whose only layer is a tree.
func (b *Builder) finishTree(
	name, tag string, config archive.Config, contents bom.Contents, files *tree.Tree,
) (Image, error) {
	if image, found := b.cached(name, tag); found {
		return image, nil
	}
	layer, err := temporaryLayer(files)
	if err != nil {
		return Image{}, fmt.Errorf("write image %s: %w", name, err)
	}
	defer os.Remove(layer)
	return b.finish(name, tag, config, contents, layer)
}

func temporaryLayer(files *tree.Tree) (string, error) {
	out, err := os.CreateTemp("", "virtflow-layer-*.tar")
	if err != nil {
		return "", err
	}
	err = errors.Join(files.WriteTar(out), out.Close())
	if err != nil {
		os.Remove(out.Name())
	}
	return out.Name(), err
}

// accounts adds the files that give names to user and group numbers.
func accounts(files *tree.Tree, users ...string) {
	passwd, group := "root:x:0:0:root:/:/bin/sh\n", "root:x:0:\n"
	for _, user := range users {
		name, id, _ := strings.Cut(user, ":")
		passwd += fmt.Sprintf("%s:x:%s:%s:%s:/:/bin/false\n", name, id, id, name)
		group += fmt.Sprintf("%s:x:%s:\n", name, id)
	}
	files.Bytes("etc/passwd", 0o644, []byte(passwd))
	files.Bytes("etc/group", 0o644, []byte(group))
	files.Bytes("etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
}
