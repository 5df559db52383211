package launcher

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	kubevirt "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/rpc"
)

func TestRefusesDifferentDisks(t *testing.T) {
	source := []*rpc.MigrationDisk{
		{Name: "root", Target: "vda", SizeBytes: 10, DirectIo: true, Copied: true, ImageSha256: []byte{1}},
		{Name: "scratch", Target: "vdb", SizeBytes: 20, Copied: true},
	}
	for problem, change := range map[string]func(root, scratch *rpc.MigrationDisk){
		"": func(*rpc.MigrationDisk, *rpc.MigrationDisk) {},
		"disk 0 is root (vda) at the source, and root (sda) here": func(root,
			_ *rpc.MigrationDisk) {
			root.Target = "sda"
		},
		"disk scratch has 20 bytes at the source, and 30 here": func(_, s *rpc.MigrationDisk) { s.SizeBytes = 30 },
		"disk root is copied at one end, and shared at the other": func(root, _ *rpc.MigrationDisk) {
			root.Copied = false
		},
		"the file system of disk root does not support direct I/O, which it has at the source": func(root,
			_ *rpc.MigrationDisk) {
			root.DirectIo = false
		},
		"containerDisk root has other content on this node: name it by digest": func(root, _ *rpc.MigrationDisk) {
			root.ImageSha256 = []byte{2}
		},
	} {
		here := []*rpc.MigrationDisk{proto.CloneOf(source[0]), proto.CloneOf(source[1])}
		change(here[0], here[1])
		if err := compareDisks(source, here); problem != "" {
			require.EqualError(t, err, problem)
		} else {
			require.NoError(t, err)
		}
	}
	require.Error(t, compareDisks(source, source[:1]))
	claim := []*rpc.MigrationDisk{{Name: "claim", Target: "vda", SizeBytes: 20}}
	require.NoError(t, compareDisks(claim, []*rpc.MigrationDisk{{Name: "claim", Target: "vda", SizeBytes: 30}}),
		"a claim may have grown while the guest ran")
	require.EqualError(t, compareDisks(claim, []*rpc.MigrationDisk{{Name: "claim", Target: "vda", SizeBytes: 10}}),
		"disk claim has 20 bytes at the source, and 10 here")
	kernel := []*rpc.MigrationDisk{{Name: kernelBoot, ImageSha256: []byte{1}}}
	require.EqualError(t, compareDisks(kernel, []*rpc.MigrationDisk{{Name: kernelBoot, ImageSha256: []byte{2}}}),
		"the image of firmware.kernelBoot has another kernel or initrd on this node: name it by digest")
	better := proto.CloneOf(source[1])
	better.DirectIo = true
	require.NoError(t, compareDisks(source, []*rpc.MigrationDisk{source[0], better}),
		"more than the source has is no problem")
}

// TestKeepsCarriedImageReadOnly: launchers of earlier releases made every image read-only for the guest.
func TestKeepsCarriedImageReadOnly(t *testing.T) {
	for _, c := range []struct {
		name            string
		copied, carried bool
		problem         string
	}{
		{name: "of an earlier release", carried: true},
		{name: "of this release", copied: true},
		{name: "neither copied nor carried", problem: "disk seed is copied at one end, and shared at the other"},
	} {
		l := New(Config{}, nil, Tools{}, zerolog.Nop())
		l.vmi = &kubevirt.VirtualMachineInstance{}
		l.vmi.Spec.Domain.Devices.Disks = []kubevirt.Disk{{Name: "seed"}}
		b := &built{
			domain: &libvirtxml.Domain{OS: &libvirtxml.DomainOS{}, Devices: &libvirtxml.DomainDeviceList{
				Disks: []libvirtxml.DomainDisk{{Target: &libvirtxml.DomainDiskTarget{Dev: "vda"}}}}},
			plan: []disk.Volume{{Name: "seed", Kind: disk.NoCloud, Label: "cidata", Path: "/d/seed.iso"}},
		}
		asked := &rpc.Target{Disks: []*rpc.MigrationDisk{{Name: "seed", Target: "vda", Copied: c.copied}}}
		if c.carried {
			asked.Files = []*rpc.MigrationFile{{Name: "seed.iso"}}
		}
		l.fixCarried(b, asked)
		here, err := l.migrationDisks(b)
		require.NoError(t, err)
		if err := compareDisks(asked.GetDisks(), here); c.problem != "" {
			require.EqualError(t, err, c.problem, c.name)
		} else {
			require.NoError(t, err, c.name)
		}
		require.Equal(t, c.copied || c.problem != "", here[0].GetCopied(), "the next move asks this launcher")
	}
}

// TestComparesKernels: a guest that reboots after a move would boot another kernel.
func TestComparesKernels(t *testing.T) {
	dir := t.TempDir()
	kernel, initrd := filepath.Join(dir, "kernel"), filepath.Join(dir, "initrd")
	described := func(os libvirtxml.DomainOS) []*rpc.MigrationDisk {
		out, err := New(Config{}, nil, Tools{}, zerolog.Nop()).migrationDisks(&built{domain: &libvirtxml.Domain{
			OS: &os, Devices: &libvirtxml.DomainDeviceList{}}})
		require.NoError(t, err)
		return out
	}
	require.Empty(t, described(libvirtxml.DomainOS{}))
	require.NoError(t, os.WriteFile(kernel, []byte("a"), 0o600))
	require.NoError(t, os.WriteFile(initrd, []byte("b"), 0o600))
	both := libvirtxml.DomainOS{Kernel: kernel, Initrd: initrd}
	first := described(both)
	require.Len(t, first, 1)
	require.NoError(t, compareDisks(first, described(both)))
	require.Error(t, compareDisks(first, described(libvirtxml.DomainOS{Kernel: initrd, Initrd: kernel})))
	require.Error(t, compareDisks(first, described(libvirtxml.DomainOS{Kernel: kernel})))
	require.NoError(t, os.WriteFile(initrd, []byte("c"), 0o600))
	require.Error(t, compareDisks(first, described(both)))
}

// TestMarksClaimsAsShared: a PVC is marked as shared for libvirt, unless the page cache of one end hides what the other
// end has written.
func TestMarksClaimsAsShared(t *testing.T) {
	disk := func(cache string) *libvirtxml.DomainDisk {
		return &libvirtxml.DomainDisk{Driver: &libvirtxml.DomainDiskDriver{Cache: cache}}
	}
	require.False(t, isUncached(nil), "nothing is shared")
	require.True(t, isUncached([]*libvirtxml.DomainDisk{disk("none"), disk("none")}))
	require.False(t, isUncached([]*libvirtxml.DomainDisk{disk("none"), disk("writethrough")}))
	require.False(t, isCopied(disk("none"), domain.Volume{Claim: true}))
	require.True(t, isCopied(disk("none"), domain.Volume{}))
	fixed := disk("none")
	fixed.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	require.False(t, isCopied(fixed, domain.Volume{}))
}
