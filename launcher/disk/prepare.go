package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/domain"
)

// Preparer makes the files that Plan lists.
type Preparer struct {
	img    qemuImg
	limits hardware.Disks
}

// NewPreparer returns a Preparer that uses the given qemu-img program.
func NewPreparer(program string, run Starter, limits hardware.Disks) *Preparer {
	return &Preparer{img: qemuImg{program: program, run: run, probeMemory: limits.ProbeMemory}, limits: limits}
}

// Prepare makes every volume and returns them by name. It returns an *Error where a user has to change the VMI or an
// image; after any other error another attempt may succeed.
func (p *Preparer) Prepare(
	ctx context.Context, vmi *v1.VirtualMachineInstance, volumes []Volume,
) (map[string]domain.Volume, error) {
	out := make(map[string]domain.Volume, len(volumes))
	for _, v := range volumes {
		made, err := p.prepare(ctx, vmi, v)
		if err != nil {
			return nil, fmt.Errorf("preparing %s %s: %w", v.Kind, v.Name, err)
		}
		if matchesBlocks(vmi, v.Name) {
			if made.Blocks, err = blocks(made); err != nil {
				return nil, fmt.Errorf("preparing %s %s: %w", v.Kind, v.Name, err)
			}
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
		err := makeAtomically(v.Path, func(path string) error { return p.img.createEmpty(ctx, path, v.Size) })
		return domain.Volume{Path: v.Path, Format: "qcow2", Size: v.Size, DirectIO: directIO(v.Path)}, err
	case NoCloud, ConfigDrive, Secret, ConfigMap, DownwardAPI, ServiceAccount, Sysprep:
		return prepareISO(vmi, v)
	case ClaimFile:
		return p.claimFile(v)
	case ClaimDevice:
		return claimDevice(v)
	case Ephemeral:
		return p.makeOverlay(ctx, v)
	}
	return domain.Volume{}, volumeError(v.Name, "this kind of volume is not supported yet")
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
		return domain.Volume{}, volumeError(v.Name, "invalid image in containerDisk %s: %v", v.Name, err)
	}
	if info.Format != "qcow2" && info.Format != "raw" {
		return domain.Volume{}, volumeError(v.Name, "unsupported image format: %s", info.Format)
	}
	if info.Backing != "" {
		return domain.Volume{}, volumeError(v.Name, "expected no backing file, but found %s", info.Backing)
	}
	if file := info.dataFile(); file != "" {
		return domain.Volume{}, volumeError(v.Name, "expected no data file, but found %s", file)
	}
	err = makeAtomically(v.Path, func(path string) error {
		return p.img.createOverlay(ctx, backing, info.Format, path)
	})
	return domain.Volume{
		Path: v.Path, Format: "qcow2", Size: info.VirtualSize, DirectIO: directIO(v.Path) && directIO(backing),
	}, err
}

// makeAtomically makes a file under another name and renames it, so that a file of the final name is always complete.
// It is made only once, because the guest may have written to it since.
func makeAtomically(path string, build func(path string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the file of an earlier attempt: %w", err)
	}
	if err := build(part); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("renaming the file: %w", err)
	}
	return nil
}

// directIO reports whether a file can be read past the host's page cache.
func directIO(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}
