package checkout_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/checkout"
)

func TestRoot(t *testing.T) {
	want, err := filepath.Abs("../..")
	require.NoError(t, err)
	another := "deploy/dev/parts/temporal" // a module of its own
	for _, in := range []string{"deploy/checkout", another, "."} {
		t.Chdir(filepath.Join(want, in))
		root, err := checkout.Root()
		require.NoError(t, err)
		require.Equal(t, want, root)
	}
	elsewhere := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "go.mod"), []byte("module other\n"), 0o600))
	t.Chdir(elsewhere)
	_, err = checkout.Root()
	require.ErrorContains(t, err, "no checkout of virtflow at or above "+elsewhere)
}
