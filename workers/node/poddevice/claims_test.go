package poddevice

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/internal/claims"
)

// TestGivesPVCDevicesToLauncher: the device is made as the container runtime makes it, and the launcher then owns it
// instead of the owner on the node.
func TestGivesPVCDevicesToLauncher(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "dev", claims.DevicesName)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	disk := filepath.Join(dir, "data")
	number := unix.Mkdev(7, 200)
	require.NoError(t, unix.Mknod(disk, unix.S_IFBLK|0o660, int(number)), "this test makes device nodes: run it as root")
	require.NoError(t, os.Chown(disk, 0, 6))
	for range 2 {
		require.NoError(t, ensure(t, root))
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(disk, &st))
		require.Equal(t, []any{number, uint32(107), uint32(107)}, []any{st.Rdev, st.Uid, st.Gid})
	}
}

func TestGivesNoOtherFiles(t *testing.T) {
	for name, put := range map[string]func(file, elsewhere string) error{
		"a file": func(file, _ string) error { return os.WriteFile(file, nil, 0o600) },
		"a link": func(file, elsewhere string) error { return os.Symlink(elsewhere, file) },
		"another kind of device": func(file, _ string) error {
			return unix.Mknod(file, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "disk")
			require.NoError(t, unix.Mknod(elsewhere, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200))))
			file := filepath.Join(root, "dev", claims.DevicesName, "data")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, put(file, elsewhere))
			require.ErrorContains(t, ensure(t, root), "data: is no block device")
			for _, f := range []string{file, elsewhere} {
				var st unix.Stat_t
				require.NoError(t, unix.Lstat(f, &st))
				require.Zero(t, st.Uid)
			}
		})
	}
	root, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(root, "dev", claims.DevicesName)))
	require.Error(t, ensure(t, root), "a link is not followed")
}
