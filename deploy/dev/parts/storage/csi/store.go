package csi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	mib = int64(1) << 20
	// defaultSize is the size of a volume without a request, and smallest the least that ext4 needs.
	defaultSize, smallest = 1024 * mib, 4 * mib
)

// image is the record of a volume, or of a snapshot.
type image struct {
	ID string `json:"id"`
	// Name is the name of the request that made it.
	Name string `json:"name"`
	// Bytes is its size.
	Bytes int64 `json:"bytes"`
	// Block is true for a block device; others have an ext4.
	Block bool `json:"block"`
	// Source is the ID of what it was copied from, if it was.
	Source string `json:"source,omitempty"`
	// Made is when it was made.
	Made time.Time `json:"made"`
}

// store is a folder of images: a folder each, with its record and its content. It can be used by several processes.
type store struct{ dir string }

func (s store) folder(id string) string { return filepath.Join(s.dir, id) }
func (s store) file(id string) string   { return filepath.Join(s.dir, id, "image") }

// idOf returns the ID of the image of that name: always the same one.
func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// load reads an image's record; fs.ErrNotExist when there is none.
func (s store) load(id string) (image, error) {
	var i image
	if len(id) != hex.EncodedLen(16) || strings.Trim(id, "0123456789abcdef") != "" {
		return i, fmt.Errorf("no image has the ID %q: %w", id, fs.ErrNotExist)
	}
	data, err := os.ReadFile(filepath.Join(s.folder(id), "record.json"))
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("read the record of %s: %w", id, err)
	}
	return i, nil
}

// add makes an image. fill writes its content to the file that it is given. It is there as a whole or not at all.
func (s store) add(i image, fill func(file string) error) error {
	partial := s.folder(i.ID) + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o700)); err != nil {
		return err
	}
	if err := fill(filepath.Join(partial, "image")); err != nil {
		return err
	}
	if err := writeRecord(partial, i); err != nil {
		return err
	}
	return os.Rename(partial, s.folder(i.ID))
}

// grow makes an image larger.
func (s store) grow(i image, bytes int64) error {
	i.Bytes = bytes
	return errors.Join(os.Truncate(s.file(i.ID), bytes), writeRecord(s.folder(i.ID), i))
}

func (s store) remove(id string) error {
	if _, err := s.load(id); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// At once, so that what is cut off in the middle is found as nothing by the next who makes it.
	partial := s.folder(id) + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.Rename(s.folder(id), partial)); err != nil {
		return err
	}
	return os.RemoveAll(partial)
}

func writeRecord(folder string, i image) error {
	data, err := json.Marshal(i)
	if err != nil {
		return err
	}
	file := filepath.Join(folder, "record.json")
	if err := os.WriteFile(file+".partial", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".partial", file)
}

// make a new file of that size, with a file system unless it is a block device.
func format(ctx context.Context, file string, bytes int64, block bool) error {
	if err := run(ctx, "truncate", "--size", strconv.FormatInt(bytes, 10), file); err != nil || block {
		return err
	}
	// Nothing is kept back for root, and there are inodes for few files: a claim has one, and the launcher wants nine
	// tenths of the claim's size for it, as KubeVirt does.
	return run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-i", "65536", file)
}

// copyTo copies a file and what of it is empty, and makes the copy that size. What a file system on it has not written
// yet is written first.
func copyTo(ctx context.Context, from, to string, bytes int64) error {
	if err := run(ctx, "sync"); err != nil {
		return err
	}
	if err := run(ctx, "cp", "--sparse=always", "--reflink=auto", from, to); err != nil {
		return err
	}
	return os.Truncate(to, bytes)
}

// run runs a program and says what it said when it fails.
func run(ctx context.Context, program string, args ...string) error {
	_, err := output(ctx, program, args...)
	return err
}

func output(ctx context.Context, program string, args ...string) (string, error) {
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
