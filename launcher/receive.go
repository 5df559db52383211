package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// farewell is how long libvirt here outlives a guest that did not come. The source's is still speaking with it, and
	// takes an end of that for the reason why the move has failed.
	farewell = time.Second
	// resumeAgain is the pause between attempts to let a guest that was received go on: it stands still meanwhile.
	resumeAgain = 100 * time.Millisecond
	// grantPoll is how often a caller that waits for the guest to go on looks.
	grantPoll = 5 * time.Millisecond
)

// receiving is what a target's launcher knows of its migration.
type receiving struct {
	migration string // "": none was asked for
	prepared  bool
	// asked: a migration was, at any time. Such a launcher starts no guest of its own: it may run elsewhere.
	asked   bool
	held    bool // the whole guest is here
	granted bool // it may go on
	resumed bool // it does, or stays paused because its user wants that
	paused  bool // by its user
}

func (r receiving) role() rpc.MigrationRole {
	if r.migration == "" {
		return rpc.MigrationRole_MIGRATION_ROLE_UNSPECIFIED
	}
	return rpc.MigrationRole_MIGRATION_ROLE_TARGET
}

// receiveRequest is a call that has the loop prepare for a guest.
type receiveRequest struct {
	target *rpc.Target
	files  io.Reader
	answer chan error
}

// received is how preparing ended.
type received struct {
	err    error
	built  *built
	report *rpc.Domain
}

// targetRequest is a call about a guest that is received.
type targetRequest struct {
	migration string
	paused    bool
	answer    chan error
}

func (l *Launcher) target() receiving {
	l.moving.Lock()
	defer l.moving.Unlock()
	return l.receiving
}

func (l *Launcher) setTarget(change func(*receiving)) {
	l.moving.Lock()
	defer l.moving.Unlock()
	change(&l.receiving)
}

// Prepare is the service's call.
func (l *Launcher) Prepare(ctx context.Context, t *rpc.Target, files io.Reader) (*rpc.Domain, error) {
	if t.GetMigration() == "" {
		return nil, status.Error(codes.InvalidArgument, "the migration has no UID")
	}
	r := receiveRequest{target: t, files: files, answer: make(chan error, 1)}
	return l.hand(ctx, r.answer, func(done <-chan struct{}) bool {
		select {
		case l.receives <- r:
			return true
		case <-l.over:
		case <-done:
		}
		return false
	})
}

// hand gives a request to the loop, by send, and waits for the answer.
func (l *Launcher) hand(ctx context.Context, answer chan error, send func(<-chan struct{}) bool) (*rpc.Domain, error) {
	if !send(ctx.Done()) {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		return nil, status.Error(codes.FailedPrecondition, "the launcher is ending")
	}
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
		return l.domain.Domain(), nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// receiveAsked judges a request in the loop.
func (l *Launcher) receiveAsked(r receiveRequest) lifecycle.Input {
	t := l.target()
	switch {
	case l.machine.State() == lifecycle.Idle:
		interfaces, err := prepared(l.vmi, r.target.GetInterfaces())
		if err != nil {
			r.answer <- status.Error(receiveCode(err), err.Error())
			return ""
		}
		l.interfaces = interfaces
		l.setTarget(func(t *receiving) { *t = receiving{migration: r.target.GetMigration(), asked: true} })
		l.toReceive = r
		return lifecycle.ReceiveAsked
	case t.migration == r.target.GetMigration() && t.prepared:
		r.answer <- nil
	case t.migration == r.target.GetMigration():
		r.answer <- status.Error(codes.Unavailable, "it is being prepared already")
	default:
		r.answer <- status.Error(codes.FailedPrecondition, "this launcher has a guest, or waits for another one")
	}
	return ""
}

// receive prepares for a guest. It runs beside the loop.
func (l *Launcher) receive(ctx context.Context, t *rpc.Target, files io.Reader) {
	begun := time.Now()
	b, err := l.tryReceive(ctx, t, files)
	l.log.Info().Err(err).Dur("took", time.Since(begun)).Str("migration", t.GetMigration()).Msg("prepared to receive")
	r := received{err: err, built: b}
	if err == nil {
		r.report = report(l.vmi, b.domain, b.volumes, l.interfaces)
	}
	l.prepared <- r
}

func (l *Launcher) tryReceive(ctx context.Context, t *rpc.Target, files io.Reader) (*built, error) {
	plan, err := l.plan()
	if err != nil {
		return nil, err
	}
	for _, f := range t.GetFiles() {
		if err := disk.Receive(plan, f.GetName(), f.GetSize(), f.GetSha256(), files); err != nil {
			return nil, err
		}
	}
	plan = disk.Received(plan)
	for _, d := range t.GetDisks() {
		if !d.GetCopied() {
			continue
		}
		if err := disk.Await(plan, d.GetName(), d.GetSizeBytes()); err != nil {
			return nil, err
		}
	}
	if err := l.expectState(); err != nil {
		return nil, err
	}
	b, err := l.build(ctx, plan, l.interfaces)
	if err != nil {
		return nil, err
	}
	l.fixCarried(b, t)
	disks, err := l.migrationDisks(b)
	if err != nil {
		return nil, err
	}
	if err := suits(t.GetDisks(), disks); err != nil {
		return nil, err
	}
	l.followConsole(ctx, true)
	return b, l.handover.Target(t.GetMigration())
}

// fixCarried takes the source's word for images that it carries: its guest cannot write to them. Launchers of an
// earlier release gave no guest an image that it can write to, and the domain here is the source's.
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

// suits compares the disks of the source with those here. The guest would not start on others, or find other content.
func suits(source, here []*rpc.MigrationDisk) error {
	if len(source) != len(here) {
		return fmt.Errorf("the source has %d disks, and this launcher %d", len(source), len(here))
	}
	for i, s := range source {
		h := here[i]
		switch {
		case s.GetName() != h.GetName() || s.GetTarget() != h.GetTarget():
			return fmt.Errorf("disk %d is %s (%s) at the source, and %s (%s) here", i, s.GetName(), s.GetTarget(),
				h.GetName(), h.GetTarget())
		// What both have open may have grown while the guest ran.
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
				return fmt.Errorf("the image of %s has another kernel or initrd on this node: name it by digest", kernelBoot)
			}
			return fmt.Errorf("containerDisk %s has other content on this node: name it by digest", s.GetName())
		}
	}
	return nil
}

// receiveEnded sorts how preparing ended.
func (l *Launcher) receiveEnded(r received) lifecycle.Input {
	if r.err != nil {
		l.setTarget(func(t *receiving) { *t = receiving{asked: true} })
		l.toReceive.answer <- status.Error(receiveCode(r.err), r.err.Error())
		return lifecycle.ReceiveFailed
	}
	l.setBuilt(r.built)
	l.setTarget(func(t *receiving) { t.prepared = true })
	l.domain.Update(func(d *rpc.Domain) { l.describe(d, r.report) })
	l.toReceive.answer <- nil
	return ""
}

func receiveCode(err error) codes.Code {
	var invalid *domain.InvalidError
	switch {
	case errors.Is(err, guest.ErrUnavailable), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errOldWorker),
		errors.Is(err, disk.ErrNotGiven):
		return codes.Unavailable
	case errors.As(err, &invalid):
		return codes.InvalidArgument
	}
	return codes.FailedPrecondition
}

// arrived says that a guest which is received is whole: libvirt leaves it paused, as if a user had done it.
func (l *Launcher) arrived(s guest.Status) lifecycle.Input {
	if s.State != guest.Paused || s.PauseReason != guest.ByUser {
		return ""
	}
	l.setTarget(func(t *receiving) { t.held = true })
	l.handover.Close()
	return lifecycle.Arrived
}

// Finish is the service's call.
func (l *Launcher) Finish(ctx context.Context, r *rpc.FinishMigrationRequest) (*rpc.Domain, error) {
	if r.GetProof() == rpc.MigrationProof_MIGRATION_PROOF_UNSPECIFIED {
		return nil, status.Error(codes.FailedPrecondition, "nothing proves that the guest has stopped at its source")
	}
	g := targetRequest{migration: r.GetMigration(), paused: r.GetPaused(), answer: make(chan error, 1)}
	_, err := l.hand(ctx, g.answer, func(done <-chan struct{}) bool {
		select {
		case l.grants <- g:
			return true
		case <-l.over:
		case <-done:
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	for !l.target().resumed {
		select {
		case <-time.After(grantPoll):
		case <-l.over:
			return nil, status.Error(codes.FailedPrecondition, "the guest has ended")
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if l.target().paused {
		return l.domain.Domain(), nil
	}
	// Who asks next must not be told of the pause that has just ended.
	return l.shown(ctx, rpc.Operation_OPERATION_UNPAUSE), nil
}

// grant judges a request in the loop. One that comes before libvirt has told that the guest is here waits for that.
func (l *Launcher) grant(g targetRequest) lifecycle.Input {
	t := l.target()
	if t.migration == "" || t.migration != g.migration {
		g.answer <- status.Error(codes.FailedPrecondition, "no guest of that migration is here")
		return ""
	}
	if !t.granted {
		l.setTarget(func(t *receiving) { t.granted, t.paused = true, g.paused })
		l.log.Info().Str("migration", t.migration).Bool("held", t.held).Msg("the guest may go on")
	}
	g.answer <- nil
	if l.machine.State() == lifecycle.Held {
		return lifecycle.Granted
	}
	return ""
}

// goOn lets a guest that was received go on with what it remembers, unless its user has paused it.
func (l *Launcher) goOn(paused bool) error {
	if err := l.adoptState(); err != nil || paused {
		return err
	}
	return l.hypervisor.Resume()
}

// resumeReceived lets the guest go on. It runs beside the loop.
func (l *Launcher) resumeReceived() {
	for t := l.target(); ; {
		err := l.goOn(t.paused)
		if err == nil {
			break
		}
		l.log.Error().Err(err).Msg("the guest that was received does not go on")
		select {
		case <-time.After(resumeAgain):
		case <-l.over:
			return
		}
	}
	l.setTarget(func(t *receiving) { t.resumed = true })
	l.log.Info().Msg("the guest that was received goes on")
}

// Withdraw is the service's call.
func (l *Launcher) Withdraw(
	ctx context.Context, r *rpc.WithdrawTargetRequest,
) (*rpc.WithdrawTargetResponse, error) {
	w := targetRequest{migration: r.GetMigration(), answer: make(chan error, 1)}
	_, err := l.hand(ctx, w.answer, func(done <-chan struct{}) bool {
		select {
		case l.withdrawals <- w:
			return true
		case <-l.over:
			w.answer <- nil // it has ended, and nothing was resumed since
			return true
		case <-done:
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	return &rpc.WithdrawTargetResponse{}, nil
}

// withdrawn judges a request in the loop.
func (l *Launcher) withdrawn(w targetRequest) lifecycle.Input {
	t := l.target()
	switch {
	case t.granted:
		w.answer <- status.Error(codes.FailedPrecondition, "the guest may go on here already")
		return ""
	case t.migration != "" && t.migration != w.migration, l.machine.State() != lifecycle.Idle && t.migration == "":
		w.answer <- status.Error(codes.FailedPrecondition, "no guest of that migration is expected here")
		return ""
	case l.machine.State() == lifecycle.Idle:
		l.end()
	}
	w.answer <- nil
	return lifecycle.Withdraw
}

// beingMoved says why nothing else may be done to the guest at the moment; nil: it may.
func (l *Launcher) beingMoved() error {
	if t := l.target(); t.migration != "" && !t.resumed {
		return errors.New("the guest is being received from another node")
	}
	if s := l.lastSession(); s != nil && s.Outcome() == nil {
		return errors.New("the guest is being migrated to another node")
	}
	return nil
}
