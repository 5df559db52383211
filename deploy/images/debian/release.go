package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// keyring has the keys of Debian's releases; the package debian-archive-keyring, which apt depends on, brings it.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

const sourcesName = "sources.list"

// release is apt's view of a release that is not the machine's: sources, lists and caches of its own in a folder. The
// rest of the machine's configuration, such as its proxy, counts for it, too. A nil one is the machine's own.
type release struct {
	name, dir string
	sources   func(context.Context) (string, error) // gives the list of sources, as in /etc/apt/sources.list
}

func newRelease(name, dir string) *release {
	return &release{name: name, dir: dir, sources: func(ctx context.Context) (string, error) {
		codename, err := machineCodename()
		if err != nil {
			return "", err
		}
		targets, err := run(ctx, "", "apt-get", "update", "--print-uris")
		if err != nil {
			return "", err
		}
		return sourcesOf(string(targets), codename, name)
	}}
}

func (r *release) sourcesList() string { return filepath.Join(r.dir, sourcesName) }

// options are put before what each of apt's commands is given.
func (r *release) options() []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, option := range []string{
		"Dir::Etc::sourcelist=" + r.sourcesList(), "Dir::Etc::sourceparts=-",
		"Dir::Etc::preferences=-", "Dir::Etc::preferencesparts=-",
		"Dir::State::lists=" + filepath.Join(r.dir, "lists"),
		"Dir::State::status=" + filepath.Join(r.dir, "status"),
		"Dir::Cache=" + r.dir,
		"APT::Default-Release=", "Acquire::Languages=none",
		// As root, apt would drop to a user who cannot write here.
		"APT::Sandbox::User=root",
	} {
		out = append(out, "-o", option)
	}
	return out
}

// prepare writes what the options name.
func (r *release) prepare(ctx context.Context) error {
	if r == nil {
		return nil
	}
	sources, err := r.sources(ctx)
	if err != nil {
		return fmt.Errorf("find a mirror of %s: %w", r.name, err)
	}
	for _, dir := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			return fmt.Errorf("prepare apt for %s: %w", r.name, err)
		}
	}
	for name, content := range map[string]string{sourcesName: sources, "status": ""} {
		path := filepath.Join(r.dir, name)
		if old, err := os.ReadFile(path); err == nil && string(old) == content {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("prepare apt for %s: %w", r.name, err)
		}
	}
	return nil
}

func machineCodename() (string, error) {
	const file = "/etc/os-release"
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); found {
			return strings.Trim(name, `"`), nil
		}
	}
	return "", errors.New(file + " names no VERSION_CODENAME")
}

// suites matches what `apt-get update` would fetch first of each suite:
// 'http://mirror/debian/dists/bookworm/InRelease'.
var suites = regexp.MustCompile(`(?m)^'(\S+)/dists/([^/\s]+)/InRelease'`)

// sourcesOf is the list of sources of a release, at the mirrors from which a machine of another codename takes the same
// suites. targets is what `apt-get update --print-uris` says there; it needs no package lists.
func sourcesOf(targets, codename, release string) (string, error) {
	var out strings.Builder
	for _, suite := range suites.FindAllStringSubmatch(targets, -1) {
		for _, kind := range []string{"", "-updates", "-security"} {
			if suite[2] == codename+kind {
				fmt.Fprintf(&out, "deb [signed-by=%s] %s %s main\n", keyring, suite[1], release+kind)
			}
		}
	}
	if out.Len() == 0 {
		return "", fmt.Errorf("apt's sources name none of %s, which would have %s, too", codename, release)
	}
	return out.String(), nil
}
