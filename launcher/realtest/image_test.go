//go:build libvirt

package realtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	built "github.com/virtflow/virtflow/testsuite/images"
)

// images are the unpacked images of the launcher and of the test guest, as this source tree makes them.
var images = sync.OnceValues(unpackImages)

// unpacked is where removeImages finds them.
var unpacked string

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
	if unpacked, err = os.MkdirTemp("", "vf-images"); err != nil {
		return nil, err
	}
	if err := os.Chmod(unpacked, 0o755); err != nil { // the launcher is another user
		return nil, err
	}
	roots, err = built.Unpack(unpacked, "guest", "launcher")
	if err != nil {
		return nil, err
	}
	// A kubelet lays the pod's own over it.
	return roots, os.WriteFile(filepath.Join(roots["launcher"], "etc/hosts"), nil, 0o644)
}

// TestEmulatorHasItsModules: devices that are not part of QEMU's program, and that guests may have.
func TestEmulatorHasItsModules(t *testing.T) {
	out, err := exec.Command("chroot", image(t, "launcher"), "/usr/bin/qemu-system-x86_64", "-device", "help").
		CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, device := range []string{"virtio-vga", "usb-host", "usb-redir"} {
		require.Contains(t, string(out), `name "`+device+`"`)
	}
}
