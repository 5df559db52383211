package iso

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

const (
	sector = 2048
	// alignment is the unit of an image's size in bytes, as in KubeVirt. QEMU writes a copy of the image in whole
	// blocks of its file system: a live migration cannot copy one that ends within a block.
	alignment = 4096
	// MaxLabel is the space for a label in a volume descriptor, in bytes. Joliet has half of it, in UTF-16.
	MaxLabel = 32
	// maxName is the longest file name in a record of Joliet, in characters. (Rock Ridge continues longer ones
	// elsewhere.)
	maxName = 103
	// maxDepth is the largest number of names in a path.
	maxDepth = 8
)

// File is one file of the image. The path has slashes, and is relative.
type File struct {
	Path string
	Data []byte
}

// Unfit is the error for a file that an image cannot hold. Another attempt does not help.
type Unfit struct{ Path, Problem string }

// Error implements error.
func (e *Unfit) Error() string {
	return fmt.Sprintf("the file %.200q does not fit into an image: %s", e.Path, e.Problem)
}

// Write makes an image at path, with a label of at most MaxLabel bytes. Only this user can read it: it may hold
// secrets, and must stay in the pod. Linux reads the names of its files by Rock Ridge, Windows by Joliet. While it is
// made, its files are beside it. It returns an *Unfit if no image can hold the files.
func Write(path, label string, files []File) (err error) {
	parts := path + ".files"
	if err := os.RemoveAll(parts); err != nil {
		return fmt.Errorf("removing the files of an earlier attempt: %w", err)
	}
	defer os.RemoveAll(parts)
	if err := placeFiles(parts, files); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("creating the image: %w", err)
	}
	defer func() {
		if closing := out.Close(); err == nil && closing != nil {
			err = fmt.Errorf("writing the image: %w", closing)
		}
	}()
	target := &writer{File: out}
	image, err := iso9660.Create(file.New(target, false), 0, 0, sector, parts)
	if err != nil {
		return fmt.Errorf("preparing the image: %w", err)
	}
	err = image.Finalize(iso9660.FinalizeOptions{
		RockRidge: true, Joliet: true, VolumeIdentifier: label,
	})
	if err := errors.Join(err, target.failed); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return padToBlock(out)
}

// writer records the first write error, which the library ignores.
type writer struct {
	*os.File
	failed error
}

// WriteAt implements io.WriterAt.
func (w *writer) WriteAt(b []byte, at int64) (int, error) {
	n, err := w.File.WriteAt(b, at)
	if w.failed == nil {
		w.failed = err
	}
	return n, err
}

// placeFiles puts the files into a folder, with the modes that a guest sees.
func placeFiles(folder string, files []File) error {
	if err := os.Mkdir(folder, 0o755); err != nil { // the folder above it is private
		return fmt.Errorf("laying out the image: %w", err)
	}
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		path := filepath.Join(folder, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("laying out the image: %w", err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return fmt.Errorf("laying out the image: %w", err)
		}
	}
	return nil
}

// checkPath returns an Unfit error for a path that an image cannot have.
func checkPath(path string) error {
	if !filepath.IsLocal(path) {
		return &Unfit{path, "the path is not valid within an image"}
	}
	parts := strings.Split(path, "/")
	if len(parts) > maxDepth {
		return &Unfit{path, fmt.Sprintf("its path has more than %d folders", maxDepth-1)}
	}
	for _, name := range parts {
		if utf8.RuneCountInString(name) > maxName {
			return &Unfit{path, fmt.Sprintf("its name has more than %d characters", maxName)}
		}
	}
	return nil
}

// padToBlock pads the image to a whole block.
func padToBlock(image *os.File) error {
	info, err := image.Stat()
	if err == nil {
		err = image.Truncate((info.Size() + alignment - 1) / alignment * alignment)
	}
	if err != nil {
		return fmt.Errorf("padding the image: %w", err)
	}
	return nil
}

// Folder lists the files of a folder that Kubernetes mounts. Names that begin with two dots are the kubelet's own, by
// which it replaces all files at once.
func Folder(path string) ([]File, error) {
	var out []File
	root := os.DirFS(path)
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		files, err := walk(root, e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}

// walk lists files and follows links: a key is a link to the kubelet's folder, and so is the first folder of a key's
// path.
func walk(root fs.FS, path string) ([]File, error) {
	info, err := fs.Stat(root, path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		data, err := fs.ReadFile(root, path)
		return []File{{Path: path, Data: data}}, err
	}
	entries, err := fs.ReadDir(root, path)
	if err != nil {
		return nil, err
	}
	var out []File
	for _, e := range entries {
		files, err := walk(root, path+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}
