package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

func TestArchiveNamesItsPartsByTheirHashes(t *testing.T) {
	layer := filepath.Join(t.TempDir(), "layer.tar")
	require.NoError(t, os.WriteFile(layer, []byte("a layer"), 0o600))
	image := Image{Reference: "localhost/virtflow/x:1", Layers: []string{layer},
		Config: Config{User: "107:107", Entrypoint: []string{"/x"}}}
	var one, two bytes.Buffer
	require.NoError(t, Write(&one, image))
	require.NoError(t, Write(&two, image))
	require.Equal(t, one.Bytes(), two.Bytes())

	parts := map[string][]byte{}
	for in := tar.NewReader(&one); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		parts[header.Name], err = io.ReadAll(in)
		require.NoError(t, err)
	}
	var manifests tarball.Manifest
	require.NoError(t, json.Unmarshal(parts["manifest.json"], &manifests))
	require.Len(t, manifests, 1)
	require.Equal(t, []string{"localhost/virtflow/x:1"}, manifests[0].RepoTags)
	require.Equal(t, []byte("a layer"), parts[manifests[0].Layers[0]])

	var config v1.ConfigFile
	require.NoError(t, json.Unmarshal(parts[manifests[0].Config], &config))
	sum := sha256.Sum256([]byte("a layer"))
	require.Equal(t, []v1.Hash{{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}, config.RootFS.DiffIDs)
	require.Equal(t, "107:107", config.Config.User)
}

func TestMissingLayerIsAnError(t *testing.T) {
	require.ErrorContains(t, Write(io.Discard, Image{Reference: "localhost/virtflow/x:1",
		Layers: []string{"/nowhere.tar"}}), "/nowhere.tar")
	require.ErrorContains(t, Write(io.Discard, Image{Reference: "No Name"}), "No Name")
}
