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
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workflows/contract"
)

func TestDisksThatDoNotSuit(t *testing.T) {
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
		if err := suits(source, here); problem != "" {
			require.EqualError(t, err, problem)
		} else {
			require.NoError(t, err)
		}
	}
	require.Error(t, suits(source, source[:1]))
	claim := []*rpc.MigrationDisk{{Name: "claim", Target: "vda", SizeBytes: 20}}
	require.NoError(t, suits(claim, []*rpc.MigrationDisk{{Name: "claim", Target: "vda", SizeBytes: 30}}),
		"a claim may have grown while the guest ran")
	require.EqualError(t, suits(claim, []*rpc.MigrationDisk{{Name: "claim", Target: "vda", SizeBytes: 10}}),
		"disk claim has 20 bytes at the source, and 10 here")
	kernel := []*rpc.MigrationDisk{{Name: kernelBoot, ImageSha256: []byte{1}}}
	require.EqualError(t, suits(kernel, []*rpc.MigrationDisk{{Name: kernelBoot, ImageSha256: []byte{2}}}),
		"the image of firmware.kernelBoot has another kernel or initrd on this node: name it by digest")
	better := proto.CloneOf(source[1])
	better.DirectIo = true
	require.NoError(t, suits(source, []*rpc.MigrationDisk{source[0], better}), "more than the source has is no problem")
}

// TestAnImageThatTheSourceCarriesIsFixed: earlier launchers gave no guest one that it can write to.
func TestAnImageThatTheSourceCarriesIsFixed(t *testing.T) {
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
		if err := suits(asked.GetDisks(), here); c.problem != "" {
			require.EqualError(t, err, c.problem, c.name)
		} else {
			require.NoError(t, err, c.name)
		}
		require.Equal(t, c.copied || c.problem != "", here[0].GetCopied(), "the next move asks this launcher")
	}
}

// TestTheKernelIsAmongWhatIsCompared: a guest that reboots after a move would have another.
func TestTheKernelIsAmongWhatIsCompared(t *testing.T) {
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
	require.NoError(t, suits(first, described(both)))
	require.Error(t, suits(first, described(libvirtxml.DomainOS{Kernel: initrd, Initrd: kernel})))
	require.Error(t, suits(first, described(libvirtxml.DomainOS{Kernel: kernel})))
	require.NoError(t, os.WriteFile(initrd, []byte("c"), 0o600))
	require.Error(t, suits(first, described(both)))
}

// TestLibvirtIsToldThatClaimsAreShared, unless a page cache of one end hides what the other has written.
func TestLibvirtIsToldThatClaimsAreShared(t *testing.T) {
	disk := func(cache string) *libvirtxml.DomainDisk {
		return &libvirtxml.DomainDisk{Driver: &libvirtxml.DomainDiskDriver{Cache: cache}}
	}
	require.False(t, uncached(nil), "nothing is shared")
	require.True(t, uncached([]*libvirtxml.DomainDisk{disk("none"), disk("none")}))
	require.False(t, uncached([]*libvirtxml.DomainDisk{disk("none"), disk("writethrough")}))
	require.False(t, copied(disk("none"), domain.Volume{Claim: true}))
	require.True(t, copied(disk("none"), domain.Volume{}))
	fixed := disk("none")
	fixed.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
	require.False(t, copied(fixed, domain.Volume{}))
}

// moving is a launcher whose guest is on its way.
func moving(t *testing.T) *Launcher {
	t.Helper()
	l := New(Config{}, nil, Tools{}, zerolog.Nop())
	for _, in := range []lifecycle.Input{lifecycle.StartAsked, lifecycle.StartDone, lifecycle.LeaveAsked} {
		l.machine.Apply(in)
	}
	l.session = migration.NewSession("uid", nil, guest.Move{}, nil, false, zerolog.Nop())
	return l
}

func TestTheEndOfAGuestThatMovesWaitsForTheSession(t *testing.T) {
	left := &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Left{Left: &rpc.MigrationLeft{}}}
	crashed := &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Ended{
		Ended: &rpc.MigrationGuestEnded{Reason: string(guest.Gone)}}}
	stayed := &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Stayed{Stayed: &rpc.MigrationStayed{}}}
	for name, c := range map[string]struct {
		outcome *rpc.MigrationEvent
		want    lifecycle.Input
	}{
		"it had stayed, and ended then": {outcome: stayed, want: lifecycle.GuestCrashed},
		"it had left":                   {outcome: left, want: lifecycle.Left},
		"it had not left":               {outcome: crashed, want: lifecycle.GuestCrashed},
	} {
		t.Run(name, func(t *testing.T) {
			l := moving(t)
			require.Empty(t, l.whileMoving(lifecycle.GuestCrashed))
			require.NotNil(t, l.endDue)
			require.Equal(t, c.want, l.leaveEnded(c.outcome))
			require.Nil(t, l.endDue)
		})
	}
	require.Equal(t, lifecycle.Left, moving(t).whileMoving(lifecycle.Left), "libvirt's word is proof")
	require.Empty(t, moving(t).whileMoving(""))
	require.Equal(t, lifecycle.Stayed, moving(t).leaveEnded(stayed))
	require.Equal(t, lifecycle.GuestGone, moving(t).leaveEnded(crashed), "nobody has seen how it ended")
}

// TestLastWordsOfAGuestThatHasLeft: one that its user has paused stays so, also where nobody else could say it.
func TestLastWordsOfAGuestThatHasLeft(t *testing.T) {
	l := moving(t)
	require.False(t, l.lastWords(contract.ReasonMigrated).Paused)
	l.session = migration.NewSession("uid", nil, guest.Move{}, nil, true, zerolog.Nop())
	require.True(t, l.lastWords(contract.ReasonMigrated).Paused)
	require.False(t, l.lastWords(contract.ReasonShutdown).Paused)
	l.session = nil
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonMigrated, Ran: true},
		l.lastWords(contract.ReasonMigrated))
}

// TestNothingElseIsDoneToAGuestThatMoves, nor to one that was not received yet.
func TestNothingElseIsDoneToAGuestThatMoves(t *testing.T) {
	require.ErrorContains(t, moving(t).beingMoved(), "is being migrated")
	l := New(Config{}, nil, Tools{}, zerolog.Nop())
	require.NoError(t, l.beingMoved())
	l.setTarget(func(r *receiving) { r.migration = "uid" })
	require.ErrorContains(t, l.beingMoved(), "is being received")
	l.setTarget(func(r *receiving) { r.granted, r.resumed = true, true })
	require.NoError(t, l.beingMoved())
}

func TestATargetGoesOnOnlyWithItsOwnGrant(t *testing.T) {
	target := func(states ...lifecycle.Input) *Launcher {
		l := New(Config{}, nil, Tools{}, zerolog.Nop())
		for _, in := range append([]lifecycle.Input{lifecycle.ReceiveAsked}, states...) {
			l.machine.Apply(in)
		}
		l.setTarget(func(r *receiving) { r.migration = "uid" })
		return l
	}
	grant := func(l *Launcher, uid string) (lifecycle.Input, error) {
		g := targetRequest{migration: uid, answer: make(chan error, 1)}
		in := l.grant(g)
		return in, <-g.answer
	}
	in, err := grant(target(lifecycle.Arrived), "other")
	require.Empty(t, in)
	require.ErrorContains(t, err, "no guest of that migration is here")
	in, err = grant(target(lifecycle.Arrived), "uid")
	require.Equal(t, lifecycle.Granted, in)
	require.NoError(t, err)
	early := target()
	in, err = grant(early, "uid")
	require.Empty(t, in, "it waits for the guest")
	require.NoError(t, err)
	require.True(t, early.target().granted)

	// What may go on is not withdrawn.
	w := targetRequest{migration: "uid", answer: make(chan error, 1)}
	require.Empty(t, early.withdrawn(w))
	require.ErrorContains(t, <-w.answer, "may go on here already")
	require.Equal(t, lifecycle.Withdraw, target().withdrawn(w))
	require.NoError(t, <-w.answer)
}
