//go:build e2e

package e2e

import (
	"bytes"
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
	turns.Take(t, 5)
	m := newMachine(t, "keeps", "Halted", "")
	apply(t, m.withClaims("data"))
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

// TestDisksOfOtherKinds: a claim that is a device, a claim that is only read, below a layer that goes with the pod, a
// CD on a claim, and a ConfigMap as a file system. The guest sees each, and finds what it wrote to the device after a
// restart.
func TestDisksOfOtherKinds(t *testing.T) {
	turns.Take(t, 6)
	m := newMachine(t, "kinds", "Halted", "")
	device := claimOnDevice(t, m.namespace, "device", "64Mi")
	below := filepath.Join(claimWith(t, m.namespace, "below", "16Mi", ""), "disk.img")
	cd := filepath.Join(claimWith(t, m.namespace, "cd", "16Mi", ""), "disk.img")
	for file, text := range map[string]string{below: "as it was\n", cd: "of the CD\n"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, os.Truncate(file, 16<<20))
		require.NoError(t, os.Chown(file, 107, 107))
	}
	last := "          - {name: cloudinit, disk: {bus: virtio}}\n"
	manifest := strings.NewReplacer(last, last+`
          - {name: device, serial: device, disk: {bus: virtio}}
          - {name: below, serial: below, disk: {bus: virtio}}
          - {name: cd, cdrom: {bus: scsi}}
          filesystems:
          - {name: settings, virtiofs: {}}
`, "      volumes:\n", `      volumes:
      - name: settings
        configMap: {name: settings}
      - name: device
        persistentVolumeClaim: {claimName: device}
      - name: below
        ephemeral: {persistentVolumeClaim: {claimName: below}}
      - name: cd
        persistentVolumeClaim: {claimName: cd}
`).Replace(m.manifest("Always", ""))
	require.Contains(t, manifest, "cdrom")
	m.kubectl("create", "configmap", "settings", "--from-literal=key=of-the-config-map")
	apply(t, manifest)
	first := m.untilBooted()
	m.untilAgentAnswers()
	const firstLine = `f() { head -n 1 /dev/$(basename $(dirname $(grep -lx "$1" /sys/block/*/serial))); }; `
	const write = `f() { echo "$2" | dd of=/dev/$(basename $(dirname $(grep -lx "$1" /sys/block/*/serial))) conv=fsync; }; `
	require.Equal(t, "as it was", strings.TrimSpace(m.inGuestBy(firstLine+"f below")))
	require.Equal(t, "of the CD", strings.TrimSpace(m.inGuestBy("head -n 1 /dev/sr0")))
	require.Equal(t, "of-the-config-map", strings.TrimSpace(
		m.inGuestBy("mkdir -p /settings && mount -t virtiofs settings /settings && cat /settings/key")))
	m.inGuestBy(write + "f device of-the-first-instance; f below of-the-first-instance")
	require.Equal(t, "of-the-first-instance", strings.TrimSpace(m.inGuestBy(firstLine+"f below")))

	m.kubectl("delete", "vmi", m.name)
	m.untilReplaced(first)
	m.untilAgentAnswers()
	require.Equal(t, "of-the-first-instance", strings.TrimSpace(m.inGuestBy(firstLine+"f device")))
	require.Equal(t, "as it was", strings.TrimSpace(m.inGuestBy(firstLine+"f below")))
	m.remove()
	written, err := os.ReadFile(device)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(written, []byte("of-the-first-instance\n")))
}
