package cloudinit_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kdomanski/iso9660"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/cloudinit"
)

func TestTheImageHoldsWhatCloudInitLooksFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nocloud.iso")
	require.NoError(t, cloudinit.WriteNoCloud(path, cloudinit.NoCloud{
		MetaData:      cloudinit.MetaData{InstanceID: "i-1", LocalHostname: "vm1"},
		UserData:      []byte("#cloud-config\n"),
		NetworkConfig: []byte("version: 2\n"),
	}))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read from
	image, err := iso9660.OpenImage(f)
	require.NoError(t, err)
	label, err := image.Label()
	require.NoError(t, err)
	require.Equal(t, "cidata", label)
	root, err := image.RootDir()
	require.NoError(t, err)
	children, err := root.GetChildren()
	require.NoError(t, err)
	got := map[string]string{}
	for _, c := range children {
		b, err := io.ReadAll(c.Reader())
		require.NoError(t, err)
		got[c.Name()] = string(b)
	}
	require.Equal(t, map[string]string{
		"meta-data": `{"instance-id":"i-1","local-hostname":"vm1"}`, "user-data": "#cloud-config\n",
		"network-config": "version: 2\n",
	}, got)
}
