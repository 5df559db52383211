//go:build libvirt

package realtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// images are the unpacked images of the launcher and of the test guest, as this source tree makes them.
var images = sync.OnceValues(unpackImages) //nolint:gochecknoglobals // made once, by the first test that wants them

// unpacked is where removeImages finds them.
var unpacked string //nolint:gochecknoglobals // see images

// image is an image's root file system.
func image(t *testing.T, name string) string {
	t.Helper()
	roots, err := images()
	require.NoError(t, err)
	require.Contains(t, roots, name)
	return roots[name]
}

func removeImages() {
	if unpacked != "" {
		_ = os.RemoveAll(unpacked)
	}
}

// unpackImages builds what is not in the cache.
func unpackImages() (roots map[string]string, err error) {
	cmd := exec.Command("go", "run", "-trimpath", "-buildvcs=false", "../../deploy/images", "build", "--only",
		"guest,launcher")
	var said bytes.Buffer
	cmd.Stderr = &said
	built, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("building the images: %w\n%s", err, said.String())
	}
	if unpacked, err = os.MkdirTemp("", "vf-images"); err != nil {
		return nil, err
	}
	if err := os.Chmod(unpacked, 0o755); err != nil { //nolint:gosec // the launcher is another user
		return nil, err
	}
	roots = map[string]string{}
	for line := range strings.Lines(string(built)) {
		fields := strings.Fields(line) // NAME TAG PATH
		roots[fields[0]] = filepath.Join(unpacked, fields[0])
		if err := unpack(fields[2], roots[fields[0]]); err != nil {
			return nil, fmt.Errorf("unpacking the image %s: %w", fields[0], err)
		}
	}
	// A kubelet lays the pod's own over it.
	return roots, os.WriteFile(filepath.Join(roots["launcher"], "etc/hosts"), nil, 0o644) //nolint:gosec // see above
}

// unpack lays an archive's layers one over the other.
func unpack(archive, root string) error {
	manifest, err := exec.Command("tar", "-xOf", archive, "manifest.json").Output()
	if err != nil {
		return err
	}
	var parts []struct{ Layers []string }
	if err := json.Unmarshal(manifest, &parts); err != nil {
		return err
	}
	if err := os.Mkdir(root, 0o755); err != nil { //nolint:gosec // the launcher is another user
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
