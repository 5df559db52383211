package disk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

func TestBlocksOfFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	var s unix.Statfs_t
	require.NoError(t, unix.Statfs(file, &s))
	got, err := blocks(domain.Volume{Path: file})
	require.NoError(t, err)
	size := uint(s.Bsize)
	require.Equal(t, domain.Blocks{Logical: size, Physical: size, Discard: size}, got)
	_, err = blocks(domain.Volume{Path: file, Block: true})
	require.ErrorContains(t, err, "the block size of", "a file is no device")
	_, err = blocks(domain.Volume{Path: file + "-absent"})
	require.Error(t, err)
}

func TestCorrectsSizesOfDevice(t *testing.T) {
	for name, c := range map[string]struct {
		logical, physical, discard uint
		want                       domain.Blocks
	}{
		"sound":                 {512, 4096, 4096, domain.Blocks{Logical: 512, Physical: 4096, Discard: 4096}},
		"nothing to discard":    {512, 512, 0, domain.Blocks{Logical: 512, Physical: 512}},
		"no logical size":       {0, 4096, 0, domain.Blocks{Logical: 4096, Physical: 4096}},
		"no physical size":      {512, 0, 0, domain.Blocks{Logical: 512, Physical: 512}},
		"discards parts of one": {4096, 4096, 512, domain.Blocks{Logical: 4096, Physical: 4096, Discard: 4096}},
	} {
		got, err := correctSizes(c.logical, c.physical, c.discard)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	_, err := correctSizes(0, 0, 0)
	require.Error(t, err)
}

func TestMatchesBlocks(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{}
	require.NoError(t, json.Unmarshal([]byte(`{"domain":{"devices":{"disks":[{"name":"a","blockSize":{"matchVolume":{}}},
		{"name":"b","blockSize":{"matchVolume":{"enabled":false}}},{"name":"c","blockSize":{"custom":{"logical":512}}},
		{"name":"d"}]}}}`), &vmi.Spec))
	for name, want := range map[string]bool{"a": true, "b": false, "c": false, "d": false, "e": false} {
		require.Equal(t, want, matchesBlocks(vmi, name), name)
	}
}
