//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/turns"
)

// TestADiskOnAClaim: the VM waits for its claim, visibly, goes on by itself, has its disk on it, finds the same disk
// when it is started again, and cannot be moved with a claim that is not shared.
func TestADiskOnAClaim(t *testing.T) {
	turns.Take(t, 0)
	m := newMachine(t, "keeps", "Halted", "")
	manifest := m.manifest("Always", "")
	last := "          - {name: cloudinit, disk: {bus: virtio}}\n"
	require.Contains(t, manifest, last)
	manifest = strings.Replace(manifest, last, last+"          - {name: data, disk: {bus: virtio}}\n", 1)
	manifest = strings.Replace(manifest, "      volumes:\n",
		"      volumes:\n      - name: data\n        persistentVolumeClaim: {claimName: data}\n", 1)
	apply(t, manifest)
	m.untilStatus(string(kubevirt.VirtualMachineStatusPvcNotFound))

	dir := claimWith(t, m.namespace, "data", "64Mi", "")
	first := m.untilBooted()
	file := filepath.Join(dir, "disk.img")
	made, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, made.Size())
	require.EqualValues(t, 107, made.Sys().(*syscall.Stat_t).Uid)
	disk := ""
	for _, v := range first.Status.VolumeStatus {
		if v.Name == "data" {
			disk = v.Target
			require.NotNil(t, v.PersistentVolumeClaimInfo)
			require.Equal(t, "64Mi", v.PersistentVolumeClaimInfo.Capacity.Storage().String())
		}
	}
	require.NotEmpty(t, disk, "%+v", first.Status.VolumeStatus)
	m.untilAgentAnswers()
	m.inGuestBy("echo of the first instance | dd of=/dev/" + disk + " bs=512 conv=fsync")
	until(t, time.Minute, "the VM says that it stays where it is", func() error {
		vmi, err := m.vmi()
		if err != nil {
			return err
		}
		for _, c := range vmi.Status.Conditions {
			if c.Type == kubevirt.VirtualMachineInstanceIsMigratable && c.Reason == "DisksNotLiveMigratable" {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", vmi.Status.Conditions)
	})

	m.strategy("Halted")
	m.untilStatus(string(kubevirt.VirtualMachineStatusStopped))
	m.strategy("Always")
	m.untilBooted()
	again, err := os.Stat(file)
	require.NoError(t, err)
	require.True(t, os.SameFile(made, again))
	m.untilAgentAnswers()
	require.Equal(t, "of the first instance", strings.TrimSpace(m.inGuestBy("head -n 1 /dev/"+disk)))
	m.remove()
}
