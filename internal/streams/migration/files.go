package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/virtflow/virtflow/contract"
)

// File is a file that a guest's disks need and that libvirt does not copy.
type File = contract.MigrationFile

// Content is a file with its content.
type Content struct {
	File
	Data []byte
}

// NewContent returns a file with that content.
func NewContent(name string, data []byte) Content {
	sum := sha256.Sum256(data)
	return Content{File: File{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, Data: data}
}

// CheckFiles refuses lists that are out of bounds: they come from other nodes and launchers.
func CheckFiles(files []File) error {
	if len(files) > contract.MostMigrationFiles {
		return fmt.Errorf("%d files exceed the limit of %d", len(files), contract.MostMigrationFiles)
	}
	for i, f := range files {
		switch {
		case f.Name == "" || f.Name == "." || f.Name == ".." || filepath.Base(f.Name) != f.Name || len(f.Name) > 128:
			return fmt.Errorf("%.140q is not the name of a file", f.Name)
		case f.Size < 0 || f.Size > contract.LargestMigrationFile:
			return fmt.Errorf("the file %s has %d bytes, which exceeds the limit of %d", clean(f.Name), f.Size,
				contract.LargestMigrationFile)
		case !fingerprint.MatchString(f.SHA256):
			return fmt.Errorf("the file %s has no digest", clean(f.Name))
		case slices.ContainsFunc(files[:i], func(o File) bool { return o.Name == f.Name }):
			return fmt.Errorf("the file %s is listed twice", clean(f.Name))
		}
	}
	return nil
}

// receive reads the files that were announced, which must be the known ones: the source reports their digests through
// the workflow, before.
func receive(r io.Reader, announced, known []File) ([]Content, error) {
	if !slices.Equal(announced, known) {
		return nil, fmt.Errorf("the files are not those that the migration has")
	}
	out := make([]Content, 0, len(known))
	for _, f := range known {
		data := make([]byte, f.Size)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("receiving the file %s: %w", clean(f.Name), err)
		}
		c := NewContent(f.Name, data)
		if c.File != f {
			return nil, fmt.Errorf("the content of the file %s does not match the migration's digest", clean(f.Name))
		}
		out = append(out, c)
	}
	return out, nil
}
