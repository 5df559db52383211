package recipes

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/virtflow/virtflow/deploy/images/archive"
	"github.com/virtflow/virtflow/deploy/images/bom"
	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/daemon"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/deploy/images/tree"
)

//go:embed launcher.go launcherfiles.go
var launcherSources embed.FS

// capabilitiesDir is where the launcher finds the baked answers of QEMU, one file for each emulator binary, under the
// name that libvirt expects in its own cache. The stored change times of the binaries are 0: the launcher writes those
// of its own unpacked image in, else libvirt would probe again.
const capabilitiesDir = "usr/share/virtflow/capabilities"

// launcher is the image of the pod in which a VM runs: a layer with libvirt and QEMU, which changes with Debian's
// packages only, and a small one with the launcher itself.
func launcher(ctx context.Context, b *Builder) (Image, error) {
	return b.launcherImage(ctx, "launcher", "", func(*tree.Tree) error { return nil })
}

// launcherImage builds the launcher's image. The function adds what else is in the layer with the launcher; the key
// changes with that and with env, which is added to the image's environment.
func (b *Builder) launcherImage(
	ctx context.Context, name, addedKey string, add func(*tree.Tree) error, env ...string,
) (Image, error) {
	base, key, err := b.launcherBase(ctx)
	if err != nil {
		return Image{}, err
	}
	if err := b.Debian.EnsureInstalled(ctx, "gcc", "libc6-dev"); err != nil {
		return Image{}, fmt.Errorf("install what compiles the launcher: %w", err)
	}
	dir, err := os.MkdirTemp("", "virtflow-launcher-")
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "launcher")
	if err := b.goBuild(ctx, "launcher", binary, true); err != nil {
		return Image{}, err
	}
	if err := checkLibraries(binary, filepath.Join(base, "paths")); err != nil {
		return Image{}, err
	}
	digest, err := archive.FileDigest(binary)
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	tag := cache.Key(append([]string{"launcher 1", key, digest, addedKey}, env...)...)
	if image, found := b.cached(name, tag); found {
		return image, nil
	}
	top := tree.New()
	if err := errors.Join(top.File("usr/bin/launcher", binary), add(top)); err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	layer, err := temporaryLayer(top)
	if err != nil {
		return Image{}, fmt.Errorf("build image %s: %w", name, err)
	}
	defer os.Remove(layer)
	user := fmt.Sprintf("%d:%d", daemon.User, daemon.User)
	config := archive.Config{User: user, Entrypoint: []string{"/usr/bin/launcher"},
		Env: append([]string{"PATH=/usr/bin:/usr/sbin"}, env...), WorkingDir: "/"}
	contents := bom.Contents{Programs: []string{binary}}
	if contents.Packages, err = readPackages(base); err != nil {
		return Image{}, err
	}
	return b.finish(name, tag, config, contents, filepath.Join(base, "layer.tar"), layer)
}

// checkLibraries makes a missing library an error of the build instead of a pod that does not start.
func checkLibraries(binary, list string) error {
	paths, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("check the launcher's libraries: %w", err)
	}
	present := map[string]bool{}
	for name := range strings.Lines(string(paths)) {
		present[filepath.Base(strings.TrimSpace(name))] = true
	}
	libraries, err := closure.Libraries(binary)
	if err != nil {
		return fmt.Errorf("check the launcher's libraries: %w", err)
	}
	for _, library := range libraries {
		if !present[library] {
			return fmt.Errorf("cmd/launcher is linked with %s, which the launcher's image does not have: add it to "+
				"launcherPrograms", library)
		}
	}
	return nil
}

// launcherBase builds the layer with libvirt and QEMU unless it is in the cache: layer.tar, the list of its paths, and
// the packages that they are of.
func (b *Builder) launcherBase(ctx context.Context) (folder, key string, err error) {
	packages, err := b.LauncherDebian.Resolve(ctx, launcherPackages()...)
	if err != nil {
		return "", "", err
	}
	var sources strings.Builder
	entries, err := launcherSources.ReadDir(".")
	if err != nil {
		return "", "", fmt.Errorf("read the launcher's recipe: %w", err)
	}
	for _, entry := range entries {
		data, err := fs.ReadFile(launcherSources, entry.Name())
		if err != nil {
			return "", "", fmt.Errorf("read the launcher's recipe: %w", err)
		}
		sources.Write(data)
	}
	key = cache.Key("launcher-base 1", debian.List(packages), sources.String())
	folder = b.Cache.Path("launcher-base-" + key)
	err = cache.Folder(folder, func(dir string) error {
		b.Log.Info().Str("image", "launcher").Int("packages", len(packages)).
			Msg("building the layer with libvirt and QEMU (about 20 s: unpacking packages, probing QEMU once)")
		return b.buildLauncherBase(ctx, packages, dir)
	})
	return folder, key, err
}

func (b *Builder) buildLauncherBase(ctx context.Context, packages []debian.Package, dir string) error {
	work, err := os.MkdirTemp("", "virtflow-launcher-")
	if err != nil {
		return fmt.Errorf("build the launcher's base: %w", err)
	}
	defer os.RemoveAll(work)
	virsh, err := b.unpackVirsh(ctx, packages, work)
	if err != nil {
		return err
	}
	files, err := launcherTree(closure.Root(virsh))
	if err != nil {
		return fmt.Errorf("build the launcher's base: %w", err)
	}
	if err := probe(ctx, files, virsh, work); err != nil {
		return fmt.Errorf("probe QEMU's capabilities: %w", err)
	}
	b.Log.Info().Str("image", "launcher").Int64("MiB", files.Size()>>20).Int("files", len(files.Paths())).
		Msg("built base layer")
	layer, err := os.Create(filepath.Join(dir, "layer.tar"))
	if err != nil {
		return fmt.Errorf("build the launcher's base: %w", err)
	}
	if err := errors.Join(files.WriteTar(layer), layer.Close()); err != nil {
		return fmt.Errorf("build the launcher's base: %w", err)
	}
	if err := b.writePackages(dir, packages, files.Paths()); err != nil {
		return fmt.Errorf("build the launcher's base: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "paths"), []byte(strings.Join(files.Paths(), "\n")+"\n"), 0o644)
}

// unpackVirsh unpacks the launcher's packages, virsh among them, into work/packages.
func (b *Builder) unpackVirsh(ctx context.Context, packages []debian.Package, work string) (string, error) {
	if err := b.LauncherDebian.Fetch(ctx, packages); err != nil {
		return "", err
	}
	// The user of the sandbox must get through to it.
	if err := os.Chmod(work, 0o755); err != nil {
		return "", fmt.Errorf("unpack packages: %w", err)
	}
	root := filepath.Join(work, "packages")
	return root, b.LauncherDebian.Extract(ctx, packages, root)
}

// probe lets libvirt ask QEMU what it can do, once, and puts libvirt's cache of the answers into the tree.
func probe(ctx context.Context, files *tree.Tree, virsh, work string) error {
	root := filepath.Join(work, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := files.Unpack(root); err != nil {
		return err
	}
	libvirtd, err := daemon.Start(ctx, root, virsh, work)
	if err != nil {
		return err
	}
	defer libvirtd.Stop()
	if _, err := libvirtd.Virsh(ctx, "domcapabilities", "--virttype", "qemu", "--emulatorbin",
		"/usr/bin/qemu-system-x86_64", "--machine", "q35"); err != nil {
		return fmt.Errorf("%w\n%s", err, libvirtd.Said())
	}
	caches, err := filepath.Glob(filepath.Join(libvirtd.Dir, "cache/libvirt/qemu/cache/capabilities/*.xml"))
	if err != nil || len(caches) == 0 {
		return fmt.Errorf("libvirt kept no answers: %s", libvirtd.Said())
	}
	changeTime := regexp.MustCompile(`<(qemuctime|selfctime)>\d+<`)
	for _, name := range caches {
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		answers, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			return err
		}
		files.Bytes(capabilitiesDir+"/"+filepath.Base(name), 0o644, changeTime.ReplaceAll(answers, []byte("<${1}>0<")))
	}
	return nil
}
