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
	// imageFile is the disk on a claim's file system, as KubeVirt and CDI name it.
	imageFile = "disk.img"
	// sector is what the blocks of a file are counted in.
	sector = 512
)

// ErrNotGiven says that the device of a claim does not belong to the launcher's user yet; it may in a moment.
var ErrNotGiven = errors.New("may not open its device yet") //nolint:gochecknoglobals // a constant error

// planClaim: Kubernetes mounts a claim as its mode says, which the VMI's status repeats.
func planClaim(vmi *v1.VirtualMachineInstance, v *v1.Volume, at Directories) (Volume, error) {
	c := claims.Known(vmi, v.Name)
	if c == nil {
		return Volume{}, failed(v.Name, "nothing is known of its PersistentVolumeClaim")
	}
	out := Volume{Name: v.Name, Kind: ClaimDevice, Path: filepath.Join(at.Devices, v.Name),
		ReadOnly: claims.ReadOnly(v), Thick: c.Preallocated}
	if !claims.Block(c) {
		out.Kind, out.Source = ClaimFile, filepath.Join(at.Claims, v.Name)
		out.Path = filepath.Join(out.Source, imageFile)
		if out.Size = fileSize(c); out.Size <= 0 {
			return Volume{}, failed(v.Name, "the size for volume %s is too low", v.Name)
		}
		out.Grown = grownSize(c)
	}
	if v.Ephemeral != nil {
		out.Kind, out.Base, out.Source, out.Size, out.ReadOnly = Ephemeral, out.Kind, out.Path, 0, false
		out.Path = filepath.Join(at.Disks, v.Name+"-overlay.qcow2")
	}
	return out, nil
}

// fileSize is that of the file to be made on a claim: what was asked for, or the capacity where that is less, in whole
// MiB.
func fileSize(c *v1.PersistentVolumeClaimInfo) int64 {
	size := c.Requests.Name(corev1.ResourceStorage, "").Value()
	if capacity := c.Capacity.Name(corev1.ResourceStorage, "").Value(); size == 0 || capacity > 0 && capacity < size {
		size = capacity
	}
	return size / mebibyte * mebibyte
}

// grownSize is what a file on a claim is enlarged to when its guest starts, as in KubeVirt: what the claim has but for
// its file system's own. 0: that is not known.
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

// claimFile opens the file on a claim, which is made where there is none. The claim's user controls what is on it, so
// nothing outside of it is reached through links, and the file is raw whatever it looks like. QEMU opens it once more:
// what another pod puts in its place in between leads to no more than this pod has.
func (p *Preparer) claimFile(v Volume) (domain.Volume, error) {
	root, err := os.OpenRoot(v.Source)
	if err != nil {
		return domain.Volume{}, failed(v.Name, "its file system cannot be opened: %v", reason(err))
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	info, err := root.Lstat(imageFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (v.Size == 0 || v.ReadOnly):
		return domain.Volume{}, failed(v.Name, "there is no %s on it", imageFile)
	case errors.Is(err, fs.ErrNotExist):
		err = makeFile(root, v, p.limits)
	case err != nil:
		err = failed(v.Name, "%s: %v", imageFile, reason(err))
	case !info.Mode().IsRegular():
		err = failed(v.Name, "%s is not a regular file", imageFile)
	case info.Size() == 0 && v.Size > 0 && !v.ReadOnly: // making it was cut off
		err = makeFile(root, v, p.limits)
	case info.Size() < v.Grown && !v.ReadOnly:
		err = growFile(root, v)
	}
	if err != nil {
		return domain.Volume{}, err
	}
	return opened(v)
}

// Grow makes what is behind a running guest's disk as large as its claim is by now, and returns its size in bytes. 0:
// it does not grow while the guest runs, being read-only or below a layer.
func Grow(v Volume) (int64, error) {
	if v.ReadOnly {
		return 0, nil
	}
	switch v.Kind {
	case ClaimFile:
		root, err := os.OpenRoot(v.Source)
		if err != nil {
			return 0, failed(v.Name, "its file system cannot be opened: %v", reason(err))
		}
		defer root.Close() //nolint:errcheck // nothing is written through it
		if err := growFile(root, v); err != nil {
			return 0, err
		}
	case ClaimDevice:
	default:
		return 0, nil
	}
	now, err := opened(v)
	return now.Size, err
}

// growFile enlarges the file of a claim that has grown, without content. It never gets smaller.
func growFile(root *os.Root, v Volume) error {
	f, err := root.OpenFile(imageFile, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return failed(v.Name, "user %d may not open %s: %v", os.Getuid(), imageFile, reason(err))
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
		return failed(v.Name, "enlarging %s to %d bytes: %v", imageFile, v.Grown, err)
	}
	return nil
}

// makeFile makes the file of a claim, without its content. Two that do so at once make the same.
func makeFile(root *os.Root, v Volume, limits hardware.Disks) error {
	var space unix.Statfs_t
	if err := unix.Statfs(v.Source, &space); err != nil {
		return fmt.Errorf("looking for space on volume %s: %w", v.Name, err)
	}
	free := int64(space.Bavail)*space.Bsize - limits.Reserve //nolint:gosec // of a file system
	size, err := fitting(v, free, limits.TolerateLess)
	if err != nil {
		return err
	}
	f, err := root.OpenFile(imageFile, os.O_RDWR|os.O_CREATE, 0o660)
	if err != nil {
		return failed(v.Name, "user %d may not make %s on it: %v", os.Getuid(), imageFile, reason(err))
	}
	if err = f.Truncate(size); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return failed(v.Name, "making %s of %d bytes: %v", imageFile, size, err)
	}
	return nil
}

// fitting is the size of the file that fits into so many free bytes, where a percentage less than was asked for is
// tolerated.
func fitting(v Volume, free, tolerated int64) (int64, error) {
	switch {
	case v.Size <= free:
		return v.Size, nil
	case v.Size/100*(100-tolerated) > free, free < mebibyte:
		return 0, failed(v.Name, "unable to create %s, not enough space, demanded size %d B is bigger than available "+
			"space %d B, also after taking %d %% toleration into account", v.Path, v.Size, free, tolerated)
	default:
		return free / mebibyte * mebibyte, nil
	}
}

// claimDevice opens the device of a claim.
func claimDevice(v Volume) (domain.Volume, error) {
	info, err := os.Lstat(v.Path)
	switch {
	case err != nil:
		return domain.Volume{}, failed(v.Name, "its device: %v", reason(err))
	case info.Mode().Type() != fs.ModeDevice:
		return domain.Volume{}, failed(v.Name, "%s is not a block device", v.Path)
	}
	out, err := opened(v)
	out.Block, out.Allocated = true, true
	return out, err
}

// opened describes what is behind a claim, and finds out whether it can be opened.
func opened(v Volume) (domain.Volume, error) {
	how := os.O_RDWR
	if v.ReadOnly {
		how = os.O_RDONLY
	}
	f, err := os.OpenFile(v.Path, how|unix.O_NOFOLLOW, 0)
	if err != nil {
		return domain.Volume{}, notOpened(v, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return domain.Volume{}, fmt.Errorf("finding out how large volume %s is: %w", v.Name, err)
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return domain.Volume{}, fmt.Errorf("looking at volume %s: %w", v.Name, err)
	}
	return domain.Volume{
		Path: v.Path, Format: "raw", Size: size, DirectIO: directIO(v.Path), Claim: true,
		ReadOnly: v.ReadOnly, Allocated: s.Blocks*sector >= size, Thick: v.Thick,
	}, nil
}

// notOpened says why what is behind a claim was not opened. A device belongs to root until the node's worker has given
// it to this user, which it does again whenever it finds the pod: a moment later it may be opened. Who may open a file
// is the claim's own affair, and what the device rules of the pod refuse (EPERM) they refuse for good.
func notOpened(v Volume, err error) error {
	if v.Kind == ClaimDevice && errors.Is(err, unix.EACCES) {
		return fmt.Errorf("volume %s: user %d %w: %w", v.Name, os.Getuid(), ErrNotGiven, reason(err))
	}
	return failed(v.Name, "user %d may not open it: %v", os.Getuid(), reason(err))
}

// ephemeral makes an overlay on what is on a claim.
func (p *Preparer) ephemeral(ctx context.Context, v Volume) (domain.Volume, error) {
	base := Volume{Name: v.Name, Kind: v.Base, Path: v.Source, Source: filepath.Dir(v.Source), ReadOnly: true}
	look := p.claimFile
	if v.Base == ClaimDevice {
		look = claimDevice
	}
	backing, err := look(base)
	if err != nil {
		return domain.Volume{}, err
	}
	err = once(v.Path, func(path string) error { return p.img.overlay(ctx, backing.Path, backing.Format, path) })
	return domain.Volume{Path: v.Path, Format: "qcow2", Size: backing.Size,
		DirectIO: directIO(v.Path) && backing.DirectIO}, err
}

// reason is what the kernel says, without the path, which is the pod's own affair.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
