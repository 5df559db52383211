package poddevice

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGivesHostDevicesToLauncher(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	has := func() bool {
		f, err := os.Open(root)
		require.NoError(t, err)
		defer f.Close()
		found, err := HasVFIO(f)
		require.NoError(t, err)
		return found
	}
	stick := mknod(t, root, "bus/usb/001/002", 130, 0o600)
	require.NoError(t, ensure(t, root))
	require.False(t, has(), "USB locks no memory")
	group, device := mknod(t, root, "vfio/42", 196, 0o600), mknod(t, root, "vfio/devices/vfio0", 197, 0o600)
	for range 2 {
		require.NoError(t, ensure(t, root))
		requireUsable(t, stick, 130)
		requireUsable(t, group, 196)
		requireUsable(t, device, 197)
	}
	require.True(t, has())
	require.NoError(t, os.WriteFile(filepath.Join(root, "dev/vfio/file"), nil, 0o600))
	require.ErrorContains(t, ensure(t, root), "file: is no character device")
}
