//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestDiskOnPVC: the VM waits for its PVC, with a reason in its status, and then starts. Its disk on the PVC takes no
// more space than the guest uses, has the same content after a restart, and prevents a migration, because the PVC is
// not shared.
func TestDiskOnPVC(t *testing.T) {
	suite.TakeTurn(t, 5)
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
	blocks := func() int64 {
		now, err := os.Stat(file)
		require.NoError(t, err)
		return now.Sys().(*syscall.Stat_t).Blocks * 512
	}
	m.runByAgent("dd if=/dev/urandom of=/dev/" + disk + " bs=1M count=8 conv=fsync")
	require.GreaterOrEqual(t, blocks(), int64(8<<20))
	m.runByAgent("blkdiscard /dev/" + disk)
	require.Less(t, blocks(), int64(1<<20), "what the guest discards is given back")
	m.runByAgent("echo of the first instance | dd of=/dev/" + disk + " bs=512 conv=fsync")
	until(t, time.Minute, "the VM has the condition that it cannot migrate", func() error {
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
	require.Equal(t, "of the first instance", strings.TrimSpace(m.runByAgent("head -n 1 /dev/"+disk)))
	m.remove()
}

// TestDiskKinds: a PVC that is a device; a PVC that is only read, below an ephemeral layer; a read-only disk; a CD on a
// PVC; a PVC and a ConfigMap as file systems. The guest sees each disk with the cache mode and block size of its spec,
// and finds after a restart what it wrote to the device and to the file system. It boots from the disk on the USB bus
// whose boot order comes first.
func TestDiskKinds(t *testing.T) {
	suite.TakeTurn(t, 6)
	gates := func(names string) {
		configured(t, `{"configuration":{"developerConfiguration":{"featureGates":`+names+`}}}`)
	}
	t.Cleanup(func() { gates("null") })
	gates(`["EnableVirtioFsStorageVolumes"]`)
	m := newMachine(t, "kinds", "Halted", "")
	folder := claimWith(t, m.namespace, "folder", "16Mi", "")
	device := claimOnDevice(t, m.namespace, "device", "64Mi")
	below := filepath.Join(claimWith(t, m.namespace, "below", "16Mi", ""), "disk.img")
	cd := filepath.Join(claimWith(t, m.namespace, "cd", "16Mi", ""), "disk.img")
	fixed := filepath.Join(claimWith(t, m.namespace, "fixed", "16Mi", ""), "disk.img")
	claimWith(t, m.namespace, "stick", "64Mi", bootedWith(t, "virtflow.stick"))
	for file, text := range map[string]string{below: "as it was\n", cd: "of the CD\n", fixed: "for good\n"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(t, os.Truncate(file, 16<<20))
		require.NoError(t, os.Chown(file, 107, 107))
	}
	last := "          - {name: cloudinit, disk: {bus: virtio}}\n"
	manifest := strings.NewReplacer(last, last+`
          - {name: stick, bootOrder: 1, disk: {bus: usb}}
          - {name: device, serial: device, blockSize: {matchVolume: {enabled: true}}, disk: {bus: virtio}}
          - name: below
            serial: below
            cache: writethrough
            io: threads
            blockSize: {custom: {logical: 1024, physical: 4096}}
            disk: {bus: virtio}
          - {name: fixed, serial: fixed, disk: {bus: virtio, readonly: true}}
          - {name: cd, cdrom: {bus: scsi}}
          filesystems:
          - {name: settings, virtiofs: {}}
          - {name: folder, virtiofs: {}}
`, "      volumes:\n", `      volumes:
      - name: settings
        configMap: {name: settings}
      - name: folder
        persistentVolumeClaim: {claimName: folder}
      - name: device
        persistentVolumeClaim: {claimName: device}
      - name: stick
        persistentVolumeClaim: {claimName: stick}
      - name: fixed
        persistentVolumeClaim: {claimName: fixed}
      - name: below
        ephemeral: {persistentVolumeClaim: {claimName: below}}
      - name: cd
        persistentVolumeClaim: {claimName: cd}
`, "        cpu: {cores: 1}\n", "        cpu: {cores: 1}\n        ioThreadsPolicy: shared\n").
		Replace(m.manifest("Always", ""))
	require.Contains(t, manifest, "cdrom")
	m.kubectl("create", "configmap", "settings", "--from-literal=key=of-the-config-map")
	until(t, time.Minute, "the feature gate has reached the webhooks", func() error {
		_, err := tryWith(manifest, "apply", "-f", "-")
		if err != nil {
			require.ErrorContains(t, err, "virtiofs")
		}
		return err
	})
	first := m.untilBooted()
	m.untilAgentAnswers()
	const firstLine = `f() { head -n 1 /dev/$(basename $(dirname $(grep -lx "$1" /sys/block/*/serial))); }; `
	const write = `f() { echo "$2" | dd of=/dev/$(basename $(dirname $(grep -lx "$1" /sys/block/*/serial))) conv=fsync; }; `
	require.Equal(t, "as it was", strings.TrimSpace(m.runByAgent(firstLine+"f below")))
	require.Contains(t, m.runByAgent("cat /proc/cmdline"), "virtflow.stick", "only the stick's menu says so")
	const queue = bySerial + `for s in device below; do cat /sys/block/$(d $s)/queue/$FILE; done`
	require.Equal(t, "write back\nwrite through\n", m.runByAgent("FILE=write_cache; "+queue))
	require.Equal(t, "4096\n1024\n", m.runByAgent("FILE=logical_block_size; "+queue))
	require.Contains(t, m.runByAgent(bySerial+"cat /sys/block/$(d fixed)/ro; head -n 1 /dev/$(d fixed)"), "1\nfor good")
	_, err := m.tryByAgent(bySerial + "echo other | dd of=/dev/$(d fixed) conv=fsync")
	require.Error(t, err)
	qemu := m.domains()[0].args // what the guest cannot see
	require.Regexp(t, `"qom-type":"iothread","id":"iothread1"`, qemu)
	require.Regexp(t, `disk\.img","aio":"threads"|"aio":"threads"[^}]*disk\.img`, qemu)
	require.Equal(t, "of the CD", strings.TrimSpace(m.runByAgent("head -n 1 /dev/sr0")))
	require.Equal(t, "of-the-config-map", strings.TrimSpace(
		m.runByAgent("mkdir -p /settings && mount -t virtiofs settings /settings && cat /settings/key")))
	const mount = "mkdir -p /folder && mount -t virtiofs folder /folder; cat /folder/*; "
	found := filepath.Join(folder, "found")
	require.NoError(t, os.WriteFile(found, []byte("of the claim\n"), 0o644)) // another user reads it
	require.Equal(t, "of the claim\n", m.runByAgent(mount+"echo of the guest >/folder/made"))
	m.runByAgent(write + "f device of-the-first-instance; f below of-the-first-instance")
	require.Equal(t, "of-the-first-instance", strings.TrimSpace(m.runByAgent(firstLine+"f below")))

	m.kubectl("delete", "vmi", m.name)
	m.untilReplaced(first)
	m.untilAgentAnswers()
	require.Equal(t, "of-the-first-instance", strings.TrimSpace(m.runByAgent(firstLine+"f device")))
	require.Equal(t, "as it was", strings.TrimSpace(m.runByAgent(firstLine+"f below")))
	require.Equal(t, "of the claim\nof the guest\n", m.runByAgent(mount))
	m.remove()
	kept, err := os.ReadFile(fixed)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(kept, []byte("for good\n")))
	written, err := os.ReadFile(device)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(written, []byte("of-the-first-instance\n")))
}

// bootedWith returns a copy of the test guest's disk whose kernel gets one more argument.
func bootedWith(t *testing.T, argument string) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	menu := filepath.Join(t.TempDir(), "syslinux.cfg")
	for _, line := range [][]string{
		{"cp", "--sparse=always", guestDisk(t), disk},
		{"mcopy", "-i", disk, "::syslinux.cfg", menu},
		{"sed", "-i", "s/ APPEND .*/& " + argument + "/", menu},
		{"mcopy", "-o", "-i", disk, menu, "::syslinux.cfg"},
	} {
		out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
		require.NoError(t, err, "%v: %s", line, out)
	}
	return disk
}
