package poddevice

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ensure does what the node worker does to a pod with that root directory.
func ensure(t *testing.T, root string) error {
	t.Helper()
	f, err := os.Open(root)
	require.NoError(t, err)
	defer f.Close()
	return Ensure(f)
}

// requireUsable opens the device as the launcher's user is allowed to.
func requireUsable(t *testing.T, file string, minor uint32) {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(file, &st))
	require.Equal(t, []any{uint32(unix.S_IFCHR), unix.Mkdev(10, minor), uint32(107), uint32(107)},
		[]any{st.Mode & unix.S_IFMT, st.Rdev, st.Uid, st.Gid})
	require.EqualValues(t, 0o600, st.Mode&0o600)
}

func mknod(t *testing.T, root, path string, minor, mode uint32) string {
	t.Helper()
	file := filepath.Join(root, "dev", path)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, unix.Mknod(file, unix.S_IFCHR|mode, int(unix.Mkdev(10, minor))),
		"this test makes device nodes: run it as root")
	return file
}

// TestKVMAsTheRuntimeMakesIt: the container runtime gives /dev/kvm the owner that it has on the node: on Debian and
// Ubuntu, only a group of the node may open it.
func TestKVMAsTheRuntimeMakesIt(t *testing.T) {
	root := t.TempDir()
	kvm := mknod(t, root, "kvm", 232, 0o660)
	require.NoError(t, os.Chown(kvm, 0, 104))
	for range 2 {
		require.NoError(t, ensure(t, root))
		requireUsable(t, kvm, 232)
	}
}

// TestNoKVM: a pod that was not given KVM gets none.
func TestNoKVM(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	require.NoError(t, ensure(t, root))
	require.NoFileExists(t, filepath.Join(root, "dev/kvm"))
}

func TestVhostNet(t *testing.T) {
	root := t.TempDir()
	file := mknod(t, root, "vhost-net", 238, 0o660)
	require.NoError(t, ensure(t, root))
	requireUsable(t, file, 238)
}

func TestKeepsOwnerOfOtherDevice(t *testing.T) {
	root := t.TempDir()
	file := mknod(t, root, "kvm", 183, 0o660) // the hardware's random numbers
	require.ErrorContains(t, ensure(t, root), "something else")
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(file, &st))
	require.Zero(t, st.Uid)
}

func TestKeepsOwnerOfNodesDevice(t *testing.T) {
	root, node := t.TempDir(), t.TempDir()
	require.NoError(t, unix.Mount("node", node, "tmpfs", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(node, unix.MNT_DETACH)) })
	own := mknod(t, node, "kvm", 232, 0o660)
	mounted := filepath.Join(root, "dev/kvm")
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	require.NoError(t, os.WriteFile(mounted, nil, 0o600))
	require.NoError(t, unix.Mount(own, mounted, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(mounted, unix.MNT_DETACH)) })
	require.ErrorContains(t, ensure(t, root), "the node's own")
	require.NoError(t, os.Chmod(own, 0o666))
	require.NoError(t, ensure(t, root))
}

func TestTun(t *testing.T) {
	t.Run("made where it is missing", func(t *testing.T) {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
		for range 2 {
			require.NoError(t, ensure(t, root))
			requireUsable(t, filepath.Join(root, "dev/net/tun"), 200)
		}
	})
	t.Run("given to the launcher's user where it is root's", func(t *testing.T) {
		root := t.TempDir()
		tun := mknod(t, root, "net/tun", 200, 0o600)
		require.NoError(t, ensure(t, root))
		requireUsable(t, tun, 200)
	})
}

func TestLinksAreNotFollowed(t *testing.T) {
	for name, prepare := range map[string]func(root, elsewhere string) error{
		"/dev": func(root, elsewhere string) error { return os.Symlink(elsewhere, filepath.Join(root, "dev")) },
		"/dev/net": func(root, elsewhere string) error {
			_ = os.Mkdir(filepath.Join(root, "dev"), 0o755)
			return os.Symlink(elsewhere, filepath.Join(root, "dev/net"))
		},
		"tun": func(root, elsewhere string) error {
			_ = os.MkdirAll(filepath.Join(root, "dev/net"), 0o755)
			return os.Symlink(filepath.Join(elsewhere, "x"), filepath.Join(root, "dev/net/tun"))
		},
		"kvm": func(root, elsewhere string) error {
			_ = os.MkdirAll(filepath.Join(root, "dev"), 0o755)
			return os.Symlink(filepath.Join(elsewhere, "x"), filepath.Join(root, "dev/kvm"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, elsewhere := t.TempDir(), t.TempDir()
			require.NoError(t, prepare(root, elsewhere))
			require.Error(t, ensure(t, root))
			left, err := os.ReadDir(elsewhere)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
