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
	// MaxLabel is what a volume descriptor has room for, in bytes. Joliet has half of it, in UTF-16.
	MaxLabel = 32
	// maxName is the longest name of a file that a record of Joliet has room for, in characters. (Rock Ridge continues
	// longer ones elsewhere.)
	maxName = 103
	// maxDepth is how many names a path may have.
	maxDepth = 8
)

// File is one that the image holds. The path has slashes, and is relative.
type File struct {
	Path string
	Data []byte
}

// Unfit says that an image cannot hold a file, and why. Trying again does not help.
type Unfit struct{ Path, Problem string }

// Error implements error.
func (e *Unfit) Error() string {
	return fmt.Sprintf("the file %.200q does not fit: %s", e.Path, e.Problem)
}

// Write makes an image at path, with a label of at most MaxLabel bytes, readable for nobody else: it may hold secrets,
// and must stay in the pod. Linux reads the names of its files by Rock Ridge, Windows by Joliet. While it is made its
// files lie beside it. An error that is an *Unfit says that no image can hold them.
func Write(path, label string, files []File) (err error) {
	parts := path + ".files"
	if err := os.RemoveAll(parts); err != nil {
		return fmt.Errorf("clearing what an earlier attempt left: %w", err)
	}
	defer os.RemoveAll(parts) //nolint:errcheck // it ends with the pod at last
	if err := lay(parts, files); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // our own directory
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
	return fill(out)
}

// writer remembers what went wrong: the library does not look.
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

// lay puts the files into a folder. Their modes are those that a guest sees.
func lay(folder string, files []File) error {
	if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // what is above it is the pod's own
		return fmt.Errorf("laying out the image: %w", err)
	}
	for _, f := range files {
		if err := fits(f.Path); err != nil {
			return err
		}
		path := filepath.Join(folder, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as above
			return fmt.Errorf("laying out the image: %w", err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil { //nolint:gosec // as above
			return fmt.Errorf("laying out the image: %w", err)
		}
	}
	return nil
}

func fits(path string) error {
	if !filepath.IsLocal(path) {
		return &Unfit{path, "it is not a path within an image"}
	}
	parts := strings.Split(path, "/")
	if len(parts) > maxDepth {
		return &Unfit{path, fmt.Sprintf("it lies in more than %d folders", maxDepth-1)}
	}
	for _, name := range parts {
		if utf8.RuneCountInString(name) > maxName {
			return &Unfit{path, fmt.Sprintf("its name has more than %d characters", maxName)}
		}
	}
	return nil
}

// fill makes the image end with a whole sector, as the disk does that the guest sees.
func fill(image *os.File) error {
	info, err := image.Stat()
	if err == nil {
		err = image.Truncate((info.Size() + sector - 1) / sector * sector)
	}
	if err != nil {
		return fmt.Errorf("filling up the image: %w", err)
	}
	return nil
}

// Folder lists the files of a folder that Kubernetes mounts. Those that begin with two dots are the kubelet's own: it
// replaces all files at once with them.
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

// walk follows links: a key is a link to the kubelet's folder, and so is the first folder of a key's path.
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
