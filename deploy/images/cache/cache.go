package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Dir is the root of the cache.
type Dir string

// Default is $VIRTFLOW_CACHE, or virtflow beneath the user's cache directory.
func Default() (Dir, error) {
	if dir := os.Getenv("VIRTFLOW_CACHE"); dir != "" {
		abs, err := filepath.Abs(dir)
		return Dir(abs), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory (set VIRTFLOW_CACHE): %w", err)
	}
	return Dir(filepath.Join(home, ".cache", "virtflow")), nil
}

// Path joins names beneath the cache's root.
func (d Dir) Path(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

// Key is the first 12 hexadecimal digits of a hash over the parts. Each part is hashed with its length, so that moving
// bytes from one to the next changes the key.
func Key(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:", len(part))
		_, _ = io.WriteString(sum, part) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// Exists reports whether a finished thing is there.
func Exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// File makes a file by fill, unless it is there. It appears complete or not at all.
func File(name string, fill func(io.Writer) error) error {
	if Exists(name) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	out, err := os.CreateTemp(filepath.Dir(name), ".tmp-"+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	defer os.Remove(out.Name())
	if err := fill(out); err != nil {
		out.Close()
		return err
	}
	if err := out.Chmod(0o644); err != nil {
		out.Close()
		return fmt.Errorf("make %s: %w", name, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	return os.Rename(out.Name(), name)
}

// Folder makes a directory by fill, unless it is there. It appears complete or not at all.
func Folder(name string, fill func(dir string) error) error {
	if Exists(name) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(name), ".tmp-"+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	defer os.RemoveAll(dir)
	if err := fill(dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	err = os.Rename(dir, name)
	if err != nil && Exists(name) {
		return nil // another build of the same content was faster
	}
	return err
}

// Sweep removes unfinished things that a killed build left, older than age, directly beneath dir.
func Sweep(dir string, age time.Duration) error {
	left, err := filepath.Glob(filepath.Join(dir, ".tmp-*"))
	if err != nil {
		return err
	}
	for _, name := range left {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < age {
			continue
		}
		if err := os.RemoveAll(name); err != nil {
			return fmt.Errorf("remove what a killed build left: %w", err)
		}
	}
	return nil
}
