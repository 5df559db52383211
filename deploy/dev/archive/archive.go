package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Program is an image that has one program and nothing else.
type Program struct {
	// Reference is the image's name and tag.
	Reference string
	// File is the static program on this machine; in the image it lies in / by the same name.
	File string
	// User is "uid:gid".
	User string
}

// Write writes the image's archive. The same program gives the same bytes.
func (p Program) Write(path string) error {
	program, err := os.ReadFile(p.File)
	if err != nil {
		return fmt.Errorf("read the program of the image %s: %w", p.Reference, err)
	}
	name := filepath.Base(p.File)
	layer, err := tarball([]file{{name, 0o755, program}})
	if err != nil {
		return fmt.Errorf("write the layer of %s: %w", p.Reference, err)
	}
	diffID := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + name}, "User": p.User},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(diffID[:])}},
		"history":      []any{map[string]any{"created_by": "virtflow-dev"}},
	})
	if err != nil {
		return fmt.Errorf("encode the configuration of %s: %w", p.Reference, err)
	}
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": "config.json", "RepoTags": []string{p.Reference}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return fmt.Errorf("encode the manifest of %s: %w", p.Reference, err)
	}
	image, err := tarball([]file{{"manifest.json", 0o644, manifest}, {"config.json", 0o644, config}, {"layer.tar", 0o644, layer}})
	if err != nil {
		return fmt.Errorf("write the archive of %s: %w", p.Reference, err)
	}
	if err := os.WriteFile(path+".partial", image, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+".partial", path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

type file struct {
	name string
	mode int64
	data []byte
}

func tarball(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
