package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
)

func TestFindsKernelOnlyInItsImage(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"image/boot/vmlinuz", "image/initrd", "secret"} {
		write(t, filepath.Join(dir, file))
	}
	image := filepath.Join(dir, "image")
	require.NoError(t, os.Symlink("../secret", filepath.Join(image, "out")))
	require.NoError(t, os.Symlink("boot/vmlinuz", filepath.Join(image, "kernel")))
	spec := func(kernel, initrd string) string {
		return `{"domain":{"firmware":{"kernelBoot":{"container":{"image":"x","kernelPath":"` + kernel + `","initrdPath":"` +
			initrd + `"}}}}}`
	}
	for kernel, want := range map[string]string{"/boot/vmlinuz": "boot/vmlinuz", "/kernel": "kernel"} {
		got, err := disk.Boot(vmi(t, spec(kernel, "/initrd")), image)
		require.NoError(t, err)
		require.Equal(t, domain.Boot{Kernel: filepath.Join(image, want), Initrd: filepath.Join(image, "initrd")}, got)
	}
	got, err := disk.Boot(vmi(t, `{"domain":{"firmware":{}}}`), "/no/such/directory")
	require.NoError(t, err)
	require.Zero(t, got)
	for _, wrong := range []string{"/absent", "/out", "/boot", "/../secret"} {
		_, err := disk.Boot(vmi(t, spec("/boot/vmlinuz", wrong)), image)
		var mistake *disk.Error
		require.ErrorAs(t, err, &mistake, wrong)
	}
}
