package archive

import (
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

// Config is what a container started from the image gets unless its pod says otherwise.
type Config = v1.Config

// Image is one image to write. Layers are paths of uncompressed tar files, lowest first.
type Image struct {
	Reference string // full name with tag: localhost/virtflow/tools:0123456789ab
	Layers    []string
	Config    Config
}

// Write writes the archive of an image.
func Write(w io.Writer, image Image) error {
	tag, err := name.NewTag(image.Reference)
	if err != nil {
		return fmt.Errorf("name of the image: %w", err)
	}
	created := v1.Time{Time: tree.Epoch}
	made, err := mutate.ConfigFile(empty.Image,
		&v1.ConfigFile{Architecture: "amd64", OS: "linux", Created: created, Config: image.Config})
	if err != nil {
		return fmt.Errorf("configuration of the image: %w", err)
	}
	for _, path := range image.Layers {
		l, err := newLayer(path)
		if err != nil {
			return err
		}
		made, err = mutate.Append(made,
			mutate.Addendum{Layer: l, History: v1.History{Created: created, CreatedBy: "deploy/images"}})
		if err != nil {
			return fmt.Errorf("append layer %s: %w", path, err)
		}
	}
	if err := tarball.Write(tag, made, w); err != nil {
		return fmt.Errorf("write image %s: %w", image.Reference, err)
	}
	return nil
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
func (l *layer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

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
