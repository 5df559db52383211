package recipes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

// unprivileged is the user of the processes that need nothing from their host.
const unprivileged = "65532:65532"

// static is the recipe of an image that holds one statically linked Go binary. The binary is made each time (Go's own
// cache makes that cheap when nothing changed) and its hash is the tag.
func static(name, user string) func(context.Context, *Builder) (Image, error) {
	return func(ctx context.Context, b *Builder) (Image, error) {
		dir, err := os.MkdirTemp("", "virtflow-"+name+"-")
		if err != nil {
			return Image{}, fmt.Errorf("build image %s: %w", name, err)
		}
		defer os.RemoveAll(dir)
		binary := filepath.Join(dir, name)
		if err := b.goBuild(ctx, name, binary, false); err != nil {
			return Image{}, err
		}
		digest, err := archive.FileDigest(binary)
		if err != nil {
			return Image{}, fmt.Errorf("build image %s: %w", name, err)
		}

		files := tree.New()
		accounts(files, "nonroot:65532")
		files.Dir("tmp", 0o1777)
		if err := files.File(name, binary); err != nil {
			return Image{}, fmt.Errorf("build image %s: %w", name, err)
		}
		config := archive.Config{User: user, Entrypoint: []string{"/" + name}}
		return b.finishTree(name, cache.Key("static 1", name, user, digest), config,
			bom.Contents{Programs: []string{binary}}, files)
	}
}

// goBuild compiles ./cmd/NAME. With cgo it uses the host's C library, and opens libvirt's libraries when it first calls
// them: until the dynamic linker had loaded all sixty of them, the first process of a container would miss a signal to
// end.
func (b *Builder) goBuild(ctx context.Context, name, output string, cgo bool) error {
	if !cache.Exists(filepath.Join(b.Source, "cmd", name)) {
		return fmt.Errorf("there is no command cmd/%s in the source tree", name)
	}
	b.Log.Info().Str("image", name).Msg("compiling ./cmd/" + name + " (minutes when Go's build cache is empty)")
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-tags", "libvirt_dlopen", "-ldflags", "-s -w",
		"-overlay", b.Overlay, "-o", output, "./cmd/" + name,
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.Source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-mod=readonly")
	if cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile cmd/%s: %w\n%s", name, err, strings.TrimSpace(said.String()))
	}
	return nil
}
