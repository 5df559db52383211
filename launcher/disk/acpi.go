package disk

import (
	"os"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

// ACPITables finds the tables of firmware.acpi in the Secrets of the volumes that it names, under dir. Their keys are
// KubeVirt's: slic.bin and msdm.bin. Errors are *Error.
func ACPITables(vmi *v1.VirtualMachineInstance, dir string) (domain.ACPITables, error) {
	var out domain.ACPITables
	f := vmi.Spec.Domain.Firmware
	if f == nil || f.ACPI == nil {
		return out, nil
	}
	for _, table := range []struct {
		volume, key string
		to          *string
	}{{f.ACPI.SlicNameRef, "slic.bin", &out.SLIC}, {f.ACPI.MsdmNameRef, "msdm.bin", &out.MSDM}} {
		if table.volume == "" {
			continue
		}
		path := filepath.Join(dir, table.volume, table.key)
		if _, err := os.Stat(path); err != nil {
			return out, volumeError(table.volume, "its Secret has no key %s, which firmware.acpi requires", table.key)
		}
		*table.to = path
	}
	return out, nil
}
