package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

func TestReadCapabilities(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.json")
	_, err := ReadCapabilities(path)
	require.Error(t, err)
	write := func(c contract.HostCapabilities) {
		b, err := json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	good := contract.HostCapabilities{VirtType: "qemu", MachineTypes: []string{"q35"}, CPUModels: []string{"Nehalem"},
		CPUFeatures: []string{"aes"}, HostModel: "Nehalem"}
	write(good)
	read, err := ReadCapabilities(path)
	require.NoError(t, err)
	require.Equal(t, &good, read)

	long := good
	long.MachineTypes = append(strings.Fields(strings.Repeat("pc ", 600)), "q35")
	long.CPUModels = []string{strings.Repeat("x", 64), "", "Nehalem"}
	write(long)
	read, err = ReadCapabilities(path)
	require.NoError(t, err)
	require.Len(t, read.MachineTypes, contract.MostCapabilities)
	require.Equal(t, []string{"Nehalem"}, read.CPUModels)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = ReadCapabilities(path)
	require.Error(t, err)
}
