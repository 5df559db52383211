package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
)

// TestCPITables: the keys are KubeVirt's, and an error names a Secret without its key.
func TestCPITables(t *testing.T) {
	vmi, dir := &v1.VirtualMachineInstance{}, t.TempDir()
	tables, err := disk.ACPITables(vmi, dir)
	require.NoError(t, err)
	require.Empty(t, tables)
	vmi.Spec.Domain.Firmware = &v1.Firmware{ACPI: &v1.ACPI{SlicNameRef: "one", MsdmNameRef: "two"}}
	slic, msdm := filepath.Join(dir, "one/slic.bin"), filepath.Join(dir, "two/msdm.bin")
	for _, file := range []string{slic, msdm} {
		_, err := disk.ACPITables(vmi, dir)
		var failed *disk.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, filepath.Base(filepath.Dir(file)), failed.Volume)
		require.Contains(t, failed.Problem, filepath.Base(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("table"), 0o600))
	}
	tables, err = disk.ACPITables(vmi, dir)
	require.NoError(t, err)
	require.Equal(t, domain.ACPITables{SLIC: slic, MSDM: msdm}, tables)
}
