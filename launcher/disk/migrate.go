package disk

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/domain"
)

var errOtherContent = errors.New("the content does not match the announced digest")

// Carried reports whether a migration must carry the whole file of a volume: libvirt does not copy a disk that the
// guest cannot write to, and making the file again could give other content.
func Carried(v Volume, readOnly bool) bool { return readOnly && v.iso() }

// Await makes the file into which libvirt copies an image that the guest can write to: empty, of the size that it has
// at the source. Volumes of other kinds, and a file that exists already, stay as they are.
func Await(plan []Volume, name string, size int64) error {
	i := slices.IndexFunc(plan, func(v Volume) bool { return v.Name == name && v.iso() })
	if i < 0 {
		return nil
	}
	if size <= 0 || size > contract.LargestMigrationFile {
		return volumeError(name, "its image has %d bytes, which is not a valid size", size)
	}
	return makeAtomically(plan[i].Path, func(path string) error {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return fmt.Errorf("creating the image of %s: %w", name, err)
		}
		return os.Truncate(path, size)
	})
}

// Received returns the plan for a guest that comes from another node: its files on PVCs exist, and are in use.
func Received(plan []Volume) []Volume {
	out := slices.Clone(plan)
	for i := range out {
		if out[i].Kept() {
			out[i].Size, out[i].Grown = 0, 0
		}
	}
	return out
}

// Read opens a carried file, by its name, and returns its content and digest.
func Read(plan []Volume, name string) (content []byte, digest []byte, err error) {
	v, err := findCarried(plan, name)
	if err != nil {
		return nil, nil, err
	}
	content, err = os.ReadFile(v.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", name, err)
	}
	sum := sha256.Sum256(content)
	return content, sum[:], nil
}

// Receive writes a carried file to the path at which Prepare would make it. It writes only files of the plan.
func Receive(plan []Volume, name string, size int64, digest []byte, from io.Reader) error {
	v, err := findCarried(plan, name)
	if err != nil {
		return err
	}
	if size < 0 || size > contract.LargestMigrationFile {
		return volumeError(v.Name, "%s has %d bytes, which exceeds the limit", name, size)
	}
	content, err := io.ReadAll(io.LimitReader(from, size))
	if err != nil {
		return fmt.Errorf("receiving %s: %w", name, err)
	}
	if sum := sha256.Sum256(content); int64(len(content)) != size || !bytes.Equal(sum[:], digest) {
		return fmt.Errorf("receiving %s: %w", name, errOtherContent)
	}
	part := v.Path + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := os.Rename(part, v.Path); err != nil {
		return fmt.Errorf("renaming %s: %w", name, err)
	}
	return nil
}

// findCarried returns the volume whose ISO file the migration carries under that name.
func findCarried(plan []Volume, name string) (Volume, error) {
	for _, v := range plan {
		if v.iso() && filepath.Base(v.Path) == name {
			return v, nil
		}
	}
	return Volume{}, fmt.Errorf("the migration carries no file %q", name)
}

// ImageDigest returns the SHA-256 of the image that is below a volume; nil if there is none.
func ImageDigest(v Volume) ([]byte, error) {
	if v.Kind != ContainerDisk {
		return nil, nil
	}
	path, err := find(v)
	if err != nil {
		return nil, err
	}
	return digest(v.Name, path)
}

// BootDigest returns a SHA-256 of the kernel and the initial RAM disk that Boot has found; nil if there are none.
func BootDigest(b domain.Boot) ([]byte, error) {
	h := sha256.New()
	found := false
	for _, path := range []string{b.Kernel, b.Initrd} {
		var sum []byte
		if path != "" {
			var err error
			if sum, err = digest(bootVolume, path); err != nil {
				return nil, err
			}
			found = true
		}
		_, _ = fmt.Fprintf(h, "%x ", sum)
	}
	if !found {
		return nil, nil
	}
	return h.Sum(nil), nil
}

// digest returns the SHA-256 of a file in a volume's image. The path was checked to stay within it.
func digest(volume, path string) ([]byte, error) {
	f, err := os.Open(path) // checked to stay within the image
	if err != nil {
		return nil, fmt.Errorf("reading the image of %s: %w", volume, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("reading the image of %s: %w", volume, err)
	}
	return h.Sum(nil), nil
}
