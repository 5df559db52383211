package tree

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteTar writes the tree as an uncompressed image layer.
func (t *Tree) WriteTar(w io.Writer) error {
	out := tar.NewWriter(w)
	for _, name := range t.Paths() {
		e := t.entries[name]
		header := &tar.Header{
			Name: name, Mode: tarMode(e.Mode), Uid: e.UID, Gid: e.GID, ModTime: Epoch, Format: tar.FormatPAX,
		}
		switch {
		case e.Mode.IsDir():
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
		case e.Mode&fs.ModeSymlink != 0:
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.Link
		default:
			header.Typeflag, header.Size = tar.TypeReg, e.Size
		}
		if err := out.WriteHeader(header); err != nil {
			return fmt.Errorf("write tar entry %s: %w", name, err)
		}
		if err := copyContent(out, e); err != nil {
			return fmt.Errorf("write tar entry %s: %w", name, err)
		}
	}
	return out.Close()
}

func tarMode(m fs.FileMode) int64 {
	mode := int64(m.Perm())
	if m&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	if m&fs.ModeSetuid != 0 {
		mode |= 0o4000
	}
	return mode
}

func copyContent(w io.Writer, e Entry) error {
	if !e.Mode.IsRegular() {
		return nil
	}
	in, err := e.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(w, in)
	return err
}

// WriteCPIO writes the tree as a "newc" archive, the form that Linux unpacks as its initramfs.
func (t *Tree) WriteCPIO(w io.Writer) error {
	paths := t.Paths()
	for i, name := range paths {
		e := t.entries[name]
		mode, size := tarMode(e.Mode), e.Size
		switch {
		case e.Mode.IsDir():
			mode |= 0o040000
		case e.Mode&fs.ModeSymlink != 0:
			mode |= 0o120000
			size = int64(len(e.Link))
		default:
			mode |= 0o100000
		}
		if err := cpioHeader(w, i+1, mode, e, size, name); err != nil {
			return fmt.Errorf("write cpio entry %s: %w", name, err)
		}
		var err error
		if e.Mode&fs.ModeSymlink != 0 {
			_, err = io.WriteString(w, e.Link)
		} else {
			err = copyContent(w, e)
		}
		if err == nil {
			err = pad(w, size)
		}
		if err != nil {
			return fmt.Errorf("write cpio entry %s: %w", name, err)
		}
	}
	return cpioHeader(w, 0, 0, Entry{}, 0, "TRAILER!!!")
}

// cpioHeader writes the fixed part (110 bytes), the name, and the padding to four bytes.
func cpioHeader(w io.Writer, inode int, mode int64, e Entry, size int64, name string) error {
	_, err := fmt.Fprintf(w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		inode, mode, e.UID, e.GID, 1, Epoch.Unix(), size, 0, 0, 0, 0, len(name)+1, 0, name)
	if err != nil {
		return err
	}
	return pad(w, int64(110+len(name)+1))
}

func pad(w io.Writer, n int64) error {
	_, err := w.Write(make([]byte, (4-n%4)%4))
	return err
}

// Unpack writes the tree into an existing directory, with owners and times. It needs root where owners differ.
func (t *Tree) Unpack(dir string) error {
	paths := t.Paths()
	for _, name := range paths {
		if err := t.unpackOne(dir, name); err != nil {
			return fmt.Errorf("unpack %s: %w", name, err)
		}
	}
	// Times last: writing into a directory changes its own.
	for i := len(paths) - 1; i >= 0; i-- {
		if t.entries[paths[i]].Mode&fs.ModeSymlink == 0 {
			if err := os.Chtimes(filepath.Join(dir, paths[i]), Epoch, Epoch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tree) unpackOne(dir, name string) error {
	e, target := t.entries[name], filepath.Join(dir, name)
	switch {
	case e.Mode.IsDir():
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
	case e.Mode&fs.ModeSymlink != 0:
		return os.Symlink(e.Link, target)
	default:
		out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := copyContent(out, e); err != nil {
			out.Close()
			return err
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
	if err := os.Chown(target, e.UID, e.GID); err != nil {
		return err
	}
	return os.Chmod(target, e.Mode.Perm()|e.Mode&(fs.ModeSticky|fs.ModeSetuid))
}
