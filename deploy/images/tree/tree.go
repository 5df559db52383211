package tree

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Epoch is the modification time of every file. It is not zero: libvirt leaves a module directory's time out of its
// capabilities cache when it is zero and then never accepts the cache.
var Epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Entry is one file, directory or symbolic link.
type Entry struct {
	Mode     fs.FileMode // type and permission bits, with setuid and sticky as fs has them
	UID, GID int
	Link     string // target of a symbolic link
	Size     int64
	open     func() (io.ReadCloser, error)
}

// Open gives a regular file's bytes.
func (e Entry) Open() (io.ReadCloser, error) { return e.open() }

// Tree maps clean relative paths ("usr/bin/true") to entries. Not safe for concurrent use.
type Tree struct {
	entries map[string]Entry
}

// New returns an empty tree.
func New() *Tree { return &Tree{entries: map[string]Entry{}} }

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// Add puts an entry and, where they are missing, its parent directories (0755, root).
func (t *Tree) Add(name string, e Entry) {
	name = clean(name)
	if name == "" {
		return
	}
	if parent := path.Dir(name); parent != "." {
		if _, ok := t.entries[parent]; !ok {
			t.Dir(parent, 0o755)
		}
	}
	t.entries[name] = e
}

// Dir adds a directory; mode is as chmod has it (0o1777 for a /tmp).
func (t *Tree) Dir(name string, mode fs.FileMode) {
	bits := fs.ModeDir | mode.Perm()
	if mode&0o1000 != 0 {
		bits |= fs.ModeSticky
	}
	t.Add(name, Entry{Mode: bits})
}

// Symlink adds a symbolic link.
func (t *Tree) Symlink(name, target string) {
	t.Add(name, Entry{Mode: fs.ModeSymlink | 0o777, Link: target})
}

// Bytes adds a file with the given content.
func (t *Tree) Bytes(name string, mode fs.FileMode, data []byte) {
	t.Add(name, Entry{Mode: mode, Size: int64(len(data)), open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}})
}

// File adds a file of the host; links are followed, only the execute permission is kept.
func (t *Tree) File(name, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("add %s: %s is not a regular file", name, source)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	t.Add(name, Entry{Mode: mode, Size: info.Size(), open: func() (io.ReadCloser, error) { return os.Open(source) }})
	return nil
}

// FS adds everything beneath root of a file system; files that begin with "#!" become executable (an embedded file
// system has no modes).
func (t *Tree) FS(files fs.FS, root string) error {
	return fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(data, []byte("#!")) {
			mode = 0o755
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		t.Bytes(relative, mode, data)
		return nil
	})
}

// Own sets the owner of an entry and of everything beneath it.
func (t *Tree) Own(name string, uid, gid int) {
	name = clean(name)
	for p, e := range t.entries {
		if p == name || strings.HasPrefix(p, name+"/") {
			e.UID, e.GID = uid, gid
			t.entries[p] = e
		}
	}
}

// Has reports whether a path exists.
func (t *Tree) Has(name string) bool {
	_, ok := t.entries[clean(name)]
	return ok
}

// Size is the sum of all files' bytes.
func (t *Tree) Size() int64 {
	var sum int64
	for _, e := range t.entries {
		sum += e.Size
	}
	return sum
}

// Paths lists all paths in the order in which they are written: parents before children.
func (t *Tree) Paths() []string {
	paths := make([]string, 0, len(t.entries))
	for p := range t.entries {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}
