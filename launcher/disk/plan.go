package disk

import (
	"fmt"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
)

// Kind is the source from which a volume is made.
type Kind string

// Kinds of volumes.
const (
	ContainerDisk  Kind = "containerDisk"
	EmptyDisk      Kind = "emptyDisk"
	NoCloud        Kind = "cloudInitNoCloud"
	ConfigDrive    Kind = "cloudInitConfigDrive"
	Secret         Kind = "secret"
	ConfigMap      Kind = "configMap"
	DownwardAPI    Kind = "downwardAPI"
	ServiceAccount Kind = "serviceAccount"
	Sysprep        Kind = "sysprep"
	// ClaimFile is the file disk.img on the file system of a PersistentVolumeClaim, and ClaimDevice a
	// PersistentVolumeClaim of volume mode Block.
	ClaimFile   Kind = "persistentVolumeClaim"
	ClaimDevice Kind = "persistentVolumeClaim (block)"
	// Ephemeral is an overlay on either, which itself stays unchanged.
	Ephemeral Kind = "ephemeral"
)

// mebibyte is the unit to which KubeVirt rounds the size of an image down.
const mebibyte = 1 << 20

// Directories has the sources and destinations of volumes.
type Directories struct {
	Images    string // the read-only image of each containerDisk, in a directory of the volume's name
	CloudInit string // the inline cloud-init data of each volume, in a directory of the volume's name
	// UserData and NetworkData have the user's own Secrets, each whole and in a directory of the volume's name.
	UserData, NetworkData string
	// Files has each volume that is a Secret, ConfigMap or the like, in a directory of the volume's name.
	Files string
	// AccessCredentials has each Secret that accessCredentials name, in a directory of the Secret's name.
	AccessCredentials string
	Disks             string // writable: overlays, empty disks and ISOs
	// Claims has the file system of each PVC, in a directory of the volume's name, and Devices the PVCs of mode Block,
	// by the volumes' names.
	Claims, Devices string
}

// Volume describes what to make for one volume of the VMI.
type Volume struct {
	Name   string
	Kind   Kind
	Source string // directory from which it is made, or image below an ephemeral one; none for an emptyDisk
	// UserData and NetworkData are the directories with cloud-init data, and PublicKeys those with SSH keys that go
	// with it.
	UserData, NetworkData string
	PublicKeys            []string
	// Label of an ISO.
	Label string
	// File is the image's path within Source; empty: the single file beneath disk/.
	File string
	// Path of the file or device that the domain opens.
	Path string
	// Size of an emptyDisk, or of the file to be made on an empty PVC, in bytes. 0 means that none is made.
	Size int64
	// Grown is the size to which a smaller file on a PVC is enlarged, in bytes. 0 means that it stays as it is.
	Grown int64
	// Base is the kind of PVC below an ephemeral volume.
	Base Kind
	// ReadOnly is true if the volume cannot be written.
	ReadOnly bool
	// Thick is true if the space of a PVC must stay allocated.
	Thick bool
}

// Kept reports whether a volume keeps what the guest writes, on whichever node the guest runs.
func (v Volume) Kept() bool { return v.Kind == ClaimFile || v.Kind == ClaimDevice }

// Error has the problem of a volume, in KubeVirt's words where KubeVirt has any. Another attempt does not help.
type Error struct {
	Volume  string
	Problem string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("volume %s: %s", e.Volume, e.Problem) }

// volumeError returns an Error about one volume.
func volumeError(volume, format string, args ...any) error {
	return &Error{Volume: volume, Problem: fmt.Sprintf(format, args...)}
}

// Plan lists what to make for the volumes that the VMI's disks use.
func Plan(vmi *v1.VirtualMachineInstance, at Directories) ([]Volume, error) {
	used := map[string]bool{}
	for i := range vmi.Spec.Domain.Devices.Disks {
		used[vmi.Spec.Domain.Devices.Disks[i].Name] = true
	}
	var out []Volume
	cloudInit := ""
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		if !used[v.Name] {
			continue
		}
		planned, err := planVolume(vmi, v, at)
		if err != nil {
			return nil, err
		}
		if planned.cloudInit() {
			planned.PublicKeys = publicKeys(&vmi.Spec, planned.Kind, at)
			if cloudInit != "" {
				return nil, volumeError(v.Name,
					"a VM can have only one cloud-init volume, and already has %s", cloudInit)
			}
			cloudInit = v.Name
		}
		out = append(out, planned)
	}
	return out, nil
}

func planVolume(vmi *v1.VirtualMachineInstance, v *v1.Volume, at Directories) (Volume, error) {
	if _, isClaim := claims.Of(v); isClaim {
		return planClaim(vmi, v, at)
	}
	switch {
	case v.ContainerDisk != nil:
		return Volume{
			Name: v.Name, Kind: ContainerDisk, Source: filepath.Join(at.Images, v.Name), File: v.ContainerDisk.Path,
			Path: filepath.Join(at.Disks, v.Name+"-overlay.qcow2"),
		}, nil
	case v.EmptyDisk != nil:
		size := v.EmptyDisk.Capacity.Value() / mebibyte * mebibyte
		if size <= 0 {
			return Volume{}, volumeError(v.Name, "the size for volume %s is too low", v.Name)
		}
		return Volume{Name: v.Name, Kind: EmptyDisk, Size: size, Path: filepath.Join(at.Disks, v.Name+".qcow2")}, nil
	default:
		return planISO(v, at)
	}
}
