package disk

import (
	"fmt"
	"path/filepath"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
)

// Kind is what a volume is made from.
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
	// ClaimFile is the file disk.img on the file system of a PersistentVolumeClaim, and ClaimDevice a claim that is a
	// device.
	ClaimFile   Kind = "persistentVolumeClaim"
	ClaimDevice Kind = "persistentVolumeClaim (block)"
	// Ephemeral is an overlay on either, which is not written to.
	Ephemeral Kind = "ephemeral"
)

// mebibyte is what KubeVirt rounds the size of an image down to.
const mebibyte = 1 << 20

// Directories are those that volumes come from and go to.
type Directories struct {
	Images    string // the read-only image of each containerDisk, in a directory of the volume's name
	CloudInit string // the inline cloud-init data of each volume, in a directory of the volume's name
	// UserData and NetworkData have the user's own Secrets, each whole and in a directory of the volume's name.
	UserData, NetworkData string
	// Files has those of each Secret, ConfigMap and the like that is a volume, in a directory of the volume's name.
	Files string
	// AccessCredentials has each Secret that accessCredentials name, in a directory of the Secret's name.
	AccessCredentials string
	Disks             string // writable: overlays, empty disks and ISOs
	// Claims has the file system of each claim, in a directory of the volume's name, and Devices the claims that are
	// devices, by the volumes' names.
	Claims, Devices string
}

// Volume is what has to be made for one volume of the VMI.
type Volume struct {
	Name   string
	Kind   Kind
	Source string // directory that it is made from, or image that an ephemeral one lies on; none for an emptyDisk
	// UserData and NetworkData are the directories that cloud-init data comes from, and PublicKeys those of SSH keys
	// that go with it.
	UserData, NetworkData string
	PublicKeys            []string
	// Label of an ISO.
	Label string
	// File is the image's path within Source; empty: the single file beneath disk/.
	File string
	// Path of the file or device that the domain opens.
	Path string
	// Size of an emptyDisk, or of the file to be made on a claim that has none; in bytes. 0: none is made.
	Size int64
	// Grown is what a smaller file on a claim is enlarged to, in bytes. 0: it stays as it is.
	Grown int64
	// Base is the kind of claim that an ephemeral volume lies on.
	Base Kind
	// ReadOnly says that nothing can be written there.
	ReadOnly bool
	// Thick says that the space of a claim is to stay allocated.
	Thick bool
}

// Kept says that a volume keeps what the guest writes, wherever the guest is.
func (v Volume) Kept() bool { return v.Kind == ClaimFile || v.Kind == ClaimDevice }

// Error says what is wrong with a volume, in the words that KubeVirt uses where it has some. Trying again does not
// help.
type Error struct {
	Volume  string
	Problem string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("volume %s: %s", e.Volume, e.Problem) }

func failed(volume, format string, args ...any) error {
	return &Error{Volume: volume, Problem: fmt.Sprintf(format, args...)}
}

// Plan lists what has to be made for the volumes that the VMI's disks use.
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
				return nil, failed(v.Name, "a VM has one cloud-init volume, and that is %s", cloudInit)
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
			return Volume{}, failed(v.Name, "the size for volume %s is too low", v.Name)
		}
		return Volume{Name: v.Name, Kind: EmptyDisk, Size: size, Path: filepath.Join(at.Disks, v.Name+".qcow2")}, nil
	default:
		return planISO(v, at)
	}
}
