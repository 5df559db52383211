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
	"strings"
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

	// As an OCI layout, which containerd prefers, the same files are the image of that digest.
	file := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, os.WriteFile(file, two.Bytes(), 0o600))
	digest, err := Digest(file)
	require.NoError(t, err)
	manifest := parts["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")]
	sum := sha256.Sum256(manifest)
	require.Equal(t, digest, "sha256:"+hex.EncodeToString(sum[:]))
	parsed, err := v1.ParseManifest(bytes.NewReader(manifest))
	require.NoError(t, err)
	require.Len(t, parsed.Layers, 1)
	require.Equal(t, manifests[0].Layers[0], blob(parsed.Layers[0].Digest))
	require.Equal(t, manifests[0].Config, blob(parsed.Config.Digest))
	require.JSONEq(t, `{"imageLayoutVersion":"1.0.0"}`, string(parts["oci-layout"]))

	var config v1.ConfigFile
	require.NoError(t, json.Unmarshal(parts[manifests[0].Config], &config))
	sum = sha256.Sum256([]byte("a layer"))
	require.Equal(t, []v1.Hash{{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}, config.RootFS.DiffIDs)
	require.Equal(t, "107:107", config.Config.User)
}

func TestMissingLayerIsError(t *testing.T) {
	require.ErrorContains(t, Write(io.Discard, Image{Reference: "localhost/virtflow/x:1",
		Layers: []string{"/nowhere.tar"}}), "/nowhere.tar")
	require.ErrorContains(t, Write(io.Discard, Image{Reference: "No Name"}), "No Name")
}

func TestDigestOfSomethingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, os.WriteFile(file, make([]byte, 2048), 0o600))
	_, err := Digest(file)
	require.ErrorContains(t, err, file)
}
