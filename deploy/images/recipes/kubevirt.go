package recipes

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// KubeVirt lists the images of KubeVirt's own controllers, whose programs are in a folder. They are the local
// cluster's, when it is asked for them, so they are none of All.
func KubeVirt(programs string) []Recipe {
	var all []Recipe
	for _, name := range []string{"virt-operator", "virt-api", "virt-controller"} {
		all = append(all, Recipe{Name: name, build: func(_ context.Context, b *Builder) (Image, error) {
			return b.fromPath(name, filepath.Join(programs, name))
		}})
	}
	return all
}

// fromPath is the image of one statically linked program that its pods look for in PATH.
func (b *Builder) fromPath(name, program string) (Image, error) {
	digest, err := archive.FileDigest(program)
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	files := tree.New()
	accounts(files, "nonroot:65532")
	files.Dir("tmp", 0o1777)
	if err := files.File("usr/bin/"+name, program); err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	config := archive.Config{User: unprivileged, Entrypoint: []string{"/usr/bin/" + name},
		Env: []string{"PATH=/usr/bin"}, WorkingDir: "/"}
	return b.finishTree(name, cache.Key("kubevirt 1", name, digest), config,
		bom.Contents{Programs: []string{program}}, files)
}
