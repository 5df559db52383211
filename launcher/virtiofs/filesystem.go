package virtiofs

import (
	"fmt"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/launcher/domain"
)

// FileSystem is a directory that a guest mounts as a file system.
type FileSystem struct {
	Name      string // the guest mounts it by this tag, which is the volume's name
	Directory string
	Socket    string // where QEMU connects to its daemon
}

// Directories has the volumes, each in a directory of its name, and the sockets of their daemons.
type Directories struct{ Claims, Files, Sockets string }

// Plan lists the file systems of a VMI. An error is a *domain.InvalidError.
func Plan(vmi *v1.VirtualMachineInstance, at Directories) ([]FileSystem, error) {
	volumes := map[string]*v1.Volume{}
	for i := range vmi.Spec.Volumes {
		volumes[vmi.Spec.Volumes[i].Name] = &vmi.Spec.Volumes[i]
	}
	var out []FileSystem
	for i, f := range vmi.Spec.Domain.Devices.Filesystems {
		v := volumes[f.Name]
		if v == nil {
			return nil, invalid(i, "no volume is named %s", f.Name)
		}
		from := at.Files
		if _, isClaim := claims.Kept(v); isClaim {
			from = at.Claims
			if known := claims.Known(vmi, f.Name); known != nil && claims.Block(known) {
				return nil, invalid(i, "the PVC of volume %s is a block device, not a file system", f.Name)
			}
		}
		// The name is not part of the path: that of a socket may have 107 bytes.
		out = append(out, FileSystem{Name: f.Name, Directory: filepath.Join(from, f.Name),
			Socket: filepath.Join(at.Sockets, fmt.Sprintf("virtiofs%d.sock", i))})
	}
	return out, nil
}

func invalid(i int, format string, args ...any) error {
	return &domain.InvalidError{Field: fmt.Sprintf("spec.domain.devices.filesystems[%d]", i),
		Problem: fmt.Sprintf(format, args...)}
}
