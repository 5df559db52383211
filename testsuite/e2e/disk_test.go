//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/images"
)

// guestDisk is a file with the test guest's disk, as its image has it.
func guestDisk(t *testing.T) string {
	t.Helper()
	roots, err := images.Unpack(t.TempDir(), "guest")
	require.NoError(t, err)
	return filepath.Join(roots["guest"], "disk/disk.img")
}

// launchersDir is a folder that a launcher may write to. Before it goes, the namespace's guests do.
func launchersDir(t *testing.T, namespace string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "virtflow-claim-")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = try("-n", namespace, "delete", "vmirs,vm,vmi", "--all", "--timeout=90s")
		_ = os.RemoveAll(dir)
	})
	require.NoError(t, os.Chmod(dir, 0o770)) //nolint:gosec // it is the launcher's
	require.NoError(t, os.Chown(dir, 107, 107))
	return dir
}

// claimWith makes a claim of that size ("64Mi"), and a volume for it that every node has: that folder of the machine,
// with a copy of that disk in it, "" for none.
func claimWith(t *testing.T, namespace, name, size, disk string) (dir string) {
	t.Helper()
	dir = launchersDir(t, namespace)
	if disk != "" {
		to := filepath.Join(dir, "disk.img")
		out, err := exec.Command("cp", "--sparse=always", disk, to).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NoError(t, os.Chown(to, 107, 107))
	}
	volume := "virtflow-" + namespace + "-" + name
	// Without a wait: it goes with the claim, whose namespace is deleted afterwards.
	t.Cleanup(func() { _, _ = try("delete", "pv", volume, "--ignore-not-found", "--wait=false") })
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: %[5]s}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: %[2]s, name: %[3]s}
  hostPath: {path: %[4]s, type: Directory}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[3]s, namespace: %[2]s}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: %[1]s
  resources: {requests: {storage: %[5]s}}
`, volume, namespace, name, dir, size))
	return dir
}
