package launcher

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// endWait bounds how long the end of a guest that is being moved waits until the session reports whether the move
// caused it.
const endWait = 6 * time.Second

// outgoing is a migration at its source.
type outgoing struct {
	calls   chan call[*migration.Session]
	ended   chan *rpc.MigrationEvent
	session atomic.Pointer[migration.Session] // in progress, or the last one; nil: there was none

	// The following belong to the loop: the end of a guest that was being moved, and the time from which it counts even
	// if the session has not reported.
	endSeen lifecycle.Input
	endDue  <-chan time.Time
}

func newOutgoing() outgoing {
	return outgoing{calls: make(chan call[*migration.Session]), ended: make(chan *rpc.MigrationEvent, 1)}
}

// current returns the session that is in progress, or nil.
func (o *outgoing) current() *migration.Session {
	if s := o.session.Load(); s != nil && s.Outcome() == nil {
		return s
	}
	return nil
}

// Migrate implements the service's call: it begins a move, or finds the one that was begun, and streams its progress.
func (l *Launcher) Migrate(ctx context.Context, r *rpc.MigrateRequest, send func(*rpc.MigrationEvent) error) error {
	if r.GetMigration() == "" {
		return status.Error(codes.InvalidArgument, "the migration has no UID")
	}
	if s := l.outgoing.session.Load(); s != nil && s.Migration == r.GetMigration() {
		return s.Follow(ctx, send)
	}
	b := l.made.Load()
	if b == nil {
		return status.Error(codes.FailedPrecondition, "the guest has not started yet")
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
		case isCopied(built, b.volumes[name]):
			move.Copy = append(move.Copy, built.Target.Dev)
		case built.ReadOnly == nil:
			shared = append(shared, built)
		}
	}
	move.Unsafe = move.Unsafe || isUncached(shared)
	s := migration.NewSession(r.GetMigration(), l.hypervisor, move, o, isPausedByUser(d), l.log)
	if err := ask(ctx, l.over, l.outgoing.calls, s); err != nil {
		return err
	}
	return l.outgoing.session.Load().Follow(ctx, send)
}

// acceptMove checks a request in the loop, and answers a refused one.
func (l *Launcher) acceptMove(c call[*migration.Session]) lifecycle.Input {
	var err error
	switch last := l.outgoing.session.Load(); {
	case last != nil && last.Migration == c.request.Migration: // another call was faster
	case l.machine.State() == lifecycle.Leaving || l.machine.State() == lifecycle.LeavingStop:
		err = status.Errorf(codes.FailedPrecondition, "migration %s is already in progress", last.Migration)
	case l.machine.State() != lifecycle.Running || !isMovable(l.domain.Domain()):
		err = status.Error(codes.FailedPrecondition, "there is no guest to move")
	default:
		if err = l.handover.Source(c.request.Migration); err == nil {
			l.outgoing.session.Store(c.request)
			c.answer <- nil
			return lifecycle.LeaveAsked
		}
		err = status.Error(codes.FailedPrecondition, err.Error())
	}
	c.answer <- err
	return ""
}

// isMovable reports whether the guest is in a state in which libvirt can move it.
func isMovable(d *rpc.Domain) bool {
	return d.GetState() == rpc.DomainState_DOMAIN_STATE_RUNNING || isPausedByUser(d)
}

func isPausedByUser(d *rpc.Domain) bool {
	return d.GetState() == rpc.DomainState_DOMAIN_STATE_PAUSED &&
		d.GetPauseReason() == rpc.PauseReason_PAUSE_REASON_USER
}

// runMove moves the guest. It runs beside the loop.
func (l *Launcher) runMove(ctx context.Context, s *migration.Session) {
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
		l.log.Info().Interface("outcome", outcome).Msg("ended migration")
		l.outgoing.ended <- outcome
	}
}

// progressInterval is the time between two updates of a move's progress in the domain; callers of Migrate get more of
// them.
const progressInterval = 10 * time.Second

func (l *Launcher) showProgress(p *rpc.MigrationProgress) {
	l.domain.Update(func(d *rpc.Domain) { d.Migration = p })
}

// settle records that a move has its outcome, and returns the lifecycle input that follows from it.
func (o *outgoing) settle(outcome *rpc.MigrationEvent) lifecycle.Input {
	o.endDue = nil
	switch {
	case outcome.GetLeft() != nil:
		return lifecycle.Left
	case o.endSeen != "": // the guest may have ended just after the session saw it stay
		return o.endSeen
	case outcome.GetStayed() != nil:
		return lifecycle.Stayed
	}
	return endInput(guest.State(outcome.GetEnded().GetReason()))
}

// deferEnd holds back the end of a guest that is being moved until the session has reported whether the move caused it,
// for endWait at most.
func (o *outgoing) deferEnd(in lifecycle.Input) lifecycle.Input {
	s := o.session.Load()
	if s == nil || in == "" || in == lifecycle.Left {
		return in
	}
	if outcome := s.Outcome(); outcome.GetLeft() != nil {
		return lifecycle.Left // and only its empty domain ended here
	} else if outcome != nil {
		return in
	}
	if o.endSeen == "" {
		o.endSeen, o.endDue = in, time.After(endWait)
	}
	return ""
}

// endInput returns the lifecycle's input for a domain's last state.
func endInput(s guest.State) lifecycle.Input {
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

// Abort implements the service's call.
func (l *Launcher) Abort(_ context.Context, r *rpc.AbortMigrationRequest) (*rpc.AbortMigrationResponse, error) {
	s := l.outgoing.current()
	if s == nil || s.Migration != r.GetMigration() {
		return &rpc.AbortMigrationResponse{}, nil
	}
	s.Abort(r.GetWhy(), true)
	return &rpc.AbortMigrationResponse{Found: true}, nil
}

// Adjust implements the service's call.
func (l *Launcher) Adjust(_ context.Context, r *rpc.AdjustMigrationRequest) (*rpc.AdjustMigrationResponse, error) {
	s := l.outgoing.current()
	if s == nil || s.Migration != r.GetMigration() {
		return nil, status.Error(codes.FailedPrecondition, "no such migration is in progress")
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
		err = fmt.Errorf("this launcher does not support that change")
	}
	if err != nil {
		return nil, status.Error(operationErrorCode(err), err.Error())
	}
	return &rpc.AdjustMigrationResponse{}, nil
}

// MigrationStatus implements the service's call.
func (l *Launcher) MigrationStatus(context.Context) (*rpc.MigrationStatusResponse, error) {
	s := l.outgoing.session.Load()
	if s == nil {
		return l.incoming.get().status(), nil
	}
	outcome := s.Outcome()
	return &rpc.MigrationStatusResponse{
		Migration: s.Migration, Role: rpc.MigrationRole_MIGRATION_ROLE_SOURCE, UnderWay: outcome == nil,
		Phase: l.hypervisor.Phase(), Outcome: outcome,
	}, nil
}
