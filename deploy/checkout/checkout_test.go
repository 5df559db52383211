package checkout_test

import (
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
	t.Chdir("/") // and no temporary folder: TMPDIR may lie in a checkout
	_, err = checkout.Root()
	require.ErrorContains(t, err, "no checkout of virtflow at or above /")
}
