package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/virtflow/virtflow/deploy/images/tree"
)

// Config has the defaults of a container that is started from the image.
type Config = v1.Config

// Image is one image to write. Layers are paths of uncompressed tar files, lowest first.
type Image struct {
	Reference string // full name with tag: localhost/virtflow/tools:0123456789ab
	Layers    []string
	Config    Config
}

// Files of an archive: those of an OCI image layout, the index first, so that Digest need not read the layers, and
// docker's list of what the same files are.
const (
	indexFile  = "index.json"
	layoutFile = "oci-layout"
	dockerFile = "manifest.json"
)

// imageName is the annotation by which containerd knows an image's full name.
const imageName = "io.containerd.image.name"

// Write writes the archive of an image.
func Write(w io.Writer, image Image) error {
	tag, err := name.NewTag(image.Reference)
	if err != nil {
		return fmt.Errorf("name of the image: %w", err)
	}
	made, err := newImage(image)
	if err != nil {
		return err
	}
	if err := write(tar.NewWriter(w), tag, made); err != nil {
		return fmt.Errorf("write image %s: %w", image.Reference, err)
	}
	return nil
}

// Digest returns the digest of the image in an archive: sha256:… of its manifest.
func Digest(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the digest of an image: %w", err)
	}
	defer in.Close()
	archived := tar.NewReader(in)
	header, err := archived.Next()
	if err != nil || header.Name != indexFile {
		return "", fmt.Errorf("read the digest of an image: %s does not begin with %s", path, indexFile)
	}
	index, err := v1.ParseIndexManifest(archived)
	if err != nil || len(index.Manifests) != 1 {
		return "", fmt.Errorf("read the digest of an image: %s of %s does not name one image", indexFile, path)
	}
	return index.Manifests[0].Digest.String(), nil
}

func newImage(image Image) (v1.Image, error) {
	created := v1.Time{Time: tree.Epoch}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err := mutate.ConfigFile(made,
		&v1.ConfigFile{Architecture: "amd64", OS: "linux", Created: created, Config: image.Config})
	if err != nil {
		return nil, fmt.Errorf("configuration of the image: %w", err)
	}
	for _, path := range image.Layers {
		l, err := newLayer(path)
		if err != nil {
			return nil, err
		}
		made, err = mutate.Append(made,
			mutate.Addendum{Layer: l, History: v1.History{Created: created, CreatedBy: "deploy/images"}})
		if err != nil {
			return nil, fmt.Errorf("append layer %s: %w", path, err)
		}
	}
	return made, nil
}

func write(w *tar.Writer, tag name.Tag, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	rawManifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	rawConfig, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: manifest.MediaType, Digest: digest, Size: int64(len(rawManifest)),
		Annotations: map[string]string{
			imageName: tag.Name(), "org.opencontainers.image.ref.name": tag.TagStr(),
		},
	}}}
	docker := tarball.Manifest{{Config: blob(manifest.Config.Digest), RepoTags: []string{tag.Name()}}}
	for _, layer := range manifest.Layers {
		docker[0].Layers = append(docker[0].Layers, blob(layer.Digest))
	}
	err = errors.Join(
		writeJSON(w, indexFile, index),
		writeJSON(w, layoutFile, map[string]string{"imageLayoutVersion": "1.0.0"}),
		writeJSON(w, dockerFile, docker),
		writeFile(w, blob(digest), int64(len(rawManifest)), bytes.NewReader(rawManifest)),
		writeFile(w, blob(manifest.Config.Digest), int64(len(rawConfig)), bytes.NewReader(rawConfig)),
	)
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for i, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			return err
		}
		err = writeFile(w, blob(manifest.Layers[i].Digest), manifest.Layers[i].Size, content)
		if err := errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return w.Close()
}

// blob returns the path of a digest's content in a layout.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

func writeJSON(w *tar.Writer, name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return writeFile(w, name, int64(len(content)), bytes.NewReader(content))
}

func writeFile(w *tar.Writer, name string, size int64, content io.Reader) error {
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size, ModTime: tree.Epoch}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

// layer is a tar file as it is: the library's own layers are compressed, which takes longer than all the rest, for
// archives that never leave the machine.
type layer struct {
	path string
	hash v1.Hash
	size int64
}

func newLayer(path string) (*layer, error) {
	digest, err := FileDigest(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	return &layer{path: path, hash: v1.Hash{Algorithm: "sha256", Hex: digest}, size: info.Size()}, nil
}

// Digest, DiffID, Compressed, Uncompressed, Size and MediaType implement v1.Layer.
func (l *layer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }

// FileDigest is a file's SHA-256 in hexadecimal digits.
func FileDigest(name string) (string, error) {
	in, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("hash: %w", err)
	}
	defer in.Close()
	sum, _, err := v1.SHA256(in)
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", name, err)
	}
	return sum.Hex, nil
}
