package images

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Unpack builds the images that are not in the cache, and unpacks each one's root file system, with its owners, into a
// folder of its name in dir. It needs root.
func Unpack(dir string, names ...string) (roots map[string]string, err error) {
	cmd := exec.Command("go", "run", "-trimpath", "-buildvcs=false", "github.com/virtflow/virtflow/deploy/images",
		"build", "--only", strings.Join(names, ","))
	var said bytes.Buffer
	cmd.Stderr = &said
	built, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("building the images: %w\n%s", err, said.String())
	}
	roots = map[string]string{}
	for line := range strings.Lines(string(built)) {
		fields := strings.Fields(line) // NAME TAG PATH DIGEST
		if len(fields) != 4 {
			return nil, fmt.Errorf("building the images said %q", line)
		}
		roots[fields[0]] = filepath.Join(dir, fields[0])
		if err := unpack(fields[2], roots[fields[0]]); err != nil {
			return nil, fmt.Errorf("unpacking the image %s: %w", fields[0], err)
		}
	}
	return roots, nil
}

// unpack extracts an archive's layers one over the other.
func unpack(archive, root string) error {
	manifest, err := exec.Command("tar", "-xOf", archive, "manifest.json").Output()
	if err != nil {
		return err
	}
	var parts []struct{ Layers []string }
	if err := json.Unmarshal(manifest, &parts); err != nil {
		return err
	}
	if len(parts) != 1 {
		return fmt.Errorf("its manifest has %d parts", len(parts))
	}
	if err := os.Mkdir(root, 0o755); err != nil { // a launcher is another user
		return err
	}
	for _, layer := range parts[0].Layers {
		script := `set -o pipefail; tar -xOf "$0" "$1" | tar -xp --numeric-owner -C "$2"`
		if out, err := exec.Command("bash", "-c", script, archive, layer, root).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}
