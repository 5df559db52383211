package hostcpus

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/domain"
)

func TestCoresAndNodes(t *testing.T) {
	dir := t.TempDir()
	for cpu, siblings := range map[string]string{"cpu0": "0,4\n", "cpu4": "0,4\n", "cpu11": "10-11\n", "cpu5": "x\n"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, cpu, "topology"), 0o700))
		file := filepath.Join(dir, cpu, "topology", "thread_siblings_list")
		require.NoError(t, os.WriteFile(file, []byte(siblings), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cpu11", "node3"), 0o700))
	got, err := describe(dir, []int{0, 4, 11})
	require.NoError(t, err)
	require.Equal(t, []domain.HostCPU{{ID: 0}, {ID: 4}, {ID: 11, Core: 10, Node: 3}}, got)
	_, err = describe(dir, []int{5})
	require.ErrorContains(t, err, "the core of CPU 5")
	_, err = describe(dir, []int{7})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestThisHost: on every host, this process has at least one CPU.
func TestThisHost(t *testing.T) {
	got, err := Find()
	require.NoError(t, err)
	require.NotEmpty(t, got)
}
