package state_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/state"
)

// launcher is one of another pod on the same PVC.
func launcher(t *testing.T, root string) state.Claim {
	t.Helper()
	return state.Claim{Root: root, Link: filepath.Join(t.TempDir(), "state")}
}

func write(t *testing.T, c state.Claim, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(c.NVRAM(), []byte(content), 0o600))
	require.NoError(t, os.MkdirAll(c.TPM(), 0o700))
}

func read(t *testing.T, c state.Claim) string {
	t.Helper()
	content, err := os.ReadFile(c.NVRAM())
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return string(content)
}

func directories(t *testing.T, root string) int {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(root, "state-*"))
	require.NoError(t, err)
	return len(all)
}

func TestNextLauncherFindsState(t *testing.T) {
	root := t.TempDir()
	first := launcher(t, root)
	require.NoError(t, first.Take())
	write(t, first, "kept")
	require.NoError(t, first.Take(), "again")
	require.Equal(t, "kept", read(t, first))
	second := launcher(t, root)
	require.NoError(t, second.Take())
	require.Equal(t, "kept", read(t, second))
	require.Equal(t, 1, directories(t, root))
}

// TestMove: the target has none of the source's files, and its state is current once it is adopted, not before.
func TestMove(t *testing.T) {
	root := t.TempDir()
	source, target := launcher(t, root), launcher(t, root)
	require.NoError(t, source.Take())
	write(t, source, "source")
	require.NoError(t, target.Expect())
	require.Empty(t, read(t, target))
	require.NoError(t, target.Expect(), "again")
	require.Equal(t, 2, directories(t, root), "one of each")
	write(t, target, "target")
	require.Equal(t, "source", read(t, source))

	left := launcher(t, root) // the target was lost
	require.NoError(t, left.Take())
	require.Equal(t, "source", read(t, left))
	require.Equal(t, 1, directories(t, root), "what it has left is removed")

	require.NoError(t, target.Expect())
	write(t, target, "target")
	require.NoError(t, target.Adopt())
	require.NoError(t, target.Adopt(), "again")
	require.Equal(t, 1, directories(t, root))
	next := launcher(t, root)
	require.NoError(t, next.Take())
	require.Equal(t, "target", read(t, next))
}

func TestRefusesLinks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.Mkdir(secret, 0o700))
	for name, change := range map[string]func(root string, c state.Claim) error{
		"the current one": func(root string, _ state.Claim) error {
			if err := os.Remove(filepath.Join(root, "current")); err != nil {
				return err
			}
			return os.Symlink(secret, filepath.Join(root, "current"))
		},
		"the variables": func(_ string, c state.Claim) error { return os.Symlink(secret, c.NVRAM()) },
		"the TPM":       func(_ string, c state.Claim) error { return os.Symlink(secret, c.TPM()) },
	} {
		root := t.TempDir()
		first := launcher(t, root)
		require.NoError(t, first.Take())
		require.NoError(t, change(root, first), name)
		require.ErrorContains(t, launcher(t, root).Take(), "persistent state", name)
	}
	gone := launcher(t, filepath.Join(t.TempDir(), "absent"))
	require.Error(t, gone.Take())
	require.Error(t, gone.Expect())
	require.Error(t, gone.Adopt())
}
