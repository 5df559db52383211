package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/virtflow/virtflow/workflows/contract"
)

// File is one that a guest's disks need and that libvirt does not copy.
type File = contract.MigrationFile

// Content is a file with what is in it.
type Content struct {
	File
	Data []byte
}

// NewContent is a file with that in it.
func NewContent(name string, data []byte) Content {
	sum := sha256.Sum256(data)
	return Content{File: File{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}, Data: data}
}

// CheckFiles refuses what no migration has: other nodes and launchers say what there is.
func CheckFiles(files []File) error {
	if len(files) > contract.MostMigrationFiles {
		return fmt.Errorf("there are %d files, and %d are the most", len(files), contract.MostMigrationFiles)
	}
	for i, f := range files {
		switch {
		case f.Name == "" || f.Name == "." || f.Name == ".." || filepath.Base(f.Name) != f.Name || len(f.Name) > 128:
			return fmt.Errorf("%.140q is not the name of a file", f.Name)
		case f.Size < 0 || f.Size > contract.LargestMigrationFile:
			return fmt.Errorf("the file %s has %d bytes, and %d are the most", clean(f.Name), f.Size,
				contract.LargestMigrationFile)
		case !fingerprint.MatchString(f.SHA256):
			return fmt.Errorf("the file %s has no digest", clean(f.Name))
		case slices.ContainsFunc(files[:i], func(o File) bool { return o.Name == f.Name }):
			return fmt.Errorf("the file %s is there twice", clean(f.Name))
		}
	}
	return nil
}

// receive reads the files that were announced, which have to be those that are known: the source tells its digests
// through the workflow, before.
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
			return nil, fmt.Errorf("the file %s has another content than the migration says", clean(f.Name))
		}
		out = append(out, c)
	}
	return out, nil
}
