package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/deploy/images/cache"
)

// lockWait makes apt wait for another apt instead of failing at once.
const lockWait = "DPkg::Lock::Timeout=300"

// Package is one package file of the archive.
type Package struct {
	File    string // libc6_2.36-9+deb12u10_amd64.deb, the epoch's colon as %3a: the way apt names it on disk
	Release string // Debian's release that it was resolved in ("trixie")
}

// Name is the package's name.
func (p Package) Name() string {
	name, _, _ := strings.Cut(p.File, "_")
	return name
}

// Version is the package's version with its epoch.
func (p Package) Version() string {
	parts := strings.SplitN(p.File, "_", 3)
	if len(parts) < 3 {
		return ""
	}
	version, err := url.PathUnescape(parts[1])
	if err != nil {
		return parts[1]
	}
	return version
}

// Architecture is the package's architecture: amd64, or all.
func (p Package) Architecture() string {
	return strings.TrimSuffix(p.File[strings.LastIndex(p.File, "_")+1:], ".deb")
}

// Archive resolves and fetches packages; the files are kept in the cache. Safe for concurrent use.
type Archive struct {
	cache cache.Dir
	lists *Lists
	log   zerolog.Logger
}

// NewArchive returns the archive of the machine's own release. Its files are kept beneath the cache's folder debs.
func NewArchive(dir cache.Dir, log zerolog.Logger) *Archive {
	return &Archive{cache: dir, lists: NewLists(log), log: log}
}

// NewRelease returns the archive of another release ("trixie"), from the mirrors that the machine uses. Nothing of it
// is installed on the machine.
func NewRelease(dir cache.Dir, name string, log zerolog.Logger) *Archive {
	lists := &Lists{log: log, release: newRelease(name, dir.Path("apt-"+name))}
	return &Archive{cache: dir, lists: lists, log: log}
}

// EnsureInstalled installs on the host what is missing of the named packages, of the machine's own release. It needs
// root only when something is.
func (a *Archive) EnsureInstalled(ctx context.Context, names ...string) error {
	if a.lists.release != nil {
		return fmt.Errorf("packages of %s are not installed on this machine", a.lists.release.name)
	}
	var missing []string
	for _, name := range names {
		out, _ := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Status}", name).Output()
		if !strings.HasSuffix(string(out), " installed") {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	a.log.Info().Strs("packages", missing).Msg("installing build tools with apt")
	return a.lists.Use(ctx, func() error {
		args := append([]string{"install", "-y", "-q", "--no-install-recommends", "-o", lockWait}, missing...)
		_, err := run(ctx, "", "apt-get", args...)
		return err
	})
}

// Sources returns the file that lists the release's sources, for a program that installs from them.
func (a *Archive) Sources(ctx context.Context) (string, error) {
	r := a.lists.release
	if r == nil {
		return "", errors.New("the sources of this machine are in no one file")
	}
	if err := r.prepare(ctx); err != nil {
		return "", err
	}
	return r.sourcesList(), nil
}

// Resolve returns the named packages with all their dependencies, as on an empty machine, sorted.
func (a *Archive) Resolve(ctx context.Context, names ...string) ([]Package, error) {
	private, err := os.MkdirTemp("", "virtflow-apt-")
	if err != nil {
		return nil, fmt.Errorf("resolve packages: %w", err)
	}
	defer os.RemoveAll(private)
	if err := os.WriteFile(filepath.Join(private, "status"), nil, 0o644); err != nil {
		return nil, fmt.Errorf("resolve packages: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(private, "archives", "partial"), 0o755); err != nil {
		return nil, fmt.Errorf("resolve packages: %w", err)
	}

	var out []byte
	err = a.lists.Use(ctx, func() error {
		args := []string{
			"-o", "Dir::State::status=" + filepath.Join(private, "status"),
			"-o", "Dir::Cache::archives=" + filepath.Join(private, "archives"),
			"-o", "Debug::NoLocking=true",
			"install", "-y", "-q", "--no-install-recommends", "--print-uris",
		}
		out, err = a.lists.apt(ctx, "", "apt-get", append(args, names...)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("resolve packages %s: %w", strings.Join(names, " "), err)
	}
	packages := parseURIs(string(out))
	if len(packages) == 0 {
		return nil, fmt.Errorf("resolve packages %s: apt-get lists none; do its sources name a Debian release?",
			strings.Join(names, " "))
	}
	release, err := a.codename()
	if err != nil {
		return nil, fmt.Errorf("resolve packages: %w", err)
	}
	for i := range packages {
		packages[i].Release = release
	}
	return packages, nil
}

// codename returns the codename of the archive's release.
func (a *Archive) codename() (string, error) {
	if r := a.lists.release; r != nil {
		return r.name, nil
	}
	return machineCodename()
}

// parseURIs reads the lines 'http://…' FILE SIZE HASH of apt-get --print-uris.
func parseURIs(out string) []Package {
	var packages []Package
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.HasPrefix(line, "'") || !strings.HasSuffix(fields[1], ".deb") {
			continue
		}
		packages = append(packages, Package{File: fields[1]})
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.File, b.File) })
	return packages
}

// List returns the packages' files, one a line: the inputs of a build that uses them.
func List(packages []Package) string {
	var b strings.Builder
	for _, p := range packages {
		b.WriteString(p.File + "\n")
	}
	return b.String()
}

// Fetch downloads what is not in the cache yet. After ErrOutdated, the packages must be resolved again.
func (a *Archive) Fetch(ctx context.Context, packages []Package) error {
	var wanted []string
	for _, p := range packages {
		if !cache.Exists(a.file(p)) {
			wanted = append(wanted, p.Name()+"="+p.Version())
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	a.log.Info().Int("packages", len(wanted)).Msg("downloading Debian packages")
	if err := os.MkdirAll(a.cache.Path("debs"), 0o755); err != nil {
		return fmt.Errorf("download packages: %w", err)
	}
	err := a.download(ctx, wanted)
	if err == nil || ctx.Err() != nil {
		return err
	}
	a.log.Warn().Err(err).Msg("failed to download Debian packages; refreshing apt's package lists")
	a.lists.Refresh(ctx)
	return fmt.Errorf("%w: %w", ErrOutdated, err)
}

func (a *Archive) download(ctx context.Context, wanted []string) error {
	dir, err := os.MkdirTemp(a.cache.Path("debs"), ".tmp-")
	if err != nil {
		return fmt.Errorf("download packages: %w", err)
	}
	defer os.RemoveAll(dir)
	// As root, apt would drop to a user who cannot write here, and warn about it.
	args := append([]string{"download", "-q", "-o", "APT::Sandbox::User=root"}, wanted...)
	if _, err := a.lists.apt(ctx, dir, "apt-get", args...); err != nil {
		return fmt.Errorf("download packages: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("download packages: %w", err)
	}
	for _, entry := range entries {
		if err := os.Rename(filepath.Join(dir, entry.Name()), a.cache.Path("debs", entry.Name())); err != nil {
			return fmt.Errorf("download packages: %w", err)
		}
	}
	return nil
}

// Extract unpacks the files of all packages, one over the other, into dir. They must have been fetched.
func (a *Archive) Extract(ctx context.Context, packages []Package, dir string) error {
	for _, p := range packages {
		if _, err := run(ctx, "", "dpkg-deb", "-x", a.file(p), dir); err != nil {
			return fmt.Errorf("unpack %s: %w", p.File, err)
		}
	}
	return nil
}

// Owners returns the package of each path ("/usr/bin/qemu-img") that the packages unpack. They must have been fetched.
func (a *Archive) Owners(packages []Package) (map[string]Package, error) {
	owners := map[string]Package{}
	for _, p := range packages {
		if err := a.paths(p, func(path string) { owners[path] = p }); err != nil {
			return nil, fmt.Errorf("list the files of %s: %w", p.File, err)
		}
	}
	return owners, nil
}

func (a *Archive) paths(p Package, each func(string)) error {
	files, err := exec.Command("dpkg-deb", "--fsys-tarfile", a.file(p)).Output()
	if err != nil {
		return err
	}
	for in := tar.NewReader(bytes.NewReader(files)); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeDir {
			each(path.Clean("/" + header.Name))
		}
	}
}

// Unpacked is the folder with the files of one package, without those that it depends on: for a program whose package
// would also install a service. Nothing of it is installed.
func (a *Archive) Unpacked(ctx context.Context, name string) (dir string, err error) {
	err = Again(func() error {
		packages, err := a.Resolve(ctx, name)
		if err != nil {
			return err
		}
		packages = slices.DeleteFunc(packages, func(p Package) bool { return p.Name() != name })
		if len(packages) != 1 {
			return fmt.Errorf("unpack %s: there are %d packages of that name", name, len(packages))
		}
		dir, err = a.Unpack(ctx, strings.TrimSuffix(packages[0].File, ".deb"), packages)
		return err
	})
	return dir, err
}

// Unpack returns the folder of the cache with the files of some packages, which it fetches the first time. A name begins
// the folder's.
func (a *Archive) Unpack(ctx context.Context, name string, packages []Package) (dir string, err error) {
	dir = a.cache.Path("unpacked", name+"-"+cache.Key(List(packages)))
	return dir, cache.Folder(dir, func(dir string) error {
		if err := a.Fetch(ctx, packages); err != nil {
			return err
		}
		return a.Extract(ctx, packages, dir)
	})
}

func (a *Archive) file(p Package) string { return a.cache.Path("debs", p.File) }

// run runs a command and returns its standard output; an error carries the end of its standard error.
func run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String())
		if len(said) > 500 {
			said = "…" + said[len(said)-500:]
		}
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args[:min(len(args), 6)], " "), err, said)
	}
	return stdout.Bytes(), nil
}
