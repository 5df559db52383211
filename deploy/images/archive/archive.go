package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/virtflow/virtflow/deploy/images/tree"
)

// Config is what a container started from the image gets unless its pod says otherwise.
type Config struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

// Image is one image to write. Layers are paths of uncompressed tar files, lowest first.
type Image struct {
	Reference string // full name with tag: localhost/virtflow/tools:0123456789ab
	Layers    []string
	Config    Config
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type imageConfig struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      string    `json:"created"`
	Config       Config    `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
	History      []history `json:"history"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Write writes the archive of an image.
func Write(w io.Writer, image Image) error {
	created := tree.Epoch.Format("2006-01-02T15:04:05Z")
	config := imageConfig{
		Architecture: "amd64", OS: "linux", Created: created, Config: image.Config, RootFS: rootFS{Type: "layers"},
	}
	entry := manifest{RepoTags: []string{image.Reference}}
	for _, layer := range image.Layers {
		digest, err := FileDigest(layer)
		if err != nil {
			return err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, "sha256:"+digest)
		config.History = append(config.History, history{Created: created, CreatedBy: "deploy/images"})
		entry.Layers = append(entry.Layers, digest+".tar")
	}
	configJSON, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode image configuration: %w", err)
	}
	sum := sha256.Sum256(configJSON)
	entry.Config = hex.EncodeToString(sum[:]) + ".json"
	manifestJSON, err := json.Marshal([]manifest{entry})
	if err != nil {
		return fmt.Errorf("encode image manifest: %w", err)
	}

	out := tar.NewWriter(w)
	if err := writeBytes(out, "manifest.json", manifestJSON); err != nil {
		return err
	}
	if err := writeBytes(out, entry.Config, configJSON); err != nil {
		return err
	}
	for i, layer := range image.Layers {
		if err := writeFile(out, entry.Layers[i], layer); err != nil {
			return err
		}
	}
	return out.Close()
}

func header(name string, size int64) *tar.Header {
	return &tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: tree.Epoch, Typeflag: tar.TypeReg,
		Format: tar.FormatPAX}
}

func writeBytes(out *tar.Writer, name string, data []byte) error {
	if err := out.WriteHeader(header(name, int64(len(data)))); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := out.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeFile(out *tar.Writer, name, source string) error {
	in, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	if err := out.WriteHeader(header(name, info.Size())); err != nil {
		return fmt.Errorf("write layer %s: %w", source, err)
	}
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("write layer %s: %w", source, err)
	}
	return nil
}

// FileDigest is a file's SHA-256 in hexadecimal digits.
func FileDigest(name string) (string, error) {
	in, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("hash: %w", err)
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", fmt.Errorf("hash %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
