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

	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/workflows/contract"
)

var errOtherContent = errors.New("the content is not what was announced") //nolint:gochecknoglobals // a constant error

// Carried says that a migration has to carry the whole file of a volume: libvirt does not copy it where the guest may
// not write to it, and making it again could give another one.
func Carried(v Volume, readOnly bool) bool { return readOnly && v.iso() }

// Await makes the file that libvirt copies an image into which the guest may write to: empty, of the size that it has
// at the source. Volumes of other kinds, and a file that is there already, stay as they are.
func Await(plan []Volume, name string, size int64) error {
	i := slices.IndexFunc(plan, func(v Volume) bool { return v.Name == name && v.iso() })
	if i < 0 {
		return nil
	}
	if size <= 0 || size > contract.LargestMigrationFile {
		return failed(name, "its image has %d bytes, which is not what such an image may have", size)
	}
	return once(plan[i].Path, func(path string) error {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return fmt.Errorf("making the image of %s: %w", name, err)
		}
		return os.Truncate(path, size)
	})
}

// Received is the plan for a guest that comes from another node: what it has on claims is there, and
// in use.
func Received(plan []Volume) []Volume {
	out := slices.Clone(plan)
	for i := range out {
		if out[i].Kept() {
			out[i].Size, out[i].Grown = 0, 0
		}
	}
	return out
}

// Read opens a carried file, by its name, and tells its size and digest.
func Read(plan []Volume, name string) (content []byte, digest []byte, err error) {
	v, err := carried(plan, name)
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

// Receive puts a carried file where Prepare would make it. Only files of the plan are written.
func Receive(plan []Volume, name string, size int64, digest []byte, from io.Reader) error {
	v, err := carried(plan, name)
	if err != nil {
		return err
	}
	if size < 0 || size > contract.LargestMigrationFile {
		return failed(v.Name, "%s has %d bytes, which is more than such a file may have", name, size)
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
		return fmt.Errorf("putting %s in its place: %w", name, err)
	}
	return nil
}

func carried(plan []Volume, name string) (Volume, error) {
	for _, v := range plan {
		if v.iso() && filepath.Base(v.Path) == name {
			return v, nil
		}
	}
	return Volume{}, fmt.Errorf("the VM has no file %q that is carried", name)
}

// ImageDigest is the SHA-256 of the image that a volume is on top of; nil: it has none.
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

// BootDigest is a SHA-256 of the kernel and the initial RAM disk that Boot has found; nil: there are none.
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

// digest is the SHA-256 of a file in a volume's image, which the path keeps to.
func digest(volume, path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // as said
	if err != nil {
		return nil, fmt.Errorf("reading the image of %s: %w", volume, err)
	}
	defer f.Close() //nolint:errcheck // only read from
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("reading the image of %s: %w", volume, err)
	}
	return h.Sum(nil), nil
}
