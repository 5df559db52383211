package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/cloudinit"
	"github.com/virtflow/virtflow/launcher/domain"
)

// Keys of the Secret that carries a volume's cloud-init data, and KubeVirt's other spelling of each, which a user's own
// Secret may have.
const (
	keyUserData        = "userdata"
	keyUserDataAlso    = "userData"
	keyNetworkData     = "networkdata"
	keyNetworkDataAlso = "networkData"
)

// Preparer makes the files that Plan lists.
type Preparer struct {
	img qemuImg
}

// NewPreparer uses the given qemu-img program.
func NewPreparer(program string, run Starter) *Preparer {
	return &Preparer{img: qemuImg{program: program, run: run}}
}

// Prepare makes every volume and returns them by name. What somebody has to change in the VMI or in an image is an
// *Error; other errors may pass.
func (p *Preparer) Prepare(
	ctx context.Context, vmi *v1.VirtualMachineInstance, volumes []Volume,
) (map[string]domain.Volume, error) {
	out := make(map[string]domain.Volume, len(volumes))
	for _, v := range volumes {
		made, err := p.prepare(ctx, vmi, v)
		if err != nil {
			return nil, fmt.Errorf("preparing %s %s: %w", v.Kind, v.Name, err)
		}
		out[v.Name] = made
	}
	return out, nil
}

func (p *Preparer) prepare(ctx context.Context, vmi *v1.VirtualMachineInstance, v Volume) (domain.Volume, error) {
	switch v.Kind {
	case ContainerDisk:
		return p.containerDisk(ctx, v)
	case EmptyDisk:
		err := once(v.Path, func(path string) error { return p.img.empty(ctx, path, v.Size) })
		return domain.Volume{Path: v.Path, Format: "qcow2", Size: v.Size, DirectIO: directIO(v.Path)}, err
	case NoCloud:
		return noCloud(vmi, v)
	}
	return domain.Volume{}, failed(v.Name, "this kind of volume is not supported yet")
}

func (p *Preparer) containerDisk(ctx context.Context, v Volume) (domain.Volume, error) {
	backing, err := find(v)
	if err != nil {
		return domain.Volume{}, err
	}
	info, err := p.img.info(ctx, backing)
	if err != nil {
		if ctx.Err() != nil {
			return domain.Volume{}, err
		}
		return domain.Volume{}, failed(v.Name, "invalid image in containerDisk %s: %v", v.Name, err)
	}
	if info.Format != "qcow2" && info.Format != "raw" {
		return domain.Volume{}, failed(v.Name, "unsupported image format: %s", info.Format)
	}
	if info.Backing != "" {
		return domain.Volume{}, failed(v.Name, "expected no backing file, but found %s", info.Backing)
	}
	if file := info.dataFile(); file != "" {
		return domain.Volume{}, failed(v.Name, "expected no data file, but found %s", file)
	}
	err = once(v.Path, func(path string) error { return p.img.overlay(ctx, backing, info.Format, path) })
	return domain.Volume{
		Path: v.Path, Format: "qcow2", Size: info.VirtualSize, DirectIO: directIO(v.Path) && directIO(backing),
	}, err
}

func noCloud(vmi *v1.VirtualMachineInstance, v Volume) (domain.Volume, error) {
	user, err := readFirst(v.UserData, keyUserData, keyUserDataAlso)
	if err != nil {
		return domain.Volume{}, failed(v.Name, "reading the user data: %v", err)
	}
	network, err := readFirst(v.NetworkData, keyNetworkData, keyNetworkDataAlso)
	if err != nil {
		return domain.Volume{}, failed(v.Name, "reading the network data: %v", err)
	}
	if user == nil && network == nil {
		return domain.Volume{}, failed(v.Name,
			"userDataBase64, userData, networkDataBase64 or networkData is required for a cloud-init data source")
	}
	meta := cloudinit.MetaData{InstanceID: domain.UUID(vmi), LocalHostname: domain.Hostname(vmi),
		InstanceType: instanceType(vmi)}
	err = once(v.Path, func(path string) error {
		return cloudinit.WriteNoCloud(path, cloudinit.NoCloud{MetaData: meta, UserData: user, NetworkConfig: network})
	})
	size := int64(0)
	if info, statErr := os.Stat(v.Path); statErr == nil {
		size = info.Size()
	}
	return domain.Volume{Path: v.Path, Format: "raw", Size: size, DirectIO: directIO(v.Path), ReadOnly: true}, err
}

// instanceType is the name of the VM's instance type, of which a cluster-wide one wins.
func instanceType(vmi *v1.VirtualMachineInstance) string {
	for _, key := range []string{v1.ClusterInstancetypeAnnotation, v1.InstancetypeAnnotation} {
		if name := vmi.Annotations[key]; name != "" {
			return name
		}
	}
	return ""
}

// once makes a file under another name and renames it, so that a file of the final name is always whole and is made one
// time only: a guest may have written to it since.
func once(path string, build func(path string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clearing what an earlier attempt left: %w", err)
	}
	if err := build(part); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("putting the file in its place: %w", err)
	}
	return nil
}

// readFirst reads the first of the named files that exists; nil: none does.
func readFirst(dir string, names ...string) ([]byte, error) {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // a directory that Kubernetes mounts
		if !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return nil, nil
}

// directIO tries whether a file can be read past the host's page cache.
func directIO(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}
