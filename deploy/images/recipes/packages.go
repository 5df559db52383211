package recipes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/debian"
)

// packagesFile is the list, in the launcher's base, of the packages that its files are of.
const packagesFile = "packages.json"

// writePackages leaves in dir which of the packages have files among the paths of an image: a closure has those of few.
func (b *Builder) writePackages(dir string, packages []debian.Package, paths []string) error {
	owners, err := b.LauncherDebian.Owners(packages)
	if err != nil {
		return err
	}
	data, err := json.Marshal(packagesWith(packages, owners, paths))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, packagesFile), data, 0o644)
}

func readPackages(dir string) (packages []debian.Package, err error) {
	data, err := os.ReadFile(filepath.Join(dir, packagesFile))
	if err != nil {
		return nil, fmt.Errorf("read what the launcher's base is made of: %w", err)
	}
	if err := json.Unmarshal(data, &packages); err != nil {
		return nil, fmt.Errorf("read what the launcher's base is made of: %w", err)
	}
	return packages, nil
}

// packagesWith returns the packages that have one of the paths, which are relative and merged into /usr.
func packagesWith(packages []debian.Package, owners map[string]debian.Package, paths []string) []debian.Package {
	merged := map[string]string{}
	for path, p := range owners {
		merged[closure.Merged(path)] = p.File
	}
	found := map[string]bool{}
	for _, path := range paths {
		found[merged["/"+path]] = true
	}
	var out []debian.Package
	for _, p := range packages {
		if found[p.File] {
			out = append(out, p)
		}
	}
	return out
}
