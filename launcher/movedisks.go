package launcher

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// Describe implements the service's call.
func (l *Launcher) Describe(context.Context) (*rpc.DescribeMigrationResponse, error) {
	b := l.made.Load()
	if b == nil {
		return nil, status.Error(codes.FailedPrecondition, "the guest has not started yet")
	}
	disks, err := l.migrationDisks(b)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	d := l.domain.Domain()
	out := &rpc.DescribeMigrationResponse{
		Disks: disks, MemoryBytes: d.GetGuestMemoryBytes(), MachineType: d.GetMachineType(),
	}
	copied := map[string]bool{}
	for _, d := range disks {
		copied[d.GetName()] = d.GetCopied()
	}
	for _, v := range b.plan {
		if !disk.Carried(v, !copied[v.Name]) {
			continue
		}
		name := filepath.Base(v.Path)
		content, digest, err := disk.Read(b.plan, name)
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		out.Files = append(out.Files, &rpc.MigrationFile{Name: name, Size: int64(len(content)), Sha256: digest})
	}
	return out, nil
}

// File implements the service's call.
func (l *Launcher) File(_ context.Context, name string) ([]byte, error) {
	b := l.made.Load()
	if b == nil {
		return nil, status.Error(codes.FailedPrecondition, "the guest has not started yet")
	}
	content, _, err := disk.Read(b.plan, name)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return content, nil
}

// digests has the digests of images, by their volumes' names, and of kernelBoot. It is safe for concurrent use.
type digests struct {
	mu    sync.Mutex
	known map[string][]byte
}

// get returns the digest of the named image. It computes it once.
func (d *digests) get(name string, compute func() ([]byte, error)) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, found := d.known[name]; found {
		return known, nil
	}
	digest, err := compute()
	if err == nil {
		d.known[name] = digest
	}
	return digest, err
}

// migrationDisks describes the disks of this end. It digests large images, which takes seconds, once.
func (l *Launcher) migrationDisks(b *built) ([]*rpc.MigrationDisk, error) {
	volumes := make(map[string]disk.Volume, len(b.plan))
	for _, v := range b.plan {
		volumes[v.Name] = v
	}
	var out []*rpc.MigrationDisk
	for i := range b.domain.Devices.Disks {
		built, name := &b.domain.Devices.Disks[i], l.vmi.Spec.Domain.Devices.Disks[i].Name
		digest, err := l.digests.get(name, func() ([]byte, error) { return disk.ImageDigest(volumes[name]) })
		if err != nil {
			return nil, err
		}
		out = append(out, &rpc.MigrationDisk{
			Name: name, Target: built.Target.Dev, SizeBytes: b.volumes[name].Size, DirectIo: b.volumes[name].DirectIO,
			Copied: isCopied(built, b.volumes[name]), ImageSha256: digest,
		})
	}
	boot := domain.Boot{Kernel: b.domain.OS.Kernel, Initrd: b.domain.OS.Initrd}
	digest, err := l.digests.get(kernelBoot, func() ([]byte, error) { return disk.BootDigest(boot) })
	if err != nil {
		return nil, err
	}
	if digest != nil {
		out = append(out, &rpc.MigrationDisk{Name: kernelBoot, ImageSha256: digest})
	}
	return out, nil
}

// kernelBoot stands for the kernel image among the disks, because a guest that reboots loads its kernel from there. No
// volume can have such a name.
const kernelBoot = "firmware.kernelBoot"

// isCopied reports whether a migration copies the disk: the guest can write to it, and the ends do not share it.
// libvirt makes every CD read-only.
func isCopied(d *libvirtxml.DomainDisk, v domain.Volume) bool {
	return d.ReadOnly == nil && d.Device != "cdrom" && !v.Claim
}

// isUncached reports whether there is a disk, and none of them goes through a node's page cache. Both ends of a
// migration open the same PVCs. libvirt detects only some shared file systems; for a PVC the access mode is the proof,
// and a guest with another access mode does not migrate. Where a cache is used, libvirt decides.
func isUncached(disks []*libvirtxml.DomainDisk) bool {
	return len(disks) > 0 && !slices.ContainsFunc(disks, func(d *libvirtxml.DomainDisk) bool {
		return d.Driver.Cache != string(v1.CacheNone)
	})
}

// fixCarried makes images that the source carries read-only, as they are at the source: launchers of an earlier release
// made every image read-only for the guest, and the domain that arrives is the source's.
func (l *Launcher) fixCarried(b *built, t *rpc.Target) {
	for i := range b.domain.Devices.Disks {
		name := l.vmi.Spec.Domain.Devices.Disks[i].Name
		at := slices.IndexFunc(b.plan, func(v disk.Volume) bool { return v.Name == name && disk.Carried(v, true) })
		if at < 0 {
			continue
		}
		file := filepath.Base(b.plan[at].Path)
		if slices.ContainsFunc(t.GetFiles(), func(f *rpc.MigrationFile) bool { return f.GetName() == file }) &&
			slices.ContainsFunc(t.GetDisks(), func(d *rpc.MigrationDisk) bool {
				return d.GetName() == name && !d.GetCopied()
			}) {
			b.domain.Devices.Disks[i].ReadOnly = &libvirtxml.DomainDiskReadOnly{}
		}
	}
}

// compareDisks compares the disks of the source with those of this launcher. With others, the guest would not start or
// find other content.
func compareDisks(source, here []*rpc.MigrationDisk) error {
	if len(source) != len(here) {
		return fmt.Errorf("the source has %d disks, and this launcher %d", len(source), len(here))
	}
	for i, s := range source {
		h := here[i]
		switch {
		case s.GetName() != h.GetName() || s.GetTarget() != h.GetTarget():
			return fmt.Errorf("disk %d is %s (%s) at the source, and %s (%s) here", i, s.GetName(), s.GetTarget(),
				h.GetName(), h.GetTarget())
		// A disk that both ends have open may have grown while the guest ran.
		case s.GetSizeBytes() > h.GetSizeBytes(), s.GetCopied() && s.GetSizeBytes() < h.GetSizeBytes():
			return fmt.Errorf("disk %s has %d bytes at the source, and %d here", s.GetName(), s.GetSizeBytes(),
				h.GetSizeBytes())
		case s.GetCopied() != h.GetCopied():
			return fmt.Errorf("disk %s is copied at one end, and shared at the other", s.GetName())
		case s.GetDirectIo() && !h.GetDirectIo():
			return fmt.Errorf("the file system of disk %s does not support direct I/O, which it has at the source",
				s.GetName())
		case !bytes.Equal(s.GetImageSha256(), h.GetImageSha256()):
			if s.GetName() == kernelBoot {
				return fmt.Errorf("the image of %s has another kernel or initrd on this node: name it by digest",
					kernelBoot)
			}
			return fmt.Errorf("containerDisk %s has other content on this node: name it by digest", s.GetName())
		}
	}
	return nil
}
