//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// PVCs, ReadWriteMany and of the cluster's own StorageClass: a device and a file system, and a copy of the device.
const (
	sharedClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s, namespace: %s}
spec:
  accessModes: [ReadWriteMany]
  volumeMode: %s
  resources: {requests: {storage: 128Mi}}
%s`
	ofTheSnapshot = `  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: first}`
	ofTheClaim    = `  dataSource: {kind: PersistentVolumeClaim, name: files}`
)

// bySerial is a function of the guest's shell: the name of the disk with a serial number.
const bySerial = `d() { basename $(dirname $(grep -lx "$1" /sys/block/*/serial)); }; `

// withClaims returns the manifest of a running VM with a disk on each of these PVCs, with the PVC's name as its serial
// number.
func (m *machine) withClaims(claims ...string) string {
	m.t.Helper()
	const last, first = "          - {name: cloudinit, disk: {bus: virtio}}\n", "      volumes:\n"
	manifest := m.manifest("Always", "")
	require.Contains(m.t, manifest, last)
	require.Contains(m.t, manifest, first)
	disks, volumes := last, first
	for _, c := range claims {
		disks += fmt.Sprintf("          - {name: %s, serial: %s, disk: {bus: virtio}}\n", c, c)
		volumes += fmt.Sprintf("      - {name: %s, persistentVolumeClaim: {claimName: %s}}\n", c, c)
	}
	return strings.NewReplacer(last, disks, first, volumes).Replace(manifest)
}

// TestStorageClass: PVCs get their volumes from a CSI driver, as a device and as a file system. The guest's data is
// there after a migration, after the volumes have grown, which the running guest notices, and after a restart. Volumes
// that are made of a snapshot and of a PVC in use have the data of that time.
func TestStorageClass(t *testing.T) {
	suite.TakeTurn(t, 3)
	m := newMachine(t, "stores", "Halted", "")
	for name, mode := range map[string]string{"device": "Block", "files": "Filesystem"} {
		apply(t, fmt.Sprintf(sharedClaim, name, m.namespace, mode, ""))
	}
	apply(t, m.withClaims("device", "files"))
	m.untilBooted()
	m.untilAgentAnswers()
	const write = bySerial + `w() { echo "$2" | dd of=/dev/$(d $1) conv=fsync; }; `
	const read = bySerial + `for s in device files; do head -n 1 /dev/$(d $s); done`
	m.runByAgent(write + "w device one; w files two")
	written := []string{"one", "two"}
	require.Equal(t, written, strings.Fields(m.runByAgent(read)))

	m.createMigration("moves", "", "")
	m.untilMigrated()
	m.onePod()
	require.Equal(t, written, strings.Fields(m.runByAgent(read)))

	apply(t, fmt.Sprintf(`{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshot, metadata: {name: first, `+
		`namespace: %s}, spec: {source: {persistentVolumeClaimName: device}}}`, m.namespace))
	m.kubectl("wait", "volumesnapshot/first", "--for=jsonpath={.status.readyToUse}=true", "--timeout=60s")
	m.runByAgent(write + "w device three")
	apply(t, fmt.Sprintf(sharedClaim, "copy", m.namespace, "Block", ofTheSnapshot))
	apply(t, fmt.Sprintf(sharedClaim, "clone", m.namespace, "Filesystem", ofTheClaim))
	for _, claim := range []string{"device", "files"} {
		m.kubectl("patch", "pvc", claim, "--type=merge", "-p",
			`{"spec":{"resources":{"requests":{"storage":"192Mi"}}}}`)
	}
	m.kubectl("wait", "pvc/device", "--for=jsonpath={.status.capacity.storage}=192Mi", "--timeout=3m")
	until(t, time.Minute, "the guest notices that its disk has grown", func() error {
		sectors := strings.TrimSpace(m.runByAgent(bySerial + "cat /sys/block/$(d device)/size"))
		if sectors != "393216" {
			return fmt.Errorf("it has %s sectors", sectors)
		}
		return nil
	})

	apply(t, m.withClaims("device", "files", "copy", "clone"))
	first, err := m.vmi()
	require.NoError(t, err)
	m.kubectl("delete", "vmi", m.name)
	m.untilReplaced(first)
	m.untilAgentAnswers()
	require.Equal(t, []string{"three", "two"}, strings.Fields(m.runByAgent(read)))
	require.Equal(t, []string{"one", "two"},
		strings.Fields(m.runByAgent(bySerial+"head -n 1 /dev/$(d copy); head -n 1 /dev/$(d clone)")))
	// A file system may have to wait until no launcher uses it: not every kernel lets it grow before.
	m.kubectl("wait", "pvc/files", "--for=jsonpath={.status.capacity.storage}=192Mi", "--timeout=3m")
	m.remove()
	m.kubectl("delete", "volumesnapshot,pvc", "--all", "--timeout=60s")
	until(t, time.Minute, "the volumes are gone", func() error {
		out, err := try("get", "pv", "-o", `jsonpath={range .items[?(@.spec.claimRef.namespace=="`+m.namespace+
			`")]}{.metadata.name} {end}`)
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("there are %s", out)
		}
		return err
	})
}
