package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCPUManager(t *testing.T) {
	dir := t.TempDir()
	on, err := CPUManager(dir)
	require.NoError(t, err)
	require.False(t, on, "a kubelet that has not started yet, or has no such manager")
	for content, want := range map[string]bool{
		`{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`:                   false,
		`{"policyName":"static","defaultCpuSet":"0-1","entries":{},"checksum":2582849402}`: true,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cpu_manager_state"), []byte(content), 0o600))
		on, err := CPUManager(dir)
		require.NoError(t, err)
		require.Equal(t, want, on, content)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cpu_manager_state"), []byte("static"), 0o600))
	_, err = CPUManager(dir)
	require.ErrorContains(t, err, "the kubelet's CPU manager")
}
