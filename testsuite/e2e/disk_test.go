//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/testsuite/images"
)

// guestDisk returns a file with the test guest's disk, as in its image.
func guestDisk(t *testing.T) string {
	t.Helper()
	roots, err := images.Unpack(t.TempDir(), "guest")
	require.NoError(t, err)
	return filepath.Join(roots["guest"], "disk/disk.img")
}

// launchersDir returns a folder that a launcher may write to. It is removed after the namespace's guests.
func launchersDir(t *testing.T, namespace string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "virtflow-claim-")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = try("-n", namespace, "delete", "vmirs,vm,vmi", "--all", "--timeout=90s")
		_ = os.RemoveAll(dir)
	})
	require.NoError(t, os.Chmod(dir, 0o770)) // the launcher's group writes there
	require.NoError(t, os.Chown(dir, 107, 107))
	return dir
}

// claimWith creates a PVC of that size ("64Mi"), and a volume for it that every node has: a folder of this machine,
// with a copy of a disk in it ("": none).
func claimWith(t *testing.T, namespace, name, size, disk string) (dir string) {
	t.Helper()
	dir = launchersDir(t, namespace)
	if disk != "" {
		to := filepath.Join(dir, "disk.img")
		out, err := exec.Command("cp", "--sparse=always", disk, to).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NoError(t, os.Chown(to, 107, 107))
	}
	must := corev1.HostPathDirectory
	source := corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &must}}
	claimOf(t, namespace, name, size, &corev1.PersistentVolumeSpec{PersistentVolumeSource: source})
	return dir
}

// claimOnDevice creates a PVC of that size ("64Mi") with volume mode Block, and a volume for it that every node has: a
// loop device with blocks of 4096 bytes on a new file.
func claimOnDevice(t *testing.T, namespace, name, size string) (file string) {
	t.Helper()
	file = filepath.Join(launchersDir(t, namespace), "device")
	out, err := exec.Command("truncate", "--size="+strings.TrimSuffix(size, "i"), file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command("losetup", "--sector-size", "4096", "--find", "--show", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		_, _ = try("-n", namespace, "delete", "vmirs,vm,vmi", "--all", "--timeout=90s")
		_ = exec.Command("losetup", "--detach", device).Run()
	})
	block := corev1.PersistentVolumeBlock
	everywhere := corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpExists}}}}}
	claimOf(t, namespace, name, size, &corev1.PersistentVolumeSpec{
		VolumeMode:   &block,
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &everywhere},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			Local: &corev1.LocalVolumeSource{Path: device}},
	})
	return file
}

// claimOf creates a PVC of that size, and that volume for it.
func claimOf(t *testing.T, namespace, name, size string, of *corev1.PersistentVolumeSpec) {
	t.Helper()
	volume := "virtflow-" + namespace + "-" + name
	// Without waiting: it is deleted with the PVC, whose namespace is deleted afterwards.
	t.Cleanup(func() { _, _ = try("delete", "pv", volume, "--ignore-not-found", "--wait=false") })
	capacity := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	of.Capacity, of.AccessModes = capacity, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	of.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	of.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	none := ""
	for _, o := range []any{
		&corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
			ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: *of},
		&corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: of.AccessModes, VolumeMode: of.VolumeMode,
				StorageClassName: &none, VolumeName: volume,
				Resources: corev1.VolumeResourceRequirements{Requests: capacity}}},
	} {
		manifest, err := yaml.Marshal(o)
		require.NoError(t, err)
		apply(t, string(manifest))
	}
}
