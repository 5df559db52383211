package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/domain"
)

const (
	// imageFile is the disk on a PVC's file system, as KubeVirt and CDI name it.
	imageFile = "disk.img"
	// sector is the unit of a file's block count, in bytes.
	sector = 512
)

// ErrNotGiven means that the node worker has not yet given the device of a PVC to the launcher's user.
var ErrNotGiven = errors.New("may not open its device yet")

// planClaim plans a PVC. Kubernetes mounts it according to its volume mode, which the VMI's status has.
func planClaim(vmi *v1.VirtualMachineInstance, v *v1.Volume, at Directories) (Volume, error) {
	c := claims.Known(vmi, v.Name)
	if c == nil {
		return Volume{}, volumeError(v.Name, "the VMI's status has no facts about its PersistentVolumeClaim")
	}
	out := Volume{Name: v.Name, Kind: ClaimDevice, Path: filepath.Join(at.Devices, v.Name),
		ReadOnly: claims.ReadOnly(v), Thick: c.Preallocated}
	if !claims.Block(c) {
		out.Kind, out.Source = ClaimFile, filepath.Join(at.Claims, v.Name)
		out.Path = filepath.Join(out.Source, imageFile)
		if out.Size = fileSize(c); out.Size <= 0 {
			return Volume{}, volumeError(v.Name, "the size for volume %s is too low", v.Name)
		}
		out.Grown = grownSize(c)
	}
	if v.Ephemeral != nil {
		out.Kind, out.Base, out.Source, out.Size, out.ReadOnly = Ephemeral, out.Kind, out.Path, 0, false
		out.Path = filepath.Join(at.Disks, v.Name+"-overlay.qcow2")
	}
	return out, nil
}

// fileSize returns the size of the file to be made on a PVC: the request, or the capacity where that is less, in whole
// MiB.
func fileSize(c *v1.PersistentVolumeClaimInfo) int64 {
	size := c.Requests.Name(corev1.ResourceStorage, "").Value()
	if capacity := c.Capacity.Name(corev1.ResourceStorage, "").Value(); size == 0 || capacity > 0 && capacity < size {
		size = capacity
	}
	return size / mebibyte * mebibyte
}

// grownSize returns the size to which a file on a PVC is enlarged when its guest starts, as in KubeVirt: the capacity
// less the overhead of the file system. 0 means that it is not known.
func grownSize(c *v1.PersistentVolumeClaimInfo) int64 {
	if c.FilesystemOverhead == nil {
		return 0
	}
	overhead, err := strconv.ParseFloat(string(*c.FilesystemOverhead), 64)
	if err != nil || overhead < 0 || overhead >= 1 {
		return 0
	}
	return int64((1-overhead)*float64(fileSize(c))) / mebibyte * mebibyte
}

// claimFile opens the file on a PVC, and makes it if there is none. The PVC's user controls its content, so the file
// must not lead outside through links, and it is raw whatever it looks like. QEMU opens it once more: a file that
// another pod puts in its place in between gives access to nothing that this pod does not have.
func (p *Preparer) claimFile(v Volume) (domain.Volume, error) {
	root, err := os.OpenRoot(v.Source)
	if err != nil {
		return domain.Volume{}, volumeError(v.Name, "its file system cannot be opened: %v", kernelReason(err))
	}
	defer root.Close()
	info, err := root.Lstat(imageFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (v.Size == 0 || v.ReadOnly):
		return domain.Volume{}, volumeError(v.Name, "its file system has no %s", imageFile)
	case errors.Is(err, fs.ErrNotExist):
		err = makeFile(root, v, p.limits)
	case err != nil:
		err = volumeError(v.Name, "%s: %v", imageFile, kernelReason(err))
	case !info.Mode().IsRegular():
		err = volumeError(v.Name, "%s is not a regular file", imageFile)
	case info.Size() == 0 && v.Size > 0 && !v.ReadOnly: // an earlier attempt was interrupted
		err = makeFile(root, v, p.limits)
	case info.Size() < v.Grown && !v.ReadOnly:
		err = growFile(root, v)
	}
	if err != nil {
		return domain.Volume{}, err
	}
	return openStorage(v)
}

// Grow makes the storage behind a running guest's disk as large as its PVC is now, and returns its size in bytes. 0
// means that it cannot grow while the guest runs: it is read-only or below an overlay.
func Grow(v Volume) (int64, error) {
	if v.ReadOnly {
		return 0, nil
	}
	switch v.Kind {
	case ClaimFile:
		root, err := os.OpenRoot(v.Source)
		if err != nil {
			return 0, volumeError(v.Name, "its file system cannot be opened: %v", kernelReason(err))
		}
		defer root.Close()
		if err := growFile(root, v); err != nil {
			return 0, err
		}
	case ClaimDevice:
	default:
		return 0, nil
	}
	now, err := openStorage(v)
	return now.Size, err
}

// growFile enlarges the file of a PVC that has grown, as a hole. It never shrinks it.
func growFile(root *os.Root, v Volume) error {
	f, err := root.OpenFile(imageFile, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return volumeError(v.Name, "user %d may not open %s: %v", os.Getuid(), imageFile, kernelReason(err))
	}
	var at int64
	if at, err = f.Seek(0, io.SeekEnd); err == nil && at < v.Grown {
		if v.Thick {
			err = unix.Fallocate(int(f.Fd()), 0, at, v.Grown-at)
		} else {
			err = f.Truncate(v.Grown)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return volumeError(v.Name, "enlarging %s to %d bytes: %v", imageFile, v.Grown, err)
	}
	return nil
}

// makeFile makes the file of a PVC as a hole. Concurrent calls make the same file.
func makeFile(root *os.Root, v Volume, limits hardware.Disks) error {
	var space unix.Statfs_t
	if err := unix.Statfs(v.Source, &space); err != nil {
		return fmt.Errorf("reading free space of volume %s: %w", v.Name, err)
	}
	free := int64(space.Bavail)*space.Bsize - limits.Reserve // of a file system
	size, err := sizeThatFits(v, free, limits.TolerateLess)
	if err != nil {
		return err
	}
	f, err := root.OpenFile(imageFile, os.O_RDWR|os.O_CREATE, 0o660)
	if err != nil {
		return volumeError(v.Name, "user %d may not create %s on it: %v", os.Getuid(), imageFile, kernelReason(err))
	}
	if err = f.Truncate(size); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return volumeError(v.Name, "creating %s of %d bytes: %v", imageFile, size, err)
	}
	return nil
}

// sizeThatFits returns the size of the file that fits into so many free bytes; it may be smaller than requested by that
// percentage.
func sizeThatFits(v Volume, free, tolerated int64) (int64, error) {
	switch {
	case v.Size <= free:
		return v.Size, nil
	case v.Size/100*(100-tolerated) > free, free < mebibyte:
		return 0, volumeError(v.Name, "unable to create %s, not enough space, demanded size %d B is bigger than "+
			"available space %d B, also after taking %d %% toleration into account", v.Path, v.Size, free, tolerated)
	default:
		return free / mebibyte * mebibyte, nil
	}
}

// claimDevice opens the device of a PVC.
func claimDevice(v Volume) (domain.Volume, error) {
	info, err := os.Lstat(v.Path)
	switch {
	case err != nil:
		return domain.Volume{}, volumeError(v.Name, "its device: %v", kernelReason(err))
	case info.Mode().Type() != fs.ModeDevice:
		return domain.Volume{}, volumeError(v.Name, "%s is not a block device", v.Path)
	}
	out, err := openStorage(v)
	out.Block, out.Allocated = true, true
	return out, err
}

// openStorage describes the storage of a PVC, and tests whether it can be opened.
func openStorage(v Volume) (domain.Volume, error) {
	how := os.O_RDWR
	if v.ReadOnly {
		how = os.O_RDONLY
	}
	f, err := os.OpenFile(v.Path, how|unix.O_NOFOLLOW, 0)
	if err != nil {
		return domain.Volume{}, notOpened(v, err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return domain.Volume{}, fmt.Errorf("reading the size of volume %s: %w", v.Name, err)
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return domain.Volume{}, fmt.Errorf("reading volume %s: %w", v.Name, err)
	}
	return domain.Volume{
		Path: v.Path, Format: "raw", Size: size, DirectIO: directIO(v.Path), Claim: true,
		ReadOnly: v.ReadOnly, Allocated: s.Blocks*sector >= size, Thick: v.Thick,
	}, nil
}

// notOpened returns the error for storage of a PVC that could not be opened. A device belongs to root until the node
// worker gives it to this user, which it does whenever it finds the pod, so another attempt may succeed. The
// permissions of a file depend on the PVC's content, and what the pod's device rules refuse (EPERM) they refuse
// permanently.
func notOpened(v Volume, err error) error {
	if v.Kind == ClaimDevice && errors.Is(err, unix.EACCES) {
		return fmt.Errorf("volume %s: user %d %w: %w", v.Name, os.Getuid(), ErrNotGiven, kernelReason(err))
	}
	return volumeError(v.Name, "user %d may not open it: %v", os.Getuid(), kernelReason(err))
}

// makeOverlay makes an overlay on the storage of a PVC.
func (p *Preparer) makeOverlay(ctx context.Context, v Volume) (domain.Volume, error) {
	base := Volume{Name: v.Name, Kind: v.Base, Path: v.Source, Source: filepath.Dir(v.Source), ReadOnly: true}
	look := p.claimFile
	if v.Base == ClaimDevice {
		look = claimDevice
	}
	backing, err := look(base)
	if err != nil {
		return domain.Volume{}, err
	}
	err = makeAtomically(v.Path, func(path string) error {
		return p.img.createOverlay(ctx, backing.Path, backing.Format, path)
	})
	return domain.Volume{Path: v.Path, Format: "qcow2", Size: backing.Size,
		DirectIO: directIO(v.Path) && backing.DirectIO}, err
}

// kernelReason returns the kernel's error without the path, which only makes sense inside the pod.
func kernelReason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
