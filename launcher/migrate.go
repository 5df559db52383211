package launcher

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// endWait is how long the end of a guest that is being moved may wait for the word whether that was the move's end.
const endWait = 6 * time.Second

// moveRequest is a call that has the loop begin a move.
type moveRequest struct {
	session *migration.Session
	answer  chan error
}

// built is what the domain was made of; nil: there is none yet.
func (l *Launcher) getBuilt() *built {
	l.moving.Lock()
	defer l.moving.Unlock()
	return l.made
}

func (l *Launcher) setBuilt(b *built) {
	l.moving.Lock()
	defer l.moving.Unlock()
	l.made = b
}

// lastSession is the move that is under way, or the last one.
func (l *Launcher) lastSession() *migration.Session {
	l.moving.Lock()
	defer l.moving.Unlock()
	return l.session
}

// Describe is the service's call.
func (l *Launcher) Describe(context.Context) (*rpc.DescribeMigrationResponse, error) {
	b := l.getBuilt()
	if b == nil {
		return nil, status.Error(codes.FailedPrecondition, "there is no guest yet")
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

// migrationDisks describes the disks as they are here. Looking at large images takes seconds, once.
func (l *Launcher) migrationDisks(b *built) ([]*rpc.MigrationDisk, error) {
	volumes := make(map[string]disk.Volume, len(b.plan))
	for _, v := range b.plan {
		volumes[v.Name] = v
	}
	var out []*rpc.MigrationDisk
	for i := range b.domain.Devices.Disks {
		built, name := &b.domain.Devices.Disks[i], l.vmi.Spec.Domain.Devices.Disks[i].Name
		digest, err := l.digest(name, func() ([]byte, error) { return disk.ImageDigest(volumes[name]) })
		if err != nil {
			return nil, err
		}
		out = append(out, &rpc.MigrationDisk{
			Name: name, Target: built.Target.Dev, SizeBytes: b.volumes[name].Size, DirectIo: b.volumes[name].DirectIO,
			Copied: copied(built, b.volumes[name]), ImageSha256: digest,
		})
	}
	boot := domain.Boot{Kernel: b.domain.OS.Kernel, Initrd: b.domain.OS.Initrd}
	digest, err := l.digest(kernelBoot, func() ([]byte, error) { return disk.BootDigest(boot) })
	if err != nil {
		return nil, err
	}
	if digest != nil {
		out = append(out, &rpc.MigrationDisk{Name: kernelBoot, ImageSha256: digest})
	}
	return out, nil
}

// kernelBoot is among the disks where there is one: the guest finds its kernel there when it reboots. No volume has
// such a name.
const kernelBoot = "firmware.kernelBoot"

// copied says that a migration copies a disk: the guest can write to it, and both ends do not have it. libvirt lets
// nobody write to a CD.
func copied(d *libvirtxml.DomainDisk, v domain.Volume) bool {
	return d.ReadOnly == nil && d.Device != "cdrom" && !v.Claim
}

// uncached says that nobody keeps what is written to any of these disks, at least one, in a page cache of his own. Both
// ends of a migration open the same claims. libvirt takes only some file systems for shared; of a claim its access mode
// says it, and no guest with another one is moved. Where a cache is used libvirt decides.
func uncached(disks []*libvirtxml.DomainDisk) bool {
	return len(disks) > 0 && !slices.ContainsFunc(disks, func(d *libvirtxml.DomainDisk) bool {
		return d.Driver.Cache != string(v1.CacheNone)
	})
}

// digest is that of an image, by its name. It is made once.
func (l *Launcher) digest(name string, of func() ([]byte, error)) ([]byte, error) {
	l.hashing.Lock()
	defer l.hashing.Unlock()
	if d, found := l.digests[name]; found {
		return d, nil
	}
	d, err := of()
	if err == nil {
		l.digests[name] = d
	}
	return d, err
}

// File is the service's call.
func (l *Launcher) File(_ context.Context, name string) ([]byte, error) {
	b := l.getBuilt()
	if b == nil {
		return nil, status.Error(codes.FailedPrecondition, "there is no guest yet")
	}
	content, _, err := disk.Read(b.plan, name)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return content, nil
}

// Migrate is the service's call: it begins a move, or finds the one that was begun, and tells how it goes.
func (l *Launcher) Migrate(
	ctx context.Context, r *rpc.MigrateRequest, send func(*rpc.MigrationEvent) error,
) error {
	if r.GetMigration() == "" {
		return status.Error(codes.InvalidArgument, "the migration has no UID")
	}
	if s := l.lastSession(); s != nil && s.Migration == r.GetMigration() {
		return s.Follow(ctx, send)
	}
	b := l.getBuilt()
	if b == nil {
		return status.Error(codes.FailedPrecondition, "there is no guest yet")
	}
	d := l.domain.Domain()
	o := r.GetOptions()
	move := guest.Move{
		Libvirt: l.handover.Path(migration.ChannelLibvirt), Memory: l.handover.Path(migration.ChannelMemory),
		Disks: l.handover.Path(migration.ChannelDisks), Bandwidth: o.GetBandwidth(),
		AutoConverge: o.GetAutoConverge(), Unsafe: o.GetUnsafe(), Parallel: int(o.GetParallel()),
	}
	var shared []*libvirtxml.DomainDisk
	for i := range b.domain.Devices.Disks {
		built, name := &b.domain.Devices.Disks[i], l.vmi.Spec.Domain.Devices.Disks[i].Name
		switch {
		case copied(built, b.volumes[name]):
			move.Copy = append(move.Copy, built.Target.Dev)
		case built.ReadOnly == nil:
			shared = append(shared, built)
		}
	}
	move.Unsafe = move.Unsafe || uncached(shared)
	paused := d.GetState() == rpc.DomainState_DOMAIN_STATE_PAUSED &&
		d.GetPauseReason() == rpc.PauseReason_PAUSE_REASON_USER
	s := migration.NewSession(r.GetMigration(), l.hypervisor, move, o, paused, l.log)
	m := moveRequest{session: s, answer: make(chan error, 1)}
	select {
	case l.moves <- m:
	case <-l.over:
		return status.Error(codes.FailedPrecondition, "the launcher is ending")
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	if err := <-m.answer; err != nil {
		return err
	}
	return l.lastSession().Follow(ctx, send)
}

// leaveAsked judges a request in the loop.
func (l *Launcher) leaveAsked(m moveRequest) lifecycle.Input {
	var err error
	switch last := l.lastSession(); {
	case last != nil && last.Migration == m.session.Migration: // another call was faster
	case l.machine.State() == lifecycle.Leaving || l.machine.State() == lifecycle.LeavingStop:
		err = status.Errorf(codes.FailedPrecondition, "migration %s is under way", last.Migration)
	case l.machine.State() != lifecycle.Running || !l.movable():
		err = status.Error(codes.FailedPrecondition, "there is no guest to move")
	default:
		if err = l.handover.Source(m.session.Migration); err == nil {
			l.moving.Lock()
			l.session = m.session
			l.moving.Unlock()
			m.answer <- nil
			return lifecycle.LeaveAsked
		}
		err = status.Error(codes.FailedPrecondition, err.Error())
	}
	m.answer <- err
	return ""
}

// movable says that the guest's state is one that libvirt moves.
func (l *Launcher) movable() bool {
	d := l.domain.Domain()
	switch d.GetState() {
	case rpc.DomainState_DOMAIN_STATE_RUNNING:
		return true
	case rpc.DomainState_DOMAIN_STATE_PAUSED:
		return d.GetPauseReason() == rpc.PauseReason_PAUSE_REASON_USER
	default:
		return false
	}
}

// leave moves the guest. It runs beside the loop.
func (l *Launcher) leave(ctx context.Context, s *migration.Session) {
	l.showProgress(s.Progress())
	shown := make(chan struct{})
	go func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.showProgress(s.Progress())
			case <-shown:
				return
			}
		}
	}()
	outcome := s.Run(ctx)
	close(shown)
	l.handover.Close()
	l.showProgress(nil)
	if outcome != nil {
		l.left <- outcome
	}
}

// progressInterval is between two pictures of a move in the domain; callers of Migrate see more of them.
const progressInterval = 10 * time.Second

func (l *Launcher) showProgress(p *rpc.MigrationProgress) {
	l.domain.Update(func(d *rpc.Domain) { d.Migration = p })
}

// leaveEnded sorts the end of a move.
func (l *Launcher) leaveEnded(outcome *rpc.MigrationEvent) lifecycle.Input {
	l.endDue = nil
	l.log.Info().Interface("outcome", outcome).Msg("migration")
	switch {
	case outcome.GetLeft() != nil:
		return lifecycle.Left
	case l.endSeen != "": // the guest may have ended just after the session saw it stay
		return l.endSeen
	case outcome.GetStayed() != nil:
		return lifecycle.Stayed
	}
	return ended(guest.State(outcome.GetEnded().GetReason()))
}

// whileMoving keeps the end of a guest that is being moved until the session has said whether it was the move's, but
// not for long.
func (l *Launcher) whileMoving(in lifecycle.Input) lifecycle.Input {
	s := l.lastSession()
	if s == nil || in == "" || in == lifecycle.Left {
		return in
	}
	if outcome := s.Outcome(); outcome.GetLeft() != nil {
		return lifecycle.Left // and what ended here was not the guest any more
	} else if outcome != nil {
		return in
	}
	if l.endSeen == "" {
		l.endSeen, l.endDue = in, time.After(endWait)
	}
	return ""
}

// ended is the input for a domain's last state.
func ended(s guest.State) lifecycle.Input {
	switch s {
	case guest.Off:
		return lifecycle.GuestOff
	case guest.Killed:
		return lifecycle.GuestKilled
	case guest.Crashed:
		return lifecycle.GuestCrashed
	case guest.Gone:
		return lifecycle.GuestGone
	case guest.Migrated:
		return lifecycle.Left
	case guest.Absent, guest.Running, guest.Paused, guest.GoingDown:
	}
	return ""
}

// Abort is the service's call.
func (l *Launcher) Abort(_ context.Context, r *rpc.AbortMigrationRequest) (*rpc.AbortMigrationResponse, error) {
	s := l.lastSession()
	if s == nil || s.Migration != r.GetMigration() || s.Outcome() != nil {
		return &rpc.AbortMigrationResponse{}, nil
	}
	s.Abort(r.GetWhy(), true)
	return &rpc.AbortMigrationResponse{Found: true}, nil
}

// Adjust is the service's call.
func (l *Launcher) Adjust(_ context.Context, r *rpc.AdjustMigrationRequest) (*rpc.AdjustMigrationResponse, error) {
	s := l.lastSession()
	if s == nil || s.Migration != r.GetMigration() || s.Outcome() != nil {
		return nil, status.Error(codes.FailedPrecondition, "no such migration is under way")
	}
	var err error
	switch change := r.GetChange().(type) {
	case *rpc.AdjustMigrationRequest_Pause:
		err = s.Disrupt()
	case *rpc.AdjustMigrationRequest_Bandwidth:
		err = l.hypervisor.SetMigrationBandwidth(change.Bandwidth)
	case *rpc.AdjustMigrationRequest_MaxDowntimeMs:
		err = s.SetDowntime(time.Duration(change.MaxDowntimeMs) * time.Millisecond)
	default:
		err = fmt.Errorf("this launcher does not know that change")
	}
	if err != nil {
		return nil, status.Error(refusal(err), err.Error())
	}
	return &rpc.AdjustMigrationResponse{}, nil
}

// MigrationStatus is the service's call.
func (l *Launcher) MigrationStatus(context.Context) (*rpc.MigrationStatusResponse, error) {
	if s := l.lastSession(); s != nil {
		outcome := s.Outcome()
		return &rpc.MigrationStatusResponse{
			Migration: s.Migration, Role: rpc.MigrationRole_MIGRATION_ROLE_SOURCE, UnderWay: outcome == nil,
			Phase: l.hypervisor.Phase(), Outcome: outcome,
		}, nil
	}
	l.moving.Lock()
	defer l.moving.Unlock()
	t := l.receiving
	return &rpc.MigrationStatusResponse{
		Migration: t.migration, Role: t.role(), UnderWay: t.migration != "" && !t.held && !t.granted,
		Held: t.held && !t.granted, Granted: t.granted, Resumed: t.resumed,
	}, nil
}
