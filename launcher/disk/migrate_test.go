package disk_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/disk"
)

func TestReceivesOnlyFilesOfPlan(t *testing.T) {
	dir := t.TempDir()
	plan := []disk.Volume{
		{Name: "seed", Kind: disk.NoCloud, Label: "cidata", Path: filepath.Join(dir, "seed.iso")},
		{Name: "root", Kind: disk.ContainerDisk, Path: filepath.Join(dir, "root-overlay.qcow2")},
	}
	content := "an image"
	sum := sha256.Sum256([]byte(content))
	receive := func(name string, size int64, digest []byte) error {
		return disk.Receive(plan, name, size, digest, strings.NewReader(content))
	}
	require.ErrorContains(t, receive("root-overlay.qcow2", 8, sum[:]), "no file")
	require.ErrorContains(t, receive("../seed.iso", 8, sum[:]), "no file")
	require.ErrorContains(t, receive("seed.iso", 9, sum[:]), "does not match the announced digest")
	require.ErrorContains(t, receive("seed.iso", 7, sum[:]), "does not match the announced digest")
	require.ErrorContains(t, receive("seed.iso", 8, nil), "does not match the announced digest")
	require.ErrorContains(t, receive("seed.iso", contract.LargestMigrationFile+1, sum[:]), "exceeds the limit")
	require.ErrorContains(t, receive("seed.iso", -1, sum[:]), "exceeds the limit")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	require.NoError(t, receive("seed.iso", 8, sum[:]))
	read, digest, err := disk.Read(plan, "seed.iso")
	require.NoError(t, err)
	require.Equal(t, content, string(read))
	require.Equal(t, sum[:], digest)
	_, _, err = disk.Read(plan, "root-overlay.qcow2")
	require.ErrorContains(t, err, "no file")
}

func TestDistinguishesImagesByContent(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "disk"), 0o755))
	image := filepath.Join(dir, "disk", "disk.img")
	v := disk.Volume{Name: "root", Kind: disk.ContainerDisk, Source: dir}
	digest := func(content string) []byte {
		require.NoError(t, os.WriteFile(image, []byte(content), 0o600))
		d, err := disk.ImageDigest(v)
		require.NoError(t, err)
		return d
	}
	one := digest("one")
	require.Len(t, one, sha256.Size)
	require.Equal(t, one, digest("one"))
	require.NotEqual(t, one, digest("two"))
	none, err := disk.ImageDigest(disk.Volume{Name: "scratch", Kind: disk.EmptyDisk})
	require.NoError(t, err)
	require.Nil(t, none)
}
